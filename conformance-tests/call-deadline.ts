/**
 * Of one call of a plugin, in real milliseconds: one that hangs fails its check in place of the whole run. How soon a
 * call ends is no check's business, since a machine may be busy with something else.
 */
export const CALL_TIMEOUT_MS = 300_000

export const callDeadline = (): AbortSignal => AbortSignal.timeout(CALL_TIMEOUT_MS)
