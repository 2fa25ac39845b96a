/**
 * A terminal's Ctrl-C, or a manager of services, tells every process of a runtime to stop. The runtime lets what is under way
 * end, and ends its children itself, by a signal that none of them can refuse; with it they end, too.
 */
export function leaveSignalsToParent(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
}
