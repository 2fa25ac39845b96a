/**
 * A rollback: a new epoch with the content of an older one, under the manifests and with the watermarks of that time.
 * The rows in clear are the old snapshot itself; twins are made from it anew, by the masks of today. What it brought
 * back stays until the product is resumed or deployed: the next sync would undo it otherwise.
 */

import { planRestore, type StagedCommit, type TableState } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { keepSchedule, type WantedSchedule } from '../jobs/set-schedule.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { epochMasks } from '../policy/made-masks.ts'
import { finishDeployment, supersedeDeployments } from '../registry/deployments.ts'
import { raiseFence } from '../registry/fences.ts'
import {
  findEpoch,
  type Materialization,
  materializationOfRun,
  recordEpoch,
  reserveEpoch,
} from '../registry/materializations.ts'
import { setObjective } from '../registry/product-freshness.ts'
import { type Product, setPause, updateProduct } from '../registry/products.ts'
import { type Deployed, deployedVersion, keysFor } from './deployed.ts'
import type { MaterializeDeps } from './deps.ts'
import { noteEpoch, pauseIfOutdated } from './epoch-note.ts'
import { stateOfScan, stateTable } from './lake-state.ts'
import { maskKeySteps, twinSelect } from './mask-sql.ts'
import { type MaterializeRequest, type MaterializeResult, openlyQuarantined } from './materialize.ts'
import { productPaused } from './pauses.ts'
import { withProductLock } from './product-lock.ts'
import { expectStores, type StoreOutcome, syncEndpoints } from './sync-endpoints.ts'
import { lakeTable, layoutOf, type VariantPlan } from './variants.ts'

export interface RollbackRequest {
  readonly product: Product
  readonly runId: string
  /** The epoch whose content comes back. */
  readonly epoch: number
  readonly deploymentId: string
  /** Of the version that comes back; null: none. */
  readonly schedule: WantedSchedule | null
  readonly signal: AbortSignal
  readonly report?: MaterializeRequest['report']
}

/** Repeatable: a run that has committed its epoch goes on with the stores. Throws CONFLICT `deployment_superseded`. */
export async function rollBack(request: RollbackRequest, deps: MaterializeDeps): Promise<MaterializeResult> {
  const { product, signal } = request
  return withProductLock(deps.pool, product.id, signal, async () => {
    const committed = await materializationOfRun(deps.pool, product.id, request.runId)
    const materialization = committed ?? (await commitOldContent(request, deps))
    const report = (all: readonly StoreOutcome[]) => request.report?.(materialization.epoch as number, all)
    const stores = await syncEndpoints(product, signal, deps, report)
    const quarantined = await openlyQuarantined(product, materialization, deps)
    return { materialization, stores, quarantined, contractNotes: [] }
  })
}

async function commitOldContent(request: RollbackRequest, deps: MaterializeDeps): Promise<Materialization> {
  const { product } = request
  const outdated = await pauseIfOutdated(product, deps)
  if (outdated !== null) throw productPaused(outdated)
  const fence = await raiseFence(deps.pool, product.id)
  const old = await findEpoch(deps.pool, product.id, request.epoch)
  const snapshotId = old?.snapshots['clear']
  if (!old || snapshotId === undefined) throw contentGone()
  const deployed = await deployedVersion(product, old.version, deps)
  const limits = { ...deps.limits, room: await deps.checkStorage(product.tenant) }
  await deps.noteBegun(product, request.runId, deployed.version)
  const staged = await stageVariants(request, old, deployed, fence.nextEpoch, { ...deps, limits })
  await deps.faultPoint('rollback.before-commit')
  const materialization = await inTransaction(
    deps.pool,
    (tx) => commitEpoch(tx, request, { old, deployed, token: fence.token, staged }, deps),
    { signal: request.signal },
  )
  await noteEpoch(product, materialization, staged.commits, deps)
  await deps.faultPoint('rollback.after-commit')
  return materialization
}

interface Staged {
  readonly commits: readonly StagedCommit[]
  readonly snapshots: Readonly<Record<string, string>>
}

async function stageVariants(
  request: RollbackRequest,
  old: Materialization,
  deployed: Deployed,
  epoch: number,
  deps: MaterializeDeps,
): Promise<Staged> {
  const twins = deployed.variants.filter((plan) => plan.masks.length > 0)
  const about = (plan: VariantPlan) => summaryOf(request, old, epoch, plan)
  const clear = await stageClear(request, old, deployed, about, deps)
  const commits = [clear, ...(await stageTwins(request, old, deployed, twins, about, deps))]
  const variants = ['clear', ...twins.map((plan) => plan.variant)]
  const snapshots = Object.fromEntries(
    variants.map((variant, index) => [variant, commits[index]?.snapshotId as string]),
  )
  return { commits, snapshots }
}

type About = (plan: VariantPlan) => Readonly<Record<string, string>>

async function stageClear(
  { product, signal }: RollbackRequest,
  old: Materialization,
  { manifests, variants }: Deployed,
  about: About,
  deps: MaterializeDeps,
): Promise<StagedCommit> {
  const ref = lakeTable(product.tenant, product.domain, product.name, 'clear')
  const [plan] = variants as readonly [VariantPlan]
  const base = await requireTable(ref, deps)
  const snapshotId = old.snapshots['clear'] as string
  return deps.lake.stage(
    ref,
    {
      base,
      plan: planRestore(base, snapshotId, layoutOf(plan, manifests.output)),
      operation: 'restore',
      files: [],
      snapshotId,
      summary: about(plan),
      tags: [`v${old.version}`],
    },
    signal,
  )
}

