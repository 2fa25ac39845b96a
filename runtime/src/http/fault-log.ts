import { isSluiceError, type Logger } from '@sluice/sdk'
import type { Call } from '../flow.ts'

const WINDOW_MS = 10_000
/** Of one code within that time; what is away fails every request alike, and would fill the disk in an hour. */
const MOST_LINES = 20

interface Window {
  readonly sinceMs: number
  lines: number
  leftOut: number
}

/**
 * Only here does the process's log say what was behind an internal error. Of many alike the first are told; the first of a
 * later time says how many were not.
 */
export function faultLog(
  logger: Logger,
  nowMs: () => number = () => performance.now(),
): (error: unknown, call: Pick<Call, 'requestId' | 'traceparent'>) => void {
  const windows = new Map<string | undefined, Window>()
  return (error, call) => {
    const code = isSluiceError(error) ? error.code : undefined
    const known = windows.get(code)
    const isOver = known === undefined || nowMs() - known.sinceMs >= WINDOW_MS
    const window = isOver ? { sinceMs: nowMs(), lines: 0, leftOut: 0 } : known
    if (isOver) windows.set(code, window)
    if (window.lines === MOST_LINES) {
      window.leftOut += 1
      return
    }
    window.lines += 1
    const cause = error instanceof Error ? error.cause : undefined
    logger.error('a request failed', {
      request_id: call.requestId,
      trace_id: call.traceparent?.split('-')[1],
      code,
      error: textOf(error),
      cause: cause === undefined ? undefined : textOf(cause),
      ...(isOver && known !== undefined && known.leftOut > 0 ? { left_out: known.leftOut } : {}),
    })
  }
}

/** A thread's own error comes as the text of its stack. */
function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
