/**
 * A deployment whose version comes into service with its first rows, or not at all: they are compared with those that are served.
 * See docs/decisions/0219-new-versions-are-compared.md.
 */
import { isSluiceError } from '@sluice/sdk'
import { wishDashboards } from '../dashboards/states.ts'
import { appendEvent } from '../events/outbox.ts'
import { keepSchedule, type WantedSchedule } from '../jobs/set-schedule.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { withRaised } from '../policy/raised.ts'
import type { CheckResult } from '../quality/check-result.ts'
import { type AwaitedDeployment, awaitedDeployment, finishDeployment, recordedError } from '../registry/deployments.ts'
import { checkFence } from '../registry/fences.ts'
import { latestEpoch, type NewMaterialization, recordBlocked } from '../registry/materializations.ts'
import { setObjective } from '../registry/product-freshness.ts'
import { findProduct, type Pause, type Product, setPause, updateProduct } from '../registry/products.ts'
import { blockingColumns } from '../registry/raised-classes.ts'
import { saveRawClasses } from '../registry/raw-classes.ts'
import { enqueueRun } from '../registry/runs.ts'
import type { Transaction } from '../registry/sql.ts'
import { findVersion } from '../registry/versions.ts'
import type { Deployed } from './deployed.ts'
import type { MaterializeDeps } from './deps.ts'
import { stateOfScan } from './lake-state.ts'
import type { Prepared } from './prepared.ts'
import { lakeTable } from './variants.ts'
import { compareVersions, isBeyond, VersionDiffers } from './version-comparison.ts'

/** Null where the version in service waits for nothing of the kind. */
export async function awaitedOf(
  product: Product,
  version: string,
  { pool }: Pick<MaterializeDeps, 'pool'>,
): Promise<AwaitedDeployment | null> {
  const awaited = await awaitedDeployment(pool, product.id)
  return awaited?.version === version ? awaited : null
}

/** What came of the bounds of the version. Throws `VersionDiffers`. */
export async function comparedWithServed(
  product: Product,
  { comparison }: AwaitedDeployment,
  { manifests, version }: Deployed,
  prepared: Prepared,
  run: { readonly limits: MaterializeDeps['limits']; readonly signal: AbortSignal },
  deps: MaterializeDeps,
): Promise<readonly CheckResult[]> {
  const { pool, lake, rules } = deps
  const bounds = manifests.quality.newVersion ?? []
  const served = await findProduct(pool, product.tenant, comparison.productId)
  const newest = served && (await latestEpoch(pool, served.id))
  const snapshotId = newest?.snapshots['clear']
  const staged = prepared.commits.find((commit) => commit.snapshotId === prepared.snapshots['clear'])
  if (bounds.length === 0 || !served || !newest || snapshotId === undefined || staged === undefined) return []
  const { signal } = run
  const former = stateOfScan(
    await lake.scan(lakeTable(served.tenant, served.domain, served.name, 'clear'), { snapshotId }, signal),
  )
  const next = stateOfScan(await lake.scan(await lake.stagedState(staged), {}, signal))
  if (former === null || next === null) return []
  const made = await findVersion<ManifestSet>(pool, served.id, newest.version)
  const raised = (await blockingColumns(pool, served.id)).get(made?.digest ?? '')
  const formerColumns = withRaised(made?.normalised.output.columns ?? [], raised, rules)
  const { accepted } = comparison
  const { tenant } = product
  const results = await compareVersions({ bounds, former, formerColumns, next, accepted, tenant, ...run }, deps)
  if (isBeyond(results)) throw new VersionDiffers(version, comparison.former?.version ?? null, results)
  return results
}

/** In the transaction that publishes the first rows: from now on the former version is of the past. */
export async function settleDeployment(
  tx: Transaction,
  product: Product,
  { id, version, comparison }: AwaitedDeployment,
): Promise<void> {
  if ((await finishDeployment(tx, id, 'succeeded')) === null || comparison.former === null) return
  if (comparison.classes !== null) await saveRawClasses(tx, product, new Map(comparison.classes))
  await tell(tx, product, 'succeeded', { version })
}

/**
 * The deployment has failed, and the product is what it was before it. In one transaction, under the caller's token: a later
 * deployment is left alone.
 *
 * @param isBehind whether rows have come that the version which goes on does not have yet
 */
export async function goBack(
  tx: Transaction,
  product: Product,
  awaited: AwaitedDeployment,
  refused: {
    readonly error: VersionDiffers
    readonly token: bigint
    readonly isBehind: boolean
    readonly record: NewMaterialization
  },
): Promise<void> {
  const { error, token, isBehind, record } = refused
  await checkFence(tx, product.id, token)
  await recordBlocked(tx, record)
  await finishDeployment(tx, awaited.id, 'failed', recordedError(error))
  const { former } = awaited.comparison
  if (former === null) return
  const { version, classification, archetype, description } = former
  await updateProduct(tx, product.tenant, product.id, {
    currentVersion: version,
    classification,
    archetype,
    description,
  })
  await setPause(tx, product.id, former.paused as Pause | null)
  const kept = await findVersion<ManifestSet>(tx, product.id, version)
  const target = { id: product.id, tenant: product.tenant, of: 'product' } as const
  await setObjective(tx, target, kept?.normalised.product.slo.freshnessMs ?? null)
  await keepSchedule(tx, target, former.schedule as WantedSchedule | null).catch((thrown: unknown) => {
    // A product that came meanwhile waits for this one: the schedule of the version that was refused stays.
    if (!isSluiceError(thrown, 'INVALID_DATA')) throw thrown
  })
  await wishDashboards(tx, product.id, { anew: true })
  await tell(tx, product, 'failed', { version: awaited.version, error: error.code })
  if (!isBehind || former.paused !== null) return
  const work = { tenant: product.tenant, kind: 'materialization', productId: product.id } as const
  await enqueueRun(tx, { ...work, trigger: 'deploy', createdBy: awaited.createdBy })
}

async function tell(
  tx: Transaction,
  { id, tenant, name, domain }: Product,
  what: 'succeeded' | 'failed',
  data: Readonly<Record<string, string>>,
): Promise<void> {
  const about = { ...data, product: name, namespace: domain }
  await appendEvent(tx, { tenant, kind: 'deployment', name: what, subject: id, data: about })
}
