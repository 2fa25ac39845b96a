/** How long to wait after failures, for everything that is tried again. */
export interface BackOff {
  /** After the first failure. */
  readonly firstMs: number
  /** The longest wait, but for what jitter adds. */
  readonly lastMs: number
}

const DOUBLINGS = 20
/** Of the wait, at most: what failed together is not tried again together. */
const JITTER = 0.2

/** Doubles with each failure. `attempts` counts those before this one; `random` is at least 0 and below 1. */
export function backOffMs(attempts: number, { firstMs, lastMs }: BackOff, random: () => number = Math.random): number {
  const wait = Math.min(firstMs * 2 ** Math.min(attempts, DOUBLINGS), lastMs)
  return Math.round(wait * (1 + JITTER * random()))
}
