/** Ctrl-C during the live demo: the first ends it, with its comparison, the second everything at once. */

/** npm hands on the Ctrl-C that the terminal has sent us already. */
const SAME_SIGNAL_MS = 500

export interface Stopping {
  readonly signal: AbortSignal
  /** Null until everything is to end at once; it never resolves, for the process ends with it. */
  readonly ending: Promise<never> | null
  /** Resolves at the next signal. */
  asked(): Promise<void>
  forget(): void
}

/** The first signal ends the show, the second everything at once. */
export function stopByUser(endNow: () => Promise<never>): Stopping {
  const asked = new AbortController()
  let [firstMs, ending]: [number | null, Promise<never> | null] = [null, null]
  let resume: (() => void) | null = null
  const heard = () => {
    const nowMs = performance.now()
    if (resume !== null) resume()
    else if (firstMs !== null && nowMs - firstMs > SAME_SIGNAL_MS) ending ??= endNow()
    resume = null
    firstMs ??= nowMs
    asked.abort()
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, heard)
  return {
    signal: asked.signal,
    get ending() {
      return ending
    },
    asked() {
      firstMs = null
      return new Promise((resolve) => {
        resume = resolve
      })
    },
    forget() {
      for (const signal of signals) process.off(signal, heard)
    },
  }
}
