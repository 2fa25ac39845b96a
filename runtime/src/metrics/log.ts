/** Lines of the log that nobody took. */
import type { Registry } from 'prom-client'
import { runningTotal } from './running-total.ts'

export interface CountsDropped {
  /** Since the start. */
  dropped(): number
}

export function logMetrics(registry: Registry, { dropped }: Partial<CountsDropped>): void {
  runningTotal(
    registry,
    'sluice_log_lines_dropped_total',
    'Lines of the log that were dropped because nobody read the pipe that it is written to.',
    () => dropped?.() ?? 0,
  )
}
