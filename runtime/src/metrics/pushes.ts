/** Rows that were pushed and that no run has taken yet, as metrics: from the registry, of all connections together. */
import type pg from 'pg'
import { Gauge, type Registry } from 'prom-client'
import { pushLoad } from '../registry/push-spool.ts'

export function pushMetrics(registry: Registry, pool: pg.Pool): void {
  const registers = [registry]
  const bytes = new Gauge({ name: 'sluice_pushed_bytes', help: 'Bytes of them in the registry.', registers })
  const age = new Gauge({
    name: 'sluice_pushed_age_seconds',
    help: 'How long the oldest of them has waited.',
    registers,
  })
  new Gauge({
    name: 'sluice_pushed_rows',
    help: 'Rows that were pushed to connections and wait for a run to take them.',
    registers,
    async collect() {
      // While the registry does not answer, what it last said stays; sluice_registry_up tells.
      const found = await pushLoad(pool).catch(() => null)
      if (found === null) return
      this.set(found.rows)
      bytes.set(found.bytes)
      age.set(found.ageSeconds)
    },
  })
}
