/**
 * What an operator watches beside requests: the process and its event loop, connections to the registry, runs, freshness,
 * stores, events that wait, upkeep. Each series is there from the start, with 0. What comes from the registry is the same
 * at every runtime that shares it: take the greatest, not the sum.
 */
import type pg from 'pg'
import { Counter, collectDefaultMetrics, Gauge, type Registry } from 'prom-client'
import { ENDPOINT_TYPES, RELAYS, type RegistryLoad, RUN_ENDS, registryLoad, UPKEEP_TASKS } from '../registry/load.ts'
import { RUN_KINDS, type RunKind } from '../registry/runs.ts'
import { SCHEDULE_STATES } from '../registry/schedules.ts'

/** A scrape asks the registry once for all of its metrics. */
const LOAD_AGE_MS = 2_000

const SCHEDULED = ['connection', 'product'] as const

type Labels = Readonly<Record<string, string>>

/** Of this process alone: its processor time, memory and event loop, and its connections to the registry. */
export function measureOwnProcess(registry: Registry, pool: pg.Pool): void {
  collectDefaultMetrics({ register: registry })
  connectionMetrics(registry, pool)
}

/** Returns what counts the runs that have ended in this process. */
export function platformMetrics(registry: Registry, pool: pg.Pool): (kind: RunKind, state: string) => void {
  measureOwnProcess(registry, pool)
  loadMetrics(registry, pool)
  const ended = new Counter({
    name: 'sluice_runs_ended_total',
    help: 'Runs that have ended in this process, by how.',
    labelNames: ['kind', 'state'],
    registers: [registry],
  })
  for (const kind of RUN_KINDS) for (const state of RUN_ENDS) ended.inc({ kind, state }, 0)
  return (kind, state) => ended.inc({ kind, state })
}

function connectionMetrics(registry: Registry, pool: pg.Pool): void {
  new Gauge({
    name: 'sluice_registry_connections',
    help: 'Connections of this process to the registry that are in use or idle, and callers that wait for one.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      this.set({ state: 'used' }, pool.totalCount - pool.idleCount)
      this.set({ state: 'idle' }, pool.idleCount)
      this.set({ state: 'waiting' }, pool.waitingCount)
    },
  })
}

/** Each by name, as long as it is one: whoever reads metrics is an operator. */
function staleProducts(registry: Registry, load: () => Promise<RegistryLoad | null>): void {
  // Of no product: the series is there before the first one is stale, so that rules can ask for it.
  const none = { tenant: '', product: '' }
  const metric = new Gauge({
    name: 'sluice_stale_product_data_seconds',
    help: 'Of products whose rows are older than slo.freshness lets them be, the 100 that are the longest: since the source was read.',
    labelNames: ['tenant', 'product'],
    registers: [registry],
    async collect() {
      const found = await load()
      if (found === null) return
      this.reset()
      this.set(none, 0)
      for (const { tenant, product, ageS } of found.freshness.worst) this.set({ tenant, product }, ageS)
    },
  })
  metric.set(none, 0)
}

function loadMetrics(registry: Registry, pool: pg.Pool): void {
  let asked: { readonly atMs: number; readonly load: Promise<RegistryLoad | null> } | null = null
  const load = (): Promise<RegistryLoad | null> => {
    if (asked === null || performance.now() - asked.atMs > LOAD_AGE_MS) {
      // A registry that does not answer is told by readiness; these have no values meanwhile.
      asked = { atMs: performance.now(), load: registryLoad(pool).catch(() => null) }
    }
    return asked.load
  }
  const gauge = (
    name: string,
    help: string,
    series: readonly Labels[],
    of: (load: RegistryLoad) => [Labels, number][],
  ): void => {
    const metric = new Gauge({
      name,
      help,
      labelNames: Object.keys(series[0] ?? {}),
      registers: [registry],
      async collect() {
        const found = await load()
        // While the registry does not answer, what it last said stays; sluice_registry_up tells.
        if (found === null) return
        for (const labels of series) this.set(labels, 0)
        for (const [labels, value] of of(found)) this.set(labels, value)
      },
    })
    for (const labels of series) metric.set(labels, 0)
  }
  new Gauge({
    name: 'sluice_registry_up',
    help: 'Whether the registry answers.',
    registers: [registry],
    async collect() {
      this.set((await load()) === null ? 0 : 1)
    },
  })
  const kinds = RUN_KINDS.map((kind) => ({ kind }))
  gauge(
    'sluice_runs',
    'Runs that wait for a place, or have one.',
    kinds.flatMap(({ kind }) => ['queued', 'running'].map((state) => ({ kind, state }))),
    ({ runs }) => runs.map(({ kind, state, count }) => [{ kind, state }, count]),
  )
  gauge('sluice_runs_oldest_wait_seconds', 'How long the run has waited that has waited longest.', kinds, ({ runs }) =>
    runs.filter(({ state }) => state === 'queued').map(({ kind, oldestS }) => [{ kind }, oldestS]),
  )
  gauge('sluice_products', 'Products that are deployed.', [{}], ({ products }) => [[{}, products.count]])
  gauge(
    'sluice_products_oldest_epoch_seconds',
    'Age of the newest epoch of the product for which that is the greatest; of one without an epoch, since it was deployed.',
    [{}],
    ({ products }) => [[{}, products.oldestS]],
  )
  gauge(
    'sluice_products_oldest_data_seconds',
    'Since the source was read, of the product for which that is longest; of one without an epoch, since it was deployed.',
    [{}],
    ({ freshness }) => [[{}, freshness.oldestS]],
  )
  gauge('sluice_products_stale', 'Products whose rows are older than slo.freshness lets them be.', [{}], (load) => [
    [{}, load.freshness.missed],
  ])
  staleProducts(registry, load)
  gauge(
    'sluice_schedules',
    'Schedules; those whose newest run failed; and those whose setter may not sync any more, which begin none.',
    SCHEDULED.flatMap((of) => SCHEDULE_STATES.map((state) => ({ of, state }))),
    ({ schedules }) => schedules.flatMap((one) => SCHEDULE_STATES.map((state) => [{ of: one.of, state }, one[state]])),
  )
  gauge(
    'sluice_endpoints',
    'Endpoints by what their store has of them.',
    ENDPOINT_TYPES.flatMap((type) => ['ok', 'pending', 'failed'].map((state) => ({ type, state }))),
    ({ endpoints }) => endpoints.map(({ type, state, count }) => [{ type, state }, count]),
  )
  gauge('sluice_events_unnumbered', 'Events that no relay has put in order yet.', [{}], ({ events }) => [[{}, events]])
  const relays = RELAYS.map((relay) => ({ relay }))
  gauge('sluice_relay_events_waiting', 'Events that the relay has not carried to its bus.', relays, (load) =>
    load.relays.map(({ relay, waiting }) => [{ relay }, waiting]),
  )
  gauge('sluice_relay_oldest_event_seconds', 'Age of the oldest of these.', relays, (load) =>
    load.relays.map(({ relay, oldestS }) => [{ relay }, oldestS]),
  )
  gauge('sluice_tenants_out_of_cpu_time', 'Tenants whose runs wait until CPU time has drained.', [{}], ({ spent }) => [
    [{}, spent],
  ])
  gauge(
    'sluice_upkeep_age_seconds',
    'Since the last turn of the task has ended, of the tenant for which that is longest.',
    UPKEEP_TASKS.map((task) => ({ task })),
    ({ upkeep }) => upkeep.map(({ task, ageS }) => [{ task }, ageS]),
  )
}
