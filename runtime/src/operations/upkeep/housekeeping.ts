/** What is done by the clock beside the runs of tenants: upkeep of the lake, and of tables that only grow. */
import { randomUUID } from 'node:crypto'
import type { EngineLimits } from '@sluice/engine'
import { inTransaction } from '../../database/pools.ts'
import { notifications } from '../../events/notify.ts'
import { pruneEvents, tenantsWithTopics } from '../../events/outbox.ts'
import { expectForTenants, expectJob, forgetOrphans, type NextDue } from '../../jobs/claims.ts'
import type { JobKind, JobSource } from '../../jobs/worker.ts'
import { reviewStores } from '../../materializer/store-review.ts'
import { StoreProbes } from '../../plugins/store-probes.ts'
import { pruneAgentBudgets } from '../../registry/agent-budgets.ts'
import { setForwardMs } from '../../registry/clock.ts'
import { pruneIdempotencyKeys } from '../../registry/idempotency.ts'
import { pruneIncidents } from '../../registry/incidents.ts'
import { Outage } from '../../registry/outage.ts'
import type { PagePosition } from '../../registry/paging.ts'
import { prunePushKeys } from '../../registry/push-spool.ts'
import { pruneQuarantine } from '../../registry/quarantine.ts'
import { pruneRateBuckets } from '../../registry/rate-buckets.ts'
import { pruneBlocked, pruneRuns } from '../../registry/run-retention.ts'
import { listTenants } from '../../registry/tenants.ts'
import { reviewRegistry } from '../products/outdated-registry.ts'
import { reviewBucket, unknownBuckets } from '../tenants/tenant-bucket.ts'
import { undoAbandoned } from '../tenants/tenants.ts'
import { CAPTURES_JOB, captureWatch } from './capture-watch.ts'
import { followClock } from './clock-set-back.ts'
import type { UpkeepDeps } from './deps.ts'
import { FRESHNESS_JOB, freshnessWatch } from './freshness-watch.ts'
import { keepUp, type UpkeepTask } from './lake-upkeep.ts'

const POLL_MS = 30_000
const MINUTE_MS = 60_000
/** Reads look at their own copies; this is for those that nobody reads. */
const REVIEW_MS = 10 * MINUTE_MS
const TURN_MS = 10 * MINUTE_MS
const PRUNED_AT_ONCE = 1_000
const TENANTS_AT_ONCE = 200
/** Of each connection and product, however old: the description of `run_days` says it. */
const RUNS_LEFT = 20

const UPKEEP = 'upkeep'
const REVIEW = 'stores.review'
const ABANDONED = 'tenants.abandoned'

export interface Housekeeping {
  readonly kinds: readonly JobKind[]
  readonly sources: readonly JobSource[]
  /** Why a store does not keep tenants apart, as the last review has found; null where it does. */
  storeFault(type: string): string | null
  /** Buckets of tenants that the last review has found beside a registry that has never had a tenant. */
  unknownBuckets(): number
}

/** The jobs, and what notes them for tenants that come. */
export function housekeeping(platform: UpkeepDeps, limits: EngineLimits): Housekeeping {
  const { upkeep } = platform.config
  const everyMs: Readonly<Record<UpkeepTask | 'prune', number>> = {
    prune: upkeep.prune_minutes * MINUTE_MS,
    expire: upkeep.expire_minutes * MINUTE_MS,
    compact: upkeep.compact_minutes * MINUTE_MS,
    clean: upkeep.clean_minutes * MINUTE_MS,
    // By command alone.
    check: 0,
  }
  const work = (task: UpkeepTask | 'prune') => (tenant: string, signal: AbortSignal) =>
    task === 'prune' ? prune(platform, signal) : seeTo(platform, { tenant, task, limits }, signal)
  const kinds = (Object.keys(everyMs) as (UpkeepTask | 'prune')[])
    .filter((task) => everyMs[task] > 0)
    .map((task) => inTurns(task, everyMs[task], work(task)))
  let unknown = 0
  const probes = new StoreProbes(platform.plugins, platform.logger)
  const review = reviewOf(platform, probes, (buckets) => {
    unknown = buckets
  })
  const { pool, masters, connectorHost } = platform
  const telling = { pool, masters, network: connectorHost.network }
  return {
    storeFault: (type) => probes.fault(type),
    unknownBuckets: () => unknown,
    kinds: [
      ...kinds,
      review,
      abandoned(platform),
      freshnessWatch(platform.pool),
      captureWatch(platform),
      notifications(telling),
    ],
    sources: [
      clockWatch(platform),
      { everyMs: POLL_MS, enlist: () => enlist(platform, everyMs, review.key as string) },
    ],
  }
}

/** Not a job: those of a clock that was set back would wait for it. */
function clockWatch({ pool, logger }: UpkeepDeps): JobSource {
  const forward = new Outage()
  return {
    everyMs: POLL_MS,
    async enlist() {
      const aheadMs = setForwardMs()
      const seconds = Math.round(aheadMs / 1000)
      if (aheadMs > FORWARD_MS) forward.tell(() => logger.warn(SET_FORWARD, { seconds, remedy: IF_RIGHT }))
      else forward.over()
      const backS = await followClock(pool)
      if (backS !== null) logger.warn(SET_BACK, { seconds: Math.round(backS) })
    },
  }
}