/** One engine job writes every twin from the old rows. */
async function stageTwins(
  { product, signal }: RollbackRequest,
  old: Materialization,
  { manifests, variants }: Deployed,
  twins: readonly VariantPlan[],
  about: About,
  deps: MaterializeDeps,
): Promise<readonly StagedCommit[]> {
  if (twins.length === 0) return []
  const clear = lakeTable(product.tenant, product.domain, product.name, 'clear')
  const state = stateOfScan(await deps.lake.scan(clear, { snapshotId: old.snapshots['clear'] as string }, signal))
  if (state === null) throw contentGone()
  const keys = await keysFor(product.tenant, variants, deps)
  const { columns } = manifests.output
  const targets = await Promise.all(
    twins.map(async (plan) => {
      const ref = lakeTable(product.tenant, product.domain, product.name, plan.variant)
      return {
        ref,
        base: await deps.lake.load(ref, { signal }),
        select: twinSelect('content', columns, plan.masks, keys),
        schema: plan.schema,
        rows: 'rewrite' as const,
        ...layoutOf(plan, manifests.output),
      }
    }),
  )
  const { written } = await deps.lake.write(
    { tables: [stateTable('content', state)], steps: maskKeySteps(keys), limits: deps.limits },
    targets,
    signal,
  )
  return Promise.all(
    written.map((data, index) => {
      const target = targets[index] as (typeof targets)[number]
      const { plan, files, writeId } = data
      const summary = about(twins[index] as VariantPlan)
      const tags = [`v${old.version}`]
      return deps.lake.stage(
        target.ref,
        { base: target.base, plan, operation: 'replace', files, writeId, summary, tags },
        signal,
      )
    }),
  )
}

async function requireTable(
  ref: Parameters<MaterializeDeps['lake']['load']>[0],
  deps: MaterializeDeps,
): Promise<TableState> {
  const table = await deps.lake.load(ref)
  if (table === null) throw contentGone()
  return table
}

function summaryOf(
  request: RollbackRequest,
  old: Materialization,
  epoch: number,
  plan: VariantPlan,
): Readonly<Record<string, string>> {
  return {
    'sluice.epoch': String(epoch),
    'sluice.run': request.runId,
    'sluice.version': old.version,
    'sluice.variant': plan.variant,
    'sluice.masked-columns': plan.masks.map((mask) => mask.column).join(','),
    'sluice.restored-epoch': String(old.epoch),
  }
}

interface Restored {
  readonly old: Materialization
  readonly deployed: Deployed
  readonly token: bigint
  readonly staged: Staged
}

/** The epoch, the version in service and the end of the deployment, or nothing of it. */
async function commitEpoch(
  tx: pg.PoolClient,
  { product, runId, deploymentId, schedule }: RollbackRequest,
  { old, deployed, token, staged }: Restored,
  deps: MaterializeDeps,
): Promise<Materialization> {
  const epoch = await reserveEpoch(tx, product.id, token)
  if ((await finishDeployment(tx, deploymentId, 'succeeded')) === null) throw superseded()
  await supersedeDeployments(tx, product.id)
  await deps.lake.publish(registryCatalog(tx), staged.commits)
  const materialization = await recordEpoch(tx, epoch, {
    tenant: product.tenant,
    productId: product.id,
    kind: 'rollback',
    runId,
    version: deployed.version,
    digest: deployed.digest,
    maskedColumns: Object.fromEntries(
      deployed.variants.map((plan) => [plan.variant, plan.masks.map((mask) => mask.column)]),
    ),
    masks: epochMasks(deployed.variants),
    inputs: old.inputs,
    counts: old.counts,
    quality: old.quality,
    qualityScore: old.qualityScore,
    restoredEpoch: old.epoch as number,
    snapshots: staged.snapshots,
  })
  await deps.keepViolations(tx, materialization, new Map())
  const { classification, archetype, description } = deployed.manifests.product
  await updateProduct(tx, product.tenant, product.id, {
    currentVersion: deployed.version,
    classification,
    archetype,
    description,
  })
  const since = materialization.committedAt.toISOString()
  await setPause(tx, product.id, { reason: 'rollback', version: deployed.version, since })
  await keepSchedule(tx, { id: product.id, tenant: product.tenant, of: 'product' }, schedule)
  await setObjective(tx, product, deployed.manifests.product.slo.freshnessMs)
  await expectStores(tx, product, deployed)
  await deps.announce(tx, product, materialization)
  return materialization
}

function contentGone(): SluiceError {
  return new SluiceError('CONFLICT', 'the content to go back to is not in the lake any more', {
    code: 'snapshot_expired',
    remedy: 'Choose a snapshot of GET /api/v1/products/{id}/snapshots.',
  })
}

function superseded(): SluiceError {
  return new SluiceError('CONFLICT', 'a later deployment has taken the place of this rollback', {
    code: 'deployment_superseded',
    remedy: 'Ask for the rollback again if it is still wanted.',
  })
}
