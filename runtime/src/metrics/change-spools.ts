/** Followers of changes, and what is kept on disk for them. */
import { Gauge, type Registry } from 'prom-client'
import { runningTotal } from './running-total.ts'

export interface SpoolLoad {
  readonly followers: number
  readonly bytes: number
  readonly computed: number
}

export function spoolMetrics(registry: Registry, spools: { load(): SpoolLoad }): void {
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value())
      },
    })
  gauge('sluice_change_streams', 'Streams of changes that are open.', () => spools.load().followers)
  gauge('sluice_change_spool_bytes', 'Differences kept on disk for them.', () => spools.load().bytes)
  runningTotal(
    registry,
    'sluice_change_differences_total',
    'Differences of two epochs that were computed for them, each once for all that follow.',
    () => spools.load().computed,
  )
}