const FORWARD_MS = 60 * MINUTE_MS
const SET_FORWARD =
  'the clock of this machine was set forward, or the machine slept: nothing is removed by age as if that time had passed'
const IF_RIGHT =
  'Set the clock right. Where it is right now, restart the runtime: it believes the clock that it starts with.'
const SET_BACK = 'the database’s clock was set back: what waits for it comes sooner by as much'

/** Turns begin so long after each other, whether they end well or not: what fails is seen to in the next one. */
function inTurns(task: string, everyMs: number, work: (tenant: string, signal: AbortSignal) => Promise<void>): JobKind {
  return {
    kind: `${UPKEEP}.${task}`,
    lane: UPKEEP,
    failed: `upkeep failed: ${task}`,
    backOff: { firstMs: everyMs, lastMs: everyMs },
    async work(job, signal): Promise<NextDue> {
      await work(job.key, signal)
      return { from: 'start', ms: everyMs }
    },
  }
}

/** Each runtime for itself, since stores may be folders of its own: at start, and from time to time. */
function reviewOf(platform: UpkeepDeps, probes: StoreProbes, onUnknown: (buckets: number) => void): JobKind {
  return {
    kind: REVIEW,
    key: randomUUID(),
    failed: 'stores could not be reviewed; it is tried again',
    backOff: { firstMs: REVIEW_MS, lastMs: REVIEW_MS },
    async work(_, signal): Promise<NextDue> {
      await probes.review(signal)
      await reviewStores(platform, signal)
      onUnknown(await unknownBuckets(platform))
      for await (const tenant of activeTenants(platform)) {
        if (await reviewBucket(platform, tenant)) await reviewRegistry(platform, tenant, signal)
      }
      return { from: 'start', ms: REVIEW_MS }
    },
  }
}

function abandoned(platform: UpkeepDeps): JobKind {
  return {
    kind: ABANDONED,
    failed: 'tenants whose making was abandoned could not be seen to',
    backOff: { firstMs: POLL_MS, lastMs: POLL_MS },
    async work(): Promise<NextDue> {
      await undoAbandoned(platform)
      return { from: 'end', ms: POLL_MS }
    },
  }
}

async function enlist({ pool }: UpkeepDeps, everyMs: Readonly<Record<string, number>>, review: string): Promise<void> {
  await expectJob(pool, { kind: REVIEW, key: review }, 0)
  await forgetOrphans(pool, REVIEW)
  await expectJob(pool, { kind: ABANDONED, key: '' }, POLL_MS)
  await expectJob(pool, { kind: FRESHNESS_JOB, key: '' }, 0)
  await expectJob(pool, { kind: CAPTURES_JOB, key: '' }, POLL_MS)
  const { prune: pruneMs = 0, ...ofTenants } = everyMs
  if (pruneMs > 0) await expectJob(pool, { kind: `${UPKEEP}.prune`, key: '' }, POLL_MS)
  const tasks = Object.entries(ofTenants).filter(([, ms]) => ms > 0)
  await expectForTenants(pool, Object.fromEntries(tasks.map(([task, ms]) => [`${UPKEEP}.${task}`, ms])), POLL_MS)
}

async function seeTo(
  platform: UpkeepDeps,
  what: { readonly tenant: string; readonly task: UpkeepTask; readonly limits: EngineLimits },
  signal: AbortSignal,
): Promise<void> {
  const { tenant, task } = what
  const report = await keepUp(platform, { ...what, untilMs: performance.now() + TURN_MS }, signal)
  if (report.tables.length > 0) {
    platform.logger.info('the lake was seen to', { tenant, task, tables: report.tables.length })
  }
}

async function prune(deps: UpkeepDeps, signal: AbortSignal): Promise<void> {
  const { pool } = deps
  while ((await pruneIdempotencyKeys(pool, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
  while ((await inTransaction(pool, (tx) => prunePushKeys(tx, PRUNED_AT_ONCE))) > 0) signal.throwIfAborted()
  while ((await pruneRateBuckets(pool, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
  while ((await pruneAgentBudgets(pool, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
  // By the database's clock, which on the same machine was set forward with it: as with snapshots, nothing goes that cannot come back.
  if (setForwardMs() <= FORWARD_MS) await pruneHistory(deps, signal)
}

async function pruneHistory({ pool, config }: UpkeepDeps, signal: AbortSignal): Promise<void> {
  const { quarantine_days: days, run_days: runDays, run_most: most } = config.upkeep
  await pruneRuns(pool, { days: runDays, most, least: RUNS_LEFT }, signal)
  while ((await pruneBlocked(pool, runDays, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
  while ((await pruneQuarantine(pool, days, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
  while ((await pruneIncidents(pool, PRUNED_AT_ONCE)) === PRUNED_AT_ONCE) signal.throwIfAborted()
  for (const tenant of await tenantsWithTopics(pool)) {
    while ((await inTransaction(pool, (tx) => pruneEvents(tx, tenant))) > 0) signal.throwIfAborted()
  }
}

async function* activeTenants({ pool }: UpkeepDeps): AsyncGenerator<string> {
  let after: PagePosition | null = null
  do {
    const page: Awaited<ReturnType<typeof listTenants>> = await listTenants(pool, { limit: TENANTS_AT_ONCE, after })
    for (const tenant of page.items) if (tenant.status === 'active') yield tenant.slug
    after = page.next
  } while (after !== null)
}
