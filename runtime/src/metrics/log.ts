/** Lines of the log that nobody took. */
import { Counter, type Registry } from 'prom-client'

export interface CountsDropped {
  /** Since the start. */
  dropped(): number
}

export function logMetrics(registry: Registry, { dropped }: Partial<CountsDropped>): void {
  let told = 0
  new Counter({
    name: 'sluice_log_lines_dropped_total',
    help: 'Lines of the log that were dropped because nobody read the pipe that it is written to.',
    registers: [registry],
    collect() {
      const now = dropped?.() ?? 0
      this.inc(now - told)
      told = now
    },
  })
}
