import type { Clock } from '@sluice/sdk'

/** What aborts a signal that ran out of time; told from the caller's own abort by its class. */
export class OutOfTime extends Error {
  override readonly name = 'OutOfTime'
  readonly timeoutMs: number

  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`)
    this.timeoutMs = timeoutMs
  }
}

/** Runs `work` with a signal that aborts with `parent`, or once `timeoutMs` have passed on the host's clock. */
export async function within<T>(
  clock: Clock,
  parent: AbortSignal,
  timeoutMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController()
  const stop = clock.every(timeoutMs, () => own.abort(new OutOfTime(timeoutMs)))
  try {
    return await work(AbortSignal.any([parent, own.signal]))
  } finally {
    stop()
  }
}

/** The outcome of `work`, or the signal's reason as soon as it aborts; `work` is left to end by itself. */
export async function orAbort<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
    // Where the signal came first, nobody waits for how the work ends.
    work.catch(() => undefined)
  }
}
