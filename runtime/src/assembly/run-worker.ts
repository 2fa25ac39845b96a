/** What the worker does with a run: ingestions and materializations, and the jobs for stores that wait for another try. */
import { isSluiceError } from '@sluice/sdk'
import type { DependencyContainer } from 'tsyringe'
import { appendEvent } from '../events/outbox.ts'
import { erasureOf } from '../ingestion/erasure/erasure-input.ts'
import { type ErasureDeps, runErasure } from '../ingestion/erasure/run-erasure.ts'
import type { IngestionDeps } from '../ingestion/ingestion-run.ts'
import { makeWave } from '../ingestion/make-wave.ts'
import { outcomeText, publishedOutcome, unpublishedOutcome } from '../ingestion/product-outcome.ts'
import { productProgress } from '../ingestion/product-progress.ts'
import { replayOf } from '../ingestion/replay/replay-input.ts'
import { runReplay } from '../ingestion/replay/run-replay.ts'
import { runIngestion } from '../ingestion/run-ingestion.ts'
import { runLeft } from '../ingestion/run-left.ts'
import { isWorthRetrying, type RunPlace, Worker } from '../ingestion/worker.ts'
import { askForJobs } from '../jobs/claims.ts'
import type { JobKind, JobSource } from '../jobs/worker.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { type ComparisonDeps, type ComparisonJob, comparisonJob } from '../materializer/comparison-job.ts'
import type { MaterializeDeps } from '../materializer/deps.ts'
import { requireDue } from '../materializer/due.ts'
import { materialize } from '../materializer/materialize.ts'
import { rollBack } from '../materializer/roll-back.ts'
import { catchUp } from '../materializer/sync-endpoints.ts'
import { UNCHANGED } from '../materializer/unchanged.ts'
import { openConnector, readsAtOneMoment } from '../operations/connections/connections.ts'
import { removePreview } from '../operations/deploy/previews.ts'
import { endRollback, rollbackOf } from '../operations/deploy/rollback.ts'
import { readersOf } from '../operations/products/input-reads.ts'
import { noteIncidents } from '../operations/runs/run-incidents.ts'
import { CANCELLED } from '../operations/runs/runs.ts'
import { checkStorage } from '../operations/tenants/tenants.ts'
import { findConnection } from '../registry/connections.ts'
import { onAccountOf } from '../registry/cpu-accounts.ts'
import { recordedError } from '../registry/deployments.ts'
import { ENDPOINTS_JOB, endpointsDue } from '../registry/endpoint-states.ts'
import { closeErasures } from '../registry/erasures.ts'
import { isFollowing } from '../registry/follows.ts'
import { leftBy } from '../registry/left-runs.ts'
import { latestEpoch, tellLaterReads } from '../registry/materializations.ts'
import { askToTell } from '../registry/openlineage-runs.ts'
import { findProduct, productsInServiceOf } from '../registry/products.ts'
import type { ClaimedRun, RunOutcome } from '../registry/run-claims.ts'
import { appendRunLog, saveRunResult } from '../registry/run-progress.ts'
import type { RunKind } from '../registry/runs.ts'
import { findVersion } from '../registry/versions.ts'
import type { Platform } from './platform.ts'
import { TOKENS } from './tokens.ts'

const DUE_AT_ONCE = 100
const RETRY_POLL_MS = 1_000
/** By a person, for this product alone. */
const ASKED: ReadonlySet<string> = new Set(['manual', 'retry'])
/** Of what concerns the whole product; each endpoint's own failures have their own timetable, which its state tells. */
const RETRY_BACK_OFF = { firstMs: 2_000, lastMs: 300_000 } as const

export function createWorker(
  container: DependencyContainer,
  onEnded: (kind: RunKind, state: RunOutcome['state']) => void,
): Worker {
  const platform = container.resolve(TOKENS.platform)
  const deps = container.resolve(TOKENS.materialize)
  const { config, pool, logger } = platform
  return new Worker({
    pool,
    logger,
    slots: config.limits.workers,
    leaseMs: config.limits.lease_ms,
    execute: (claimed, signal, place) =>
      onAccountOf(claimed.run.tenant, () =>
        // What an attempt has not published, nobody publishes any more: another one writes anew.
        deps.lake.writing((lake) => execute(claimed, signal, place, platform, { ...deps, lake })),
      ),
    onFinished(claimed, outcome) {
      onEnded(claimed.run.kind, outcome.state)
      return announce(platform, claimed, outcome)
    },
  })
}

