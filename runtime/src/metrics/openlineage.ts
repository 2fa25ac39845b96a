/** What an OpenLineage endpoint has not been told yet, from the registry, and what it was told and was not by this process. */
import type pg from 'pg'
import { Counter, Gauge, type Registry } from 'prom-client'
import { openLineageLoad } from '../registry/openlineage-runs.ts'

const DROPS = ['age', 'count', 'refused'] as const

/** Of this process. */
export interface OpenLineageCounts {
  /** An event was taken by the endpoint. */
  sent(): void
  /** Runs by `age` and `count`, events by `refused`. */
  dropped(why: (typeof DROPS)[number], count: number): void
}

export function openLineageMetrics(registry: Registry, pool: pg.Pool): OpenLineageCounts {
  const registers = [registry]
  const lag = new Gauge({
    name: 'sluice_openlineage_lag_seconds',
    help: 'How long the oldest of them has waited.',
    registers,
  })
  new Gauge({
    name: 'sluice_openlineage_waiting_runs',
    help: 'Runs of products of which an OpenLineage event waits to be delivered.',
    registers,
    async collect() {
      // While the registry does not answer, what it last said stays; sluice_registry_up tells.
      const found = await openLineageLoad(pool).catch(() => null)
      if (found === null) return
      this.set(found.waiting)
      lag.set(found.lagSeconds)
    },
  })
  const sent = new Counter({
    name: 'sluice_openlineage_sent_total',
    help: 'OpenLineage events that the endpoint has taken from this process.',
    registers,
  })
  const dropped = new Counter({
    name: 'sluice_openlineage_dropped_total',
    help: 'What this process gave up: runs that waited for too long (age) or were too many (count), events that the endpoint called invalid (refused).',
    labelNames: ['why'],
    registers,
  })
  for (const why of DROPS) dropped.inc({ why }, 0)
  return { sent: () => sent.inc(), dropped: (why, count) => dropped.inc({ why }, count) }
}
