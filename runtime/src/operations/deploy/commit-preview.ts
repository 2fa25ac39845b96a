/**
 * Keeps a checked version beside the one in service, as the product's preview. It changes nothing for anybody else: no grants,
 * classes, schedule or dashboards come with it, and no product is made of it.
 */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { actorOf } from '../../registry/actor.ts'
import { requireStays } from '../../registry/deletions.ts'
import { createDeployment, finishDeployment } from '../../registry/deployments.ts'
import { raiseFence } from '../../registry/fences.ts'
import { createPreview } from '../../registry/previews.ts'
import { updateProduct } from '../../registry/products.ts'
import { lockClasses } from '../../registry/raw-classes.ts'
import { saveVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { inputsAreInLake } from '../products/products.ts'
import type { Checked } from './checked.ts'
import { type Committed, queueFirstRun, versionOf } from './commit-deployment.ts'
import { previewComparison } from './comparison.ts'
import type { DeployDeps } from './deps.ts'
import { type DeployAnswer, storesHash } from './plan.ts'
import { requireSameClasses } from './raised-classes.ts'
import { requireSources } from './staying-sources.ts'
import { areMade, requireNoCycle } from './upstreams.ts'

/** Throws CONFLICT `preview_exists`, `input_not_ingested`, `plan_changed`, `product_being_deleted`, and QUOTA `tier_limit_exceeded`: it counts as a product. */
export async function commitPreview(
  platform: DeployDeps,
  call: TenantCall,
  checked: Checked,
  { digest, acceptDifferences = false }: Committed,
  keep: Keep<DeployAnswer>,
): Promise<DeployAnswer> {
  const { product, manifests, plan } = checked
  await requireInputs(platform, call, checked)
  return inTransaction(platform.pool, async (tx) => {
    const actor = actorOf(call.principal)
    await lockClasses(tx, call.tenant)
    await requireStays(tx, product.id)
    await requireSources(tx, call.tenant, manifests)
    await requireSameClasses(tx, platform, call.tenant, manifests, checked.judged.hidden)
    await requireNoCycle(tx, product, manifests)
    const days = platform.config.limits.preview_days
    const preview = await createPreview(tx, product, { days, createdBy: actor })
    const fence = await raiseFence(tx, preview.id)
    const comparison = await previewComparison(tx, checked, acceptDifferences)
    await saveVersion(tx, versionOf(call, checked, preview.id))
    const begun = await createDeployment(tx, {
      tenant: call.tenant,
      productId: preview.id,
      kind: 'deploy',
      version: plan.version,
      digest: manifests.digest,
      fence: fence.token,
      plan,
      createdBy: actor,
      comparison,
    })
    await updateProduct(tx, call.tenant, preview.id, { status: 'deployed', currentVersion: plan.version })
    const accepts = acceptDifferences ? { accept_differences: true } : {}
    const details = { version: plan.version, digest, preview: preview.id, ...accepts }
    await audited(tx, call, call.tenant, 'product.preview_deploy', { type: 'product', id: product.id }, details)
    const deployment = comparison === null ? ((await finishDeployment(tx, begun.id, 'succeeded')) ?? begun) : begun
    const runId = await queueFirstRun(tx, preview, actor)
    const answer = { dryRun: false, digest, storesHash: storesHash(checked), plan, deployment, runId }
    await keep(tx, answer)
    return answer
  })
}

/** Nothing makes a preview later: syncs are for what is in service. */
async function requireInputs(platform: DeployDeps, call: TenantCall, { manifests, upstreams }: Checked): Promise<void> {
  const isThere = (await inputsAreInLake(platform, call.tenant, manifests)) && (await areMade(platform.pool, upstreams))
  if (isThere) return
  throw new SluiceError('CONFLICT', 'an input of the preview has not been ingested yet, or not with all its columns', {
    code: 'input_not_ingested',
    remedy: 'Deploy the version, since a sync reads what is in service; or preview one of inputs that are there.',
  })
}
