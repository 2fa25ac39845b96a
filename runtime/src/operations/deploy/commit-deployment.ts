/** Puts a checked version in service: the version, its rights, classes and schedule, in one transaction. */
import { wishDashboards } from '../../dashboards/states.ts'
import { inTransaction } from '../../database/pools.ts'
import { appendEvent } from '../../events/outbox.ts'
import type { TenantCall } from '../../flow.ts'
import { keepSchedule } from '../../jobs/set-schedule.ts'
import { withModesOf } from '../../manifest/open-modes.ts'
import { isSubject } from '../../policy/classification.ts'
import { type Actor, actorOf } from '../../registry/actor.ts'
import { requireStays } from '../../registry/deletions.ts'
import { createDeployment, finishDeployment, supersedeDeployments } from '../../registry/deployments.ts'
import { raiseFence } from '../../registry/fences.ts'
import { keepFormerBasis, lockGrants } from '../../registry/grant-bases.ts'
import { type GrantSubject, grantAddedTo, grantProduct } from '../../registry/grants.ts'
import { setObjective } from '../../registry/product-freshness.ts'
import { type Product, pauseOf, setPause, updateProduct } from '../../registry/products.ts'
import { settleRaisedColumns } from '../../registry/raised-classes.ts'
import { endKeptClasses, keepLostClasses, lockClasses, saveRawClasses } from '../../registry/raw-classes.ts'
import { enqueueRun, queuedRunOf } from '../../registry/runs.ts'
import type { Transaction } from '../../registry/sql.ts'
import { JUDGED_BY_INFLUENCE, type NewVersion, saveVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { inputsAreInLake } from '../products/products.ts'
import { type Readership, restsOn } from '../rights/grant-rights.ts'
import type { Checked } from './checked.ts'
import { classesOf, copiedBy } from './column-classes.ts'
import { comparisonFor, requireSameVersion } from './comparison.ts'
import type { DeployDeps } from './deps.ts'
import { type DeployAnswer, storesHash } from './plan.ts'
import { wantedSchedule } from './product-schedule.ts'
import { keepReach, requireSameClasses } from './raised-classes.ts'
import { requireSources } from './staying-sources.ts'
import { areMade, keptUpstreams, requireNoCycle } from './upstreams.ts'

/** What of the request is said when the version is committed. */
export interface Committed {
  readonly digest: string
  readonly acceptDifferences?: boolean | undefined
}

/**
 * Raising the fence ends runs of the former version: they may not commit any more. Throws CONFLICT `plan_changed` where another
 * version came into service since it was judged, or an input is gone, and `product_being_deleted`.
 */
export async function commitDeployment(
  platform: DeployDeps,
  call: TenantCall,
  checked: Checked,
  { digest, acceptDifferences = false }: Committed,
  keep: Keep<DeployAnswer>,
  /** Done with it, or it is not deployed. */
  first: (tx: Transaction) => Promise<void> = async () => undefined,
): Promise<DeployAnswer> {
  const { product, manifests } = checked
  const { version } = checked.plan
  const ready =
    (await inputsAreInLake(platform, call.tenant, manifests)) && (await areMade(platform.pool, checked.upstreams))
  return inTransaction(platform.pool, async (tx) => {
    const actor = actorOf(call.principal)
    await lockClasses(tx, call.tenant)
    await requireStays(tx, product.id)
    await requireSources(tx, call.tenant, manifests)
    await requireSameVersion(tx, product)
    await first(tx)
    await requireSameClasses(tx, platform, call.tenant, manifests, checked.judged.hidden)
    await requireNoCycle(tx, product, manifests)
    const fence = await raiseFence(tx, product.id)
    const classes = classesOf(manifests, checked.origins)
    const isGuessed = checked.origins?.some(({ guessed }) => guessed) ?? true
    const comparison = await comparisonFor(tx, checked, acceptDifferences, isGuessed ? null : classes)
    await supersedeDeployments(tx, product.id)
    await saveVersion(tx, versionOf(call, checked, product.id))
    const begun = await createDeployment(tx, {
      tenant: call.tenant,
      productId: product.id,
      kind: 'deploy',
      version,
      digest: manifests.digest,
      fence: fence.token,
      plan: checked.plan,
      createdBy: actor,
      comparison,
    })
    await updateProduct(tx, call.tenant, product.id, {
      status: 'deployed',
      currentVersion: version,
      classification: manifests.product.classification,
      archetype: manifests.product.archetype,
      description: manifests.product.description,
    })
    // Which of the two is right is for a person to say: until then no run makes it, whichever version it is of.
    const isOutdated = (await pauseOf(tx, product.id))?.reason === 'registry_outdated'
    if (!isOutdated) await setPause(tx, product.id, null)
    const target = { id: product.id, tenant: call.tenant, of: 'product' } as const
    await keepSchedule(tx, target, wantedSchedule(call, manifests, checked.followed))
    await setObjective(tx, target, manifests.product.slo.freshnessMs)
    if (checked.readers.length > 0) await lockGrants(tx, call.tenant)
    for (const reader of checked.readers) await grantReading(tx, call, product, reader, checked.readership)
    await wishDashboards(tx, product.id, { anew: true })
    if (!isGuessed && !call.principal.isAdmin) await keepLostClasses(tx, product, classes, actor)
    // Those of a version that may come back count until it cannot.
    await saveRawClasses(tx, product, classes, { keepFormer: isGuessed || comparison !== null })
    await endKeptClasses(tx, call.tenant, copiedBy(checked.judged.strict, checked.lowered))
    await settleRaisedColumns(tx, product.id, manifests.digest, checked.lowered)
    await keepReach(tx, call, product, checked.reach)
    const details = {
      version,
      ...(acceptDifferences ? { accept_differences: true } : {}),
      ...(checked.lowered.length > 0 ? { lowered_classes: checked.lowered } : {}),
      ...(checked.reach.products.length > 0
        ? { reaches: checked.reach.products.map(({ productId }) => productId) }
        : {}),
    }
    await audited(tx, call, call.tenant, 'product.deploy', { type: 'product', id: product.id }, details)
    const deployment = comparison === null ? ((await finishDeployment(tx, begun.id, 'succeeded')) ?? begun) : begun
    if (comparison === null) {
      await appendEvent(tx, {
        tenant: call.tenant,
        kind: 'deployment',
        name: 'succeeded',
        subject: product.id,
        traceparent: call.traceparent,
        data: { version, product: product.name, namespace: product.domain },
      })
    }
    const waits = isOutdated || !ready || (await queuedRunOf(tx, { productId: product.id })) !== null
    const runId = waits ? null : await queueFirstRun(tx, product, actor)
    const hashes = { digest, storesHash: storesHash(checked) }
    const answer = { dryRun: false, ...hashes, plan: checked.plan, deployment, runId }
    await keep(tx, answer)
    return answer
  })
}

/** As it was judged, to be kept of that product. */
export function versionOf(
  call: TenantCall,
  { plan, judged, manifests, meant, texts, upstreams }: Checked,
  productId: string,
): NewVersion {
  return {
    judgedBy: JUDGED_BY_INFLUENCE,
    origins: judged.strict,
    upstreams: keptUpstreams(call, manifests, upstreams),
    judgedColumns: judged.inputs,
    heldShapes: judged.shapes,
    productId,
    version: plan.version,
    manifests: texts,
    normalised: withModesOf(meant, manifests),
    digest: manifests.digest,
    deployedBy: actorOf(call.principal),
  }
}

export async function queueFirstRun(tx: Transaction, product: Product, createdBy: Actor): Promise<string> {
  const work = { tenant: product.tenant, kind: 'materialization', productId: product.id } as const
  return (await enqueueRun(tx, { ...work, trigger: 'deploy', createdBy })).id
}

async function grantReading(
  tx: Transaction,
  call: TenantCall,
  product: Product,
  reader: GrantSubject,
  { needs }: Readership,
): Promise<void> {
  const grantedBy = actorOf(call.principal)
  const given = { ...reader, tenant: call.tenant, productId: product.id, may: 'read', classes: [], grantedBy } as const
  await keepFormerBasis(tx, await grantAddedTo(tx, given))
  const isOwn = reader.subjectType === 'user' && isSubject(call.principal, reader)
  const basis = { classes: [], grantable: [], grantedBy, needs: isOwn ? needs.own : needs.others }
  await restsOn(tx, await grantProduct(tx, given), basis)
}
