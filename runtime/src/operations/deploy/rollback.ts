/** Going back: to the last content of a version, or to that of a snapshot. */
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import type { WantedSchedule } from '../../jobs/set-schedule.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { productPaused } from '../../materializer/pauses.ts'
import { actorOf } from '../../registry/actor.ts'
import { requireStays } from '../../registry/deletions.ts'
import {
  createDeployment,
  type Deployment,
  finishDeployment,
  supersedeDeployments,
} from '../../registry/deployments.ts'
import { raiseFence } from '../../registry/fences.ts'
import { epochOfSnapshot, lastEpochOfVersion, type Materialization } from '../../registry/materializations.ts'
import { type Product, pauseOf } from '../../registry/products.ts'
import { settleRaisedColumns } from '../../registry/raised-classes.ts'
import { endKeptClasses, lockClasses, saveRawClasses } from '../../registry/raw-classes.ts'
import { enqueueRun, type Run } from '../../registry/runs.ts'
import type { Queryable } from '../../registry/sql.ts'
import { findVersion, JUDGED_BY_INFLUENCE, saveVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import { productOf } from '../products/products.ts'
import { checkManifests, loweringProblem } from './check-version.ts'
import { classesOf, copiedBy } from './column-classes.ts'
import { requireSameVersion } from './comparison.ts'
import type { DeployDeps } from './deps.ts'
import { wantedSchedule } from './product-schedule.ts'
import { keepReach, reachNote, requireSameClasses } from './raised-classes.ts'
import { requireSources } from './staying-sources.ts'
import { breakingProblem, keptUpstreams, requireNoCycle } from './upstreams.ts'

export type RollbackTarget = { readonly version: string } | { readonly snapshotId: string }

export type RollbackRequest = RollbackTarget & {
  /** Columns whose class may become lower by this. */
  readonly lower?: readonly string[] | undefined
  /** Products made of this one that may not be made any more by this. */
  readonly breaks?: readonly string[] | undefined
}

export interface RollbackAnswer {
  readonly deployment: Deployment
  readonly run: Run
  /** What it reaches in other products, in sentences. */
  readonly notes: readonly string[]
}

/** Said with every rollback. */
export const ROLLBACK_HOLDS =
  'What the rollback brings back stays: connections are synced, and the product is not made anew from them until it is resumed or deployed.'

/** What a rollback's run works from. */
export interface RollbackInput {
  readonly rollback: {
    readonly epoch: number
    readonly deployment: string
    /** Of the version that comes back; null, and of one that a release before has queued: it is not made by itself. */
    readonly schedule?: WantedSchedule | null
  }
}

/**
 * Queues the rollback; until its epoch is committed, the version in service goes on. The caller needs what deploying
 * that version would take. Throws INVALID_DATA `snapshot_not_found` or `version_not_found`, CONFLICT
 * `class_lowering_unnamed`, `plan_changed` where another version came into service since it was judged, `product_paused` where the
 * registry is older than the lake, `product_being_deleted`.
 */
export async function rollBackProduct(
  platform: DeployDeps,
  call: TenantCall,
  reference: string,
  target: RollbackRequest,
  keep: Keep<RollbackAnswer>,
): Promise<RollbackAnswer> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const old = await epochOf(platform, product, target)
  const kept = await findVersion<ManifestSet>(platform.pool, product.id, old.version)
  if (!kept) throw notFound('version')
  const { lowered, plan, manifests, origins, reach, judged, followed, upstreams } = await checkManifests(
    platform,
    call,
    product,
    old.version,
    kept,
    false,
    kept.normalised,
  )
  const problem = loweringProblem(lowered, target.lower) ?? breakingProblem(plan.downstream, target.breaks)
  if (problem !== null) throw problem
  return inTransaction(platform.pool, async (tx) => {
    const createdBy = actorOf(call.principal)
    await lockClasses(tx, call.tenant)
    await requireStays(tx, product.id)
    await requireSources(tx, call.tenant, manifests)
    const pause = await pauseOf(tx, product.id)
    // Its run would find so, and fail.
    if (pause?.reason === 'registry_outdated') throw productPaused(pause)
    await requireSameVersion(
      tx,
      product,
      'Look at the version that is in service now, and ask again where that still holds.',
    )
    await requireSameClasses(tx, platform, call.tenant, manifests, judged.hidden)
    // Those of the version in service go on to count until the next deployment.
    await saveRawClasses(tx, product, classesOf(manifests, origins), { keepFormer: true })
    await endKeptClasses(tx, call.tenant, copiedBy(judged.strict, lowered))
    await requireNoCycle(tx, product, manifests)
    const about = {
      judgedBy: JUDGED_BY_INFLUENCE,
      origins: judged.strict,
      judgedColumns: judged.inputs,
      heldShapes: judged.shapes,
    }
    await saveVersion(tx, { ...kept, ...about, upstreams: keptUpstreams(call, manifests, upstreams) })
    await settleRaisedColumns(tx, product.id, manifests.digest, lowered)
    await keepReach(tx, call, product, reach)
    await supersedeDeployments(tx, product.id, { keepsAwaited: true })
    const { token } = await raiseFence(tx, product.id)
    const work = { tenant: call.tenant, productId: product.id, createdBy } as const
    const { version, digest } = kept
    const deployment = await createDeployment(tx, { ...work, kind: 'rollback', version, digest, fence: token, plan })
    const schedule = wantedSchedule(call, manifests, followed)
    const input: RollbackInput = { rollback: { epoch: old.epoch as number, deployment: deployment.id, schedule } }
    const run = await enqueueRun(tx, { ...work, kind: 'materialization', trigger: 'rollback', input: { ...input } })
    const details = { version, epoch: old.epoch, ...(lowered.length > 0 ? { lowered_classes: lowered } : {}) }
    await audited(tx, call, call.tenant, 'product.rollback', { type: 'product', id: product.id }, details)
    const answer = { deployment, run, notes: reach.products.map(reachNote) }
    await keep(tx, answer)
    return answer
  })
}

async function epochOf(platform: DeployDeps, product: Product, target: RollbackTarget): Promise<Materialization> {
  const found =
    'version' in target
      ? await lastEpochOfVersion(platform.pool, product.id, target.version)
      : await epochOfSnapshot(platform.pool, product.id, target.snapshotId)
  if (!found) throw notFound('version' in target ? 'version' : 'snapshot')
  return found
}

/** The rollback that a run is for; null where it is another run. */
export function rollbackOf(run: Run): RollbackInput['rollback'] | null {
  const { rollback } = run.input as Partial<RollbackInput>
  return rollback ?? null
}

/** A rollback whose run did not succeed has failed, and says why. Repeatable. */
export async function endRollback(
  db: Queryable,
  run: Run,
  error: { readonly code: string; readonly message: string },
): Promise<void> {
  const rollback = rollbackOf(run)
  if (rollback) await finishDeployment(db, rollback.deployment, 'failed', error)
}