async function execute(
  { run, lease }: ClaimedRun,
  signal: AbortSignal,
  { toTransforms }: RunPlace,
  platform: Platform,
  deps: MaterializeDeps,
): Promise<Readonly<Record<string, unknown>>> {
  const ingestion = ingestionDeps(platform, deps)
  if (run.kind === 'ingestion') {
    const connection = await findConnection(platform.pool, run.tenant, run.connectionId as string)
    if (connection === null) return {}
    const replay = replayOf(run)
    const erasure = erasureOf(run)
    const about = { connection, lease, signal, toTransforms, isFollowing: isFollowing(run) }
    if (erasure !== null) {
      const { exportFiles, changeSpools } = platform
      const forgetSpools = (tenant: string) => changeSpools.forgetOf(tenant)
      const endPreview: ErasureDeps['endPreview'] = (preview, note) =>
        removePreview(platform, preview, note, deps.faultPoint, signal)
      return runErasure(about, erasure, { ...ingestion, materializer: deps, exportFiles, forgetSpools, endPreview })
    }
    return replay === null ? runIngestion(about, ingestion) : runReplay(about, replay, ingestion)
  }
  const product = await findProduct(platform.pool, run.tenant, run.productId as string)
  if (!product) return {}
  const left = leftBy(run)
  if (left !== null) return runLeft({ product, lease, signal }, left, ingestion)
  const { pool } = platform
  const rollback = rollbackOf(run)
  const { begun, report, settle } = productProgress(platform.pool, lease, product, [])
  begun()
  const about = { product, runId: run.id, signal, report }
  const work = rollback
    ? rollBack({ ...about, ...rollback, deploymentId: rollback.deployment, schedule: rollback.schedule ?? null }, deps)
    : materialize({ ...about, isAsked: ASKED.has(run.trigger) }, deps)
  const outcome = await work.finally(settle).then(
    async (result) => {
      const made = publishedOutcome(product, result)
      for (const note of result.contractNotes) await appendRunLog(pool, lease, 'warn', `${made.name}: ${note}`)
      return made
    },
    async (error: unknown) => {
      // A version that was refused is in service no longer.
      platform.served.drop(run.tenant)
      if (!signal.aborted && !isSluiceError(error, 'FENCED')) {
        await deps.noteBegun(product, run.id, null)
        const newest = await latestEpoch(platform.pool, product.id)
        const failed = unpublishedOutcome(product, 'failed', recordedError(error), newest?.epoch ?? null)
        await saveRunResult(platform.pool, lease, { products: [failed] })
        await appendRunLog(platform.pool, lease, 'error', outcomeText(failed))
      }
      throw error
    },
  )
  platform.served.drop(run.tenant)
  await saveRunResult(pool, lease, { products: [outcome] })
  await appendRunLog(pool, lease, outcome.state === 'succeeded' ? 'info' : 'warn', outcomeText(outcome))
  const version = product.currentVersion && (await findVersion<ManifestSet>(pool, product.id, product.currentVersion))
  if (!version) return { products: [outcome] }
  // What is made of it follows in the same run, so that all of it rests on the same rows.
  const first = [{ product, manifests: version.normalised }]
  const wave = await makeWave({ lease, signal }, first, { unread: () => null, done: [outcome] }, ingestion)
  await saveRunResult(pool, lease, { products: wave.outcomes })
  // What others make of it is told of them. What may pass is tried again, by a run that has made this one already.
  const passing = wave.errors.find(
    (error) => isSluiceError(error) && (error.kind === 'FENCED' || isWorthRetrying(error)),
  )
  if (passing !== undefined) throw passing
  return { products: wave.outcomes }
}

