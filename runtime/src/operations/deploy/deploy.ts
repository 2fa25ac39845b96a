/** Deploying a version: everything is checked first, and a dry run ends there. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { isActor } from '../../registry/actor.ts'
import { previewExists, previewOf } from '../../registry/previews.ts'
import type { Product } from '../../registry/products.ts'
import { type Draft, findDraft, type ManifestRecord } from '../../registry/versions.ts'
import { connectorPlugin } from '../connections/connections.ts'
import type { Keep } from '../keep.ts'
import { requireDeveloper } from '../permissions.ts'
import {
  checkVersion,
  connectionsOf,
  manifestsInvalid,
  parseTexts,
  productOf,
  productToBe,
} from '../products/products.ts'
import { checkCasts } from './casts.ts'
import { checkManifests, loweringProblem, versionProblem } from './check-version.ts'
import type { Checked } from './checked.ts'
import { checkQuality } from './checks.ts'
import { commitDeployment } from './commit-deployment.ts'
import { commitPreview } from './commit-preview.ts'
import { requireComparable } from './comparison.ts'
import type { DeployDeps } from './deps.ts'
import { type DeployAnswer, storesHash } from './plan.ts'
import { withPlaces } from './problem-places.ts'
import { checkFollowed } from './product-schedule.ts'
import { breakingProblem } from './upstreams.ts'

export interface DeployRequest {
  readonly version: string
  readonly dryRun: boolean
  /** Of the manifests that are meant; absent: those that the caller uploaded last. */
  readonly digest?: string | undefined
  /** Of what stores are to do; absent: what they would do now. */
  readonly storesHash?: string | undefined
  /** Columns whose class may become lower by this. */
  readonly lower?: readonly string[] | undefined
  /** Products made of this one, `namespace.name`, that may not be made any more by this. */
  readonly breaks?: readonly string[] | undefined
  /** It comes into service however much its first rows differ from those that are served. */
  readonly acceptDifferences?: boolean | undefined
  /** Made and served beside the version in service, which stays. */
  readonly stage?: 'preview' | undefined
}

/**
 * A dry run writes nothing anywhere, and names in its plan what would be a 409. Throws 422 `manifests_invalid` and its
 * kin, 403 `comparison_forbidden`, 409 `breaking_change`, `breaks_downstream`, `version_exists`, `plan_changed`, `draft_of_another`, `class_lowering_unnamed`; of a preview
 * `preview_exists`, `input_not_ingested` too.
 */
export async function deployProduct(
  platform: DeployDeps,
  call: TenantCall,
  reference: string,
  request: DeployRequest,
  keep: Keep<DeployAnswer>,
): Promise<DeployAnswer> {
  requireDeveloper(call.principal)
  checkVersion(request.version)
  const judged = await judgeDraft(platform, call, reference, request, request.dryRun)
  const { draft, checked } = judged
  const hasPreview = request.stage === 'preview' && (await previewOf(platform.pool, checked.product.id)) !== null
  const found = [...judged.found, ...(hasPreview ? [previewExists()] : [])]
  if (request.dryRun) return planned(checked, draft.digest, found)
  checkStorePlans(checked, request)
  if (found[0] !== undefined) throw found[0]
  const commit = request.stage === 'preview' ? commitPreview : commitDeployment
  const answer = await commit(platform, call, checked, { ...request, digest: draft.digest }, keep).catch(
    async (error: unknown) => {
      throw await withPlaces(platform.parsing, call.tenant, error, checked.texts)
    },
  )
  platform.served.drop(call.tenant)
  return answer
}

/** The draft of a product, judged as a version that the caller would deploy. */
export interface JudgedDraft {
  readonly draft: Draft<ManifestSet>
  readonly checked: Checked
  /** What would be a 409 of the deployment, the gravest first. */
  readonly found: readonly SluiceError[]
}

/**
 * Writes nothing. Throws 422 `manifests_invalid` and its kin, 403 of rights, 409 `plan_changed`, `draft_of_another`, `manifests_missing`.
 * @param isPlan as of `checkManifests`
 */
export async function judgeDraft(
  platform: DeployDeps,
  call: TenantCall,
  reference: string,
  request: DeployRequest,
  isPlan = false,
): Promise<JudgedDraft> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const draft = await findDraft<ManifestSet>(platform.pool, product.id)
  if (!draft) {
    throw new SluiceError('CONFLICT', 'the product has no manifests yet', {
      code: 'manifests_missing',
      remedy: 'Upload the six manifests first.',
    })
  }
  checkDraft(call, draft, request)
  return { draft, ...(await checkNew(platform, call, product, request, draft, isPlan)) }
}

