/** What runtimes do by the clock, as metrics: what waits comes from the registry, what has ended from this process. */
import type pg from 'pg'
import { Counter, Gauge, type Registry } from 'prom-client'
import { type JobLoad, jobLoad } from '../jobs/claims.ts'
import type { JobEnd, JobKind } from '../jobs/worker.ts'

const STATES = ['due', 'running', 'late', 'failing'] as const
const ENDS: readonly JobEnd[] = ['done', 'failed', 'released', 'lost']

/** Returns what counts the jobs that have ended in this process. */
export function jobMetrics(
  registry: Registry,
  pool: pg.Pool,
  kinds: readonly Pick<JobKind, 'kind'>[],
): (kind: string, end: JobEnd) => void {
  const jobs = new Gauge({
    name: 'sluice_jobs',
    help: 'Jobs that are due, running, more than a minute late, or failed when they were tried last.',
    labelNames: ['kind', 'state'],
    registers: [registry],
    async collect() {
      // While the registry does not answer, what it last said stays; sluice_registry_up tells.
      const found = await jobLoad(pool).catch(() => null)
      if (found === null) return
      setAll(this, kinds, [])
      setAll(this, found, found)
    },
  })
  setAll(jobs, kinds, [])
  const ended = new Counter({
    name: 'sluice_jobs_ended_total',
    help: 'Jobs that have ended in this process, by how; those given back at a stop and those lost to another runtime count too.',
    labelNames: ['kind', 'end'],
    registers: [registry],
  })
  for (const { kind } of kinds) for (const end of ENDS) ended.inc({ kind, end }, 0)
  return (kind, end) => ended.inc({ kind, end })
}

function setAll(gauge: Gauge<'kind' | 'state'>, kinds: readonly { readonly kind: string }[], load: readonly JobLoad[]) {
  for (const { kind } of kinds) {
    const found = load.find((one) => one.kind === kind)
    for (const state of STATES) gauge.set({ kind, state }, found?.[state] ?? 0)
  }
}
