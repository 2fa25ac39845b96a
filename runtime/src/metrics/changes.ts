/** How far topics of changed rows are behind the lake, as metrics. */
import type pg from 'pg'
import { Counter, Gauge, type Registry } from 'prom-client'
import { type ChangeBacklog, changeBacklog } from '../registry/change-topics.ts'

const labelNames = ['variant'] as const
const VARIANTS = ['masked', 'clear'] as const

/** Returns what counts the rows that were sent. */
export function changeMetrics(registry: Registry, pool: pg.Pool): (variant: string, rows: number) => void {
  const gauge = (name: string, help: string, of: (backlog: ChangeBacklog) => number) => {
    const metric = new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      async collect() {
        // While the registry does not answer, what it last said stays; sluice_registry_up tells.
        const backlogs = await changeBacklog(pool).catch(() => null)
        if (backlogs === null) return
        for (const variant of VARIANTS) this.set({ variant }, 0)
        for (const backlog of backlogs) this.set({ variant: backlog.variant }, of(backlog))
      },
    })
    for (const variant of VARIANTS) metric.set({ variant }, 0)
  }
  gauge('sluice_change_topics', 'Topics of changed rows.', ({ topics }) => topics)
  gauge('sluice_change_topics_failing', 'Topics of changed rows that wait after an error.', ({ failing }) => failing)
  gauge(
    'sluice_change_epochs_behind',
    'Epochs that the lake has and a topic has not; the most of any.',
    ({ behind }) => behind,
  )
  const sent = new Counter({
    name: 'sluice_changes_sent_total',
    help: 'Changed rows that the event bus has acknowledged to this process.',
    labelNames,
    registers: [registry],
  })
  for (const variant of VARIANTS) sent.inc({ variant }, 0)
  return (variant, rows) => sent.inc({ variant }, rows)
}