/**
 * The plan of manifests that are uploaded for it alone. Nothing is written anywhere: a product of that name need not be
 * there, and where it is, its draft stays. Throws what a deployment does, but for a 409, which the plan names.
 *
 * @param reference of a product that is not there: `namespace.name`
 */
export async function planManifests(
  platform: DeployDeps,
  call: TenantCall,
  reference: string,
  texts: Readonly<Partial<Record<string, string>>>,
  request: Pick<DeployRequest, 'version' | 'lower' | 'breaks'>,
): Promise<DeployAnswer> {
  requireDeveloper(call.principal)
  checkVersion(request.version)
  const { product, found: first } = await productToBe(platform, call, reference)
  const parsed = await parseTexts(platform, product, texts)
  if (!parsed.ok) throw manifestsInvalid(parsed)
  const { digest } = parsed.manifests
  const kept = { productId: product.id, manifests: texts as Draft['manifests'], normalised: parsed.manifests, digest }
  const { checked, found } = await checkNew(platform, call, product, request, kept, true)
  return planned(checked, digest, [...first, ...found])
}

/**
 * `found` are the errors that stand against the deployment and belong into its plan, the gravest first.
 * @param isPlan and `formerly` as of `checkManifests`
 */
export async function checkNew(
  platform: DeployDeps,
  call: TenantCall,
  product: Product,
  request: Pick<DeployRequest, 'version' | 'lower' | 'breaks'>,
  kept: ManifestRecord<ManifestSet>,
  isPlan = false,
  formerly: ManifestSet | null = null,
): Promise<{ readonly checked: Checked; readonly found: readonly SluiceError[] }> {
  const checked = await checkManifests(platform, call, product, request.version, kept, isPlan, formerly)
  await checkForNow(platform, call, checked).catch(async (error: unknown) => {
    throw await withPlaces(platform.parsing, call.tenant, error, checked.texts)
  })
  const problems = [
    await versionProblem(platform, checked),
    loweringProblem(checked.lowered, request.lower),
    breakingProblem(checked.plan.downstream, request.breaks),
  ]
  return { checked, found: problems.filter((problem) => problem !== null) }
}

/** What is deployed is what the caller has reviewed, or has uploaded. Throws CONFLICT. */
function checkDraft(
  { principal }: TenantCall,
  draft: Draft<ManifestSet>,
  { digest, dryRun }: Pick<DeployRequest, 'digest' | 'dryRun'>,
): void {
  const details = { digest: draft.digest, uploaded_by: draft.uploadedBy.subject }
  if (digest !== undefined && digest !== draft.digest) {
    throw new SluiceError('CONFLICT', 'other manifests have been uploaded since that plan', {
      code: 'plan_changed',
      remedy: 'Plan again with dry_run, and deploy by the digest of the plan that you have reviewed.',
      details,
    })
  }
  if (dryRun || digest !== undefined || isActor(principal, draft.uploadedBy)) return
  throw new SluiceError('CONFLICT', `${draft.uploadedBy.subject} uploaded these manifests last`, {
    code: 'draft_of_another',
    remedy: 'Review their plan with dry_run and deploy by its digest, or upload the manifests that you mean.',
    details,
  })
}

/** What stores do, and how sources are read, is what the caller has reviewed. Throws CONFLICT. */
function checkStorePlans(checked: Checked, { storesHash: reviewed }: Pick<DeployRequest, 'storesHash'>): void {
  const now = storesHash(checked)
  if (reviewed === undefined || reviewed === now) return
  throw new SluiceError('CONFLICT', 'a store would do something else by now than that plan says, or a source would', {
    code: 'plan_changed',
    remedy: 'Plan again with dry_run, and deploy by the stores_hash of the plan that you have reviewed.',
    details: { stores_hash: now },
  })
}

/** What is asked of a new version, and not of one that comes back: it was in service as it is. */
async function checkForNow(platform: DeployDeps, call: TenantCall, checked: Checked): Promise<void> {
  const connections = await connectionsOf(platform, call.tenant, checked.manifests)
  for (const { connectorType } of connections.values()) connectorPlugin(platform, connectorType)
  checkFollowed(checked)
  checkCasts(checked)
  await requireComparable(platform, call, checked)
  await checkQuality(platform, call, checked.manifests, checked.sources)
}

/** What stands against the deployment is part of a plan, beside all that the plan says. */
function planned(checked: Checked, digest: string, found: readonly SluiceError[]): DeployAnswer {
  const problems = found.map(({ code, message, remedy }) => ({ code, message, remedy: remedy ?? null }))
  const hashes = { digest, storesHash: storesHash(checked) }
  return { dryRun: true, ...hashes, plan: { ...checked.plan, problems }, deployment: null, runId: null }
}
