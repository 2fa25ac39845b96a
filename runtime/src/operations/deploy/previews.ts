/** What becomes of a preview: it is promoted, or it ends; by its developers, or by the clock. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { FaultPoint } from '../../fault-points.ts'
import type { TenantCall } from '../../flow.ts'
import { askForJobs } from '../../jobs/claims.ts'
import type { JobKind, JobSource } from '../../jobs/worker.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { isActor } from '../../registry/actor.ts'
import { endPreview, isPreviewOver, previewOf, previewsDue } from '../../registry/previews.ts'
import type { Product } from '../../registry/products.ts'
import type { Transaction } from '../../registry/sql.ts'
import { findVersion, type ProductVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { requireDeveloper } from '../permissions.ts'
import { productOf } from '../products/products.ts'
import { dropPreview, stopWriters } from '../products/remove-product.ts'
import { commitDeployment } from './commit-deployment.ts'
import { checkNew, type DeployRequest } from './deploy.ts'
import type { DeployDeps } from './deps.ts'
import type { DeployAnswer } from './plan.ts'
import { withPlaces } from './problem-places.ts'

export type PromoteRequest = Pick<DeployRequest, 'digest' | 'lower' | 'breaks' | 'acceptDifferences'>

/**
 * Puts the version of the preview in service: judged anew as a deployment by the caller, and made anew by its first run, since rows and
 * rights may be others by now. The preview ends in the same transaction. Throws what a deployment does, CONFLICT `plan_changed`
 * too where another version came into service meanwhile, and INVALID_DATA `preview_not_found`.
 */
export async function promotePreview(
  platform: DeployDeps,
  call: TenantCall,
  reference: string,
  request: PromoteRequest,
  keep: Keep<DeployAnswer>,
): Promise<DeployAnswer> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const { preview, version } = await servedPreview(platform, product)
  requireReviewed(call, version, request.digest)
  const { checked, found } = await checkNew(
    platform,
    call,
    product,
    { ...request, version: version.version },
    { ...version, productId: product.id },
    false,
    version.normalised,
  )
  if (found[0] !== undefined) throw found[0]
  const { digest } = version
  const first = async (tx: Transaction) => {
    if (!(await closePreview(tx, preview, digest))) throw noPreview()
  }
  const answer = await commitDeployment(platform, call, checked, { ...request, digest }, keep, first).catch(
    async (error: unknown) => {
      throw await withPlaces(platform.parsing, call.tenant, error, checked.texts)
    },
  )
  platform.served.drop(call.tenant)
  return answer
}

/** It is served no longer, and its rows go. Throws INVALID_DATA `preview_not_found`. */
export async function discardPreview(platform: DeployDeps, call: TenantCall, reference: string): Promise<void> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const { preview } = await servedPreview(platform, product)
  await inTransaction(platform.pool, async (tx) => {
    if (!(await closePreview(tx, preview))) throw noPreview()
    await audited(tx, call, call.tenant, 'product.preview_discard', { type: 'product', id: product.id })
  })
  platform.served.drop(call.tenant)
}

interface ServedPreview {
  readonly preview: Product
  readonly version: ProductVersion<ManifestSet>
}

async function servedPreview({ pool }: Pick<DeployDeps, 'pool'>, product: Product): Promise<ServedPreview> {
  const preview = await previewOf(pool, product.id)
  const version =
    preview?.currentVersion == null ? null : await findVersion<ManifestSet>(pool, preview.id, preview.currentVersion)
  if (preview === null || version === null || (await isPreviewOver(pool, preview.id))) throw noPreview()
  return { preview, version }
}

/** What is deployed is what the caller has reviewed, or has made. Throws CONFLICT. */
function requireReviewed({ principal }: TenantCall, version: ProductVersion, digest: string | undefined): void {
  const details = { digest: version.digest, made_by: version.deployedBy.subject }
  if (digest !== undefined && digest !== version.digest) {
    throw new SluiceError('CONFLICT', 'the preview is of other manifests', {
      code: 'plan_changed',
      remedy: 'Look at the preview that there is, and promote it by its digest.',
      details,
    })
  }
  if (digest !== undefined || isActor(principal, version.deployedBy)) return
  throw new SluiceError('CONFLICT', `${version.deployedBy.subject} made this preview`, {
    code: 'draft_of_another',
    remedy: 'Review it, and promote it by its digest.',
    details,
  })
}

const END = 'previews.end'
const END_POLL_MS = 30_000
const AT_ONCE = 100

async function closePreview(tx: Transaction, preview: Product, digest: string | null = null): Promise<boolean> {
  if (!(await endPreview(tx, preview.id, digest))) return false
  await stopWriters(tx, preview)
  await askForJobs(tx, [{ kind: END, key: preview.id, tenant: preview.tenant }])
  return true
}

/**
 * Ends a preview that something else wants gone, and returns when nothing is left of it. Repeatable.
 * @param note in the transaction that ends it; not where it is over already
 */
export async function removePreview(
  platform: DeployDeps,
  preview: Product,
  note: (tx: Transaction) => Promise<unknown>,
  faultPoint: FaultPoint,
  signal: AbortSignal,
): Promise<void> {
  await inTransaction(platform.pool, async (tx) => {
    if (await closePreview(tx, preview)) await note(tx)
  })
  platform.served.drop(preview.tenant)
  await dropPreview(platform, preview, faultPoint, signal)
}

export function noPreview(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the product has no preview', {
    code: 'preview_not_found',
    remedy: 'Deploy a version with stage: preview.',
  })
}

/** Removes what is left of previews that are over. */
export function previewJobs(
  platform: DeployDeps,
  faultPoint: FaultPoint,
): { readonly kind: JobKind; readonly source: JobSource } {
  return {
    kind: {
      kind: END,
      failed: 'what is left of a preview could not be removed; it is tried again',
      backOff: { firstMs: 2_000, lastMs: 300_000 },
      async work({ key, tenant }, signal) {
        if (tenant !== null) await dropPreview(platform, { id: key, tenant }, faultPoint, signal)
        return null
      },
    },
    source: {
      everyMs: END_POLL_MS,
      async enlist() {
        const due = await previewsDue(platform.pool, AT_ONCE)
        await askForJobs(
          platform.pool,
          due.map(({ id, tenant }) => ({ kind: END, key: id, tenant })),
        )
      },
    },
  }
}
