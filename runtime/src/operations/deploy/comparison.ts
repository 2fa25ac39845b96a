/** Deployments whose first rows are compared with those that are served: what is kept for that, and who may ask for it. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { wantedBefore } from '../../jobs/set-schedule.ts'
import type { ManifestSet, VersionBound } from '../../manifest/manifest-set.ts'
import { masksFor } from '../../policy/masking.ts'
import { type AwaitedComparison, awaitedDeployment, type FormerService } from '../../registry/deployments.ts'
import { latestEpoch } from '../../registry/materializations.ts'
import { findProduct, type Product } from '../../registry/products.ts'
import type { Transaction } from '../../registry/sql.ts'
import { sightOf } from '../products/visible-quality.ts'
import type { Checked } from './checked.ts'
import type { DeployDeps } from './deps.ts'

/** Judged against one version, it does not take the place of another. Throws CONFLICT `plan_changed`. */
export async function requireSameVersion(
  tx: Transaction,
  { id, tenant, currentVersion }: Product,
  remedy = 'Plan again, and deploy what still holds.',
): Promise<void> {
  const now = await findProduct(tx, tenant, id)
  if (now?.currentVersion === currentVersion) return
  throw new SluiceError('CONFLICT', 'another version came into service meanwhile', {
    code: 'plan_changed',
    remedy,
    details: { version: now?.currentVersion ?? null },
  })
}

/**
 * For the deployment that is about to take the place of those before it. Null: there is nothing to compare, and the version is in
 * service at once.
 *
 * @param classes that the version gives to raw columns; null where they are guessed
 */
export async function comparisonFor(
  tx: Transaction,
  { product, manifests, plan }: Checked,
  accepted: boolean,
  classes: ReadonlyMap<string, readonly string[]> | null,
): Promise<AwaitedComparison | null> {
  if (!(await isCompared(tx, product.id, manifests, plan.version))) return null
  const kept = classes === null ? null : [...classes]
  return { accepted, productId: product.id, former: await formerOf(tx, product), classes: kept }
}

/** A preview is compared with what is served of its product, and leaves that as it is. */
export async function previewComparison(
  tx: Transaction,
  { product, manifests, plan }: Checked,
  accepted: boolean,
): Promise<AwaitedComparison | null> {
  if (!(await isCompared(tx, product.id, manifests, plan.version))) return null
  return { accepted, productId: product.id, former: null, classes: null }
}

async function isCompared(tx: Transaction, productId: string, { quality }: ManifestSet, version: string) {
  if (quality.newVersion === undefined) return false
  const newest = await latestEpoch(tx, productId)
  return newest !== null && newest.version !== version
}

/** Of a version that still waits for its first rows, what it would go back to itself. */
async function formerOf(tx: Transaction, product: Product): Promise<FormerService | null> {
  const awaited = await awaitedDeployment(tx, product.id)
  if (awaited?.comparison.former != null) return awaited.comparison.former
  const now = await findProduct(tx, product.tenant, product.id)
  if (now?.currentVersion == null) return null
  const { currentVersion: version, classification, archetype, description, paused } = now
  return { version, classification, archetype, description, paused, schedule: await wantedBefore(tx, product.id) }
}

/**
 * Whether a version comes into service tells of what it was compared with. Throws PERMISSION `comparison_forbidden` where the
 * caller is not shown in clear what the version in service has of it.
 */
export async function requireComparable(
  platform: DeployDeps,
  call: TenantCall,
  { product, manifests, live }: Checked,
): Promise<void> {
  const bounds = manifests.quality.newVersion ?? []
  if (live === null || bounds.length === 0) return
  const { columns, clear, rules } = await sightOf(platform, call, product.id)
  const hidden = new Set(masksFor(columns, clear, rules).map(({ column }) => column))
  const looked = [...manifests.output.primaryKey, ...live.output.primaryKey]
  const isByIdentity = bounds.some(({ metric }) => metric !== 'rows' && metric !== 'null_share')
  const compared = [...(isByIdentity ? looked : []), ...bounds.flatMap(({ column }) => column ?? [])]
  const forbidden = [...new Set(compared.filter((name) => hidden.has(name)))]
  if (forbidden.length === 0) return
  throw new SluiceError('PERMISSION', `new_version compares what is hidden from you: ${forbidden.join(', ')}`, {
    code: 'comparison_forbidden',
    remedy:
      'Take its bounds out of new_version, or have the version deployed by somebody who is cleared for these columns.',
    details: { columns: forbidden },
  })
}

/** For the plan. */
export function comparisonNotes(live: ManifestSet | null, { quality }: ManifestSet): readonly string[] {
  if (live === null || quality.newVersion === undefined) return []
  const bounds = quality.newVersion.map(boundText).join(', ')
  return [
    `its first rows are compared with those that are served, and it comes into service where no more differs than: ${bounds}; else the version in service goes on. Whether it does tells of these columns, also to who is not shown them`,
  ]
}

function boundText({ metric, column, atMost }: VersionBound): string {
  const most = 'rows' in atMost ? `${atMost.rows}` : `${atMost.percent}%`
  return `${[metric, ...(column === null ? [] : [column])].join(' ')} ${most}`
}