function ingestionDeps(platform: Platform, deps: MaterializeDeps): IngestionDeps {
  const { pool, masters, logger } = platform
  return {
    pool,
    masters,
    lake: deps.lake,
    logger,
    faultPoint: deps.faultPoint,
    limits: deps.limits,
    openConnector: (connection, options) => openConnector(platform, connection, options),
    readsAtOneMoment: (connection) => readsAtOneMoment(platform, connection),
    checkStorage: (tenant) => checkStorage(platform, tenant),
    logSpool: { bytes: platform.config.log_spool.bytes, allBytes: platform.config.log_spool.all_bytes },
    scratchDirectory: platform.scratchDirectory,
    async tellLogLost(tx, { id, tenant, name }, { reason, runId }) {
      const data = { connection: name, reason, run: runId }
      await appendEvent(tx, { tenant, kind: 'ingestion', name: 'log_begun_anew', subject: id, data })
    },
    productsOf: (connection) => readersOf(pool, connection),
    async readersOfProducts(tenant, names) {
      const readers = await productsInServiceOf<ManifestSet>(pool, tenant, names)
      return readers.map(({ product, normalised }) => ({ product, manifests: normalised }))
    },
    noteBegun: deps.noteBegun,
    requireDue: (request) => requireDue(request, deps),
    async materialize(request) {
      try {
        const made = await materialize(request, deps)
        platform.served.drop(request.product.tenant)
        return made
      } catch (error) {
        // What is as it was is asked for by hundreds of others of the wave, and by readers meanwhile.
        if (!isSluiceError(error) || error.code !== UNCHANGED) platform.served.drop(request.product.tenant)
        throw error
      }
    },
    async tellLaterReads(tenant) {
      await tellLaterReads(pool, tenant)
      platform.served.drop(tenant)
    },
  }
}

async function announce(platform: Platform, { run }: ClaimedRun, outcome: RunOutcome): Promise<void> {
  const client = await platform.pool.connect()
  try {
    const data = outcome.state === 'failed' ? { error: outcome.error.code } : {}
    await client.query('begin')
    if (outcome.state !== 'succeeded') {
      await endRollback(client, run, outcome.state === 'failed' ? outcome.error : CANCELLED)
    }
    await appendEvent(client, { tenant: run.tenant, kind: 'ingestion', name: outcome.state, subject: run.id, data })
    if (erasureOf(run) !== null) await closeErasures(client, run.tenant)
    await noteIncidents(client, run, outcome)
    if (platform.config.openlineage !== undefined) await askToTell(client, run.tenant)
    await client.query('commit')
    client.release()
  } catch (error) {
    client.release(true)
    platform.logger.warn('the end of a run could not be announced', { run: run.id, error: (error as Error).message })
  }
}

/** Compares the copies in stores with the lake; null where nobody wants it. */
export function storeComparisons(
  container: DependencyContainer,
  onCompared: ComparisonDeps['onCompared'],
): ComparisonJob | null {
  const { served, config } = container.resolve(TOKENS.platform)
  const { compare_minutes: minutes, compare_rows_per_second: rowsPerSecond, compare_share: share } = config.upkeep
  if (minutes === 0) return null
  const deps = container.resolve(TOKENS.materialize)
  const settings = { everyMs: minutes * 60_000, rowsPerSecond, share }
  return comparisonJob(settings, { ...deps, onLost: (tenant) => served.drop(tenant), onCompared })
}

/** Brings stores up to date that are behind, product by product. One store's failure is retried alone, by its own timetable. */
export function storeRetries(container: DependencyContainer): { readonly kind: JobKind; readonly source: JobSource } {
  const { pool, served } = container.resolve(TOKENS.platform)
  const deps = container.resolve(TOKENS.materialize)
  return {
    kind: {
      kind: ENDPOINTS_JOB,
      failed: 'stores of a product could not be brought up to date; it is tried again',
      backOff: RETRY_BACK_OFF,
      async work({ key, tenant }, signal) {
        const product = tenant === null ? null : await findProduct(pool, tenant, key)
        if (product === null) return null
        // What a run is writing meanwhile stays in mind: it drops that by itself.
        if (await onAccountOf(product.tenant, () => catchUp(product, signal, deps))) served.drop(product.tenant)
        return null
      },
    },
    source: {
      everyMs: RETRY_POLL_MS,
      async enlist() {
        const due = await endpointsDue(pool, DUE_AT_ONCE)
        await askForJobs(
          pool,
          due.map(({ productId: key, tenant }) => ({ kind: ENDPOINTS_JOB, key, tenant })),
        )
      },
    },
  }
}
