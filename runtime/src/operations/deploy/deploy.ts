/** Deploying a version: everything is checked first, and a dry run ends there. */
import { SluiceError } from '@sluice/sdk'
import semver from 'semver'
import { wishDashboards } from '../../dashboards/states.ts'
import { inTransaction } from '../../database/pools.ts'
import { appendEvent } from '../../events/outbox.ts'
import type { TenantCall } from '../../flow.ts'
import { keepSchedule } from '../../jobs/set-schedule.ts'
import { compareManifests } from '../../manifest/compatibility.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { Problem } from '../../manifest/problem.ts'
import { sharedIn } from '../../manifest/used-checks.ts'
import { pauseText } from '../../materializer/pauses.ts'
import { isSubject } from '../../policy/classification.ts'
import type { ClassifiedColumn } from '../../policy/masking.ts'
import { type Actor, actorOf, isActor } from '../../registry/actor.ts'
import {
  createDeployment,
  type Deployment,
  finishDeployment,
  supersedeDeployments,
} from '../../registry/deployments.ts'
import { raiseFence } from '../../registry/fences.ts'
import { keepFormerBasis, lockGrants } from '../../registry/grant-bases.ts'
import { type GrantSubject, grantAddedTo, grantProduct } from '../../registry/grants.ts'
import { setObjective } from '../../registry/product-freshness.ts'
import { type Product, setPause, updateProduct } from '../../registry/products.ts'
import { blockingColumns, settleRaisedColumns } from '../../registry/raised-classes.ts'
import { endKeptClasses, keepLostClasses, saveRawClasses } from '../../registry/raw-classes.ts'
import { enqueueRun, queuedRunOf } from '../../registry/runs.ts'
import type { FollowedProduct } from '../../registry/schedule-follows.ts'
import type { Transaction } from '../../registry/sql.ts'
import {
  type Draft,
  findDraft,
  findVersion,
  formerColumns,
  JUDGED_BY_INFLUENCE,
  type ManifestRecord,
  type ProductVersion,
  saveVersion,
} from '../../registry/versions.ts'
import { connectorPlugin, readsAtOneMoment } from '../connections/connections.ts'
import { audited, type Keep, type Platform, requireDeveloper } from '../platform.ts'
import { deleteNotes, momentNotes, plannedReads } from '../products/input-reads.ts'
import { requireLogs } from '../products/log-reads.ts'
import {
  checkVersion,
  connectionsOf,
  inputsAreInLake,
  inputsLackingValues,
  manifestsInvalid,
  parseTexts,
  productOf,
  productToBe,
} from '../products/products.ts'
import { sharedCheckNotes, sharedChecksOf } from '../products/shared-checks.ts'
import { type Readership, readershipWarnings, requireReadership, restsOn } from '../rights/grant-rights.ts'
import { subjectOf } from '../rights/grant-subject.ts'
import { castNotes, checkCasts } from './casts.ts'
import { checkQuality, checkReadings } from './checks.ts'
import {
  type ColumnOrigin,
  checkClasses,
  classesOf,
  copiedBy,
  loweredClasses,
  opensProduct,
  sourceOwners,
} from './column-classes.ts'
import { checkNotes, type JudgedColumns, judgedColumns } from './judged-columns.ts'
import {
  type DeployPlan,
  estimatedRows,
  lackingNote,
  lakeChanges,
  leavingRows,
  storePlans,
  storesHash,
} from './plan.ts'
import { placed, withPlaces } from './problem-places.ts'
import { checkFollowed, followedProducts, scheduleNotes, wantedSchedule } from './product-schedule.ts'
import { keepReach, lockClasses, type Reach, reachNote, reachOf, requireSameClasses } from './raised-classes.ts'
import { canBeMade, checkRawGrants, discoverSources, type Sources } from './sources.ts'
import { excessColumns } from './transform-columns.ts'
import {
  accessBy,
  areMade,
  breakingProblem,
  downstreamNotes,
  downstreamOf,
  judgedUpstreams,
  keptUpstreams,
  opensUpstreams,
  requireNoCycle,
  type Upstreams,
  upstreamsOf,
} from './upstreams.ts'

export interface DeployAnswer {
  readonly dryRun: boolean
  /** Of the manifests that the plan is of: a deployment that names it deploys these, or nothing. */
  readonly digest: string
  /** Of what the stores would do: a deployment that names it has them do this, or is refused. */
  readonly storesHash: string
  readonly plan: DeployPlan
  readonly deployment: Deployment | null
  readonly runId: string | null
}

/** A version that may take the place of the one in service. */
export interface Checked {
  readonly product: Product
  readonly texts: Readonly<Record<string, string>>
  readonly manifests: ManifestSet
  readonly live: ManifestSet | null
  readonly sources: Sources['tables']
  readonly origins: readonly ColumnOrigin[] | null
  readonly plan: DeployPlan
  /** Whom the first version lets read. */
  readonly readers: readonly GrantSubject[]
  readonly readership: Readership
  /** Columns whose class this version lowers, for the audit log. */
  readonly lowered: readonly string[]
  readonly judged: JudgedColumns
  /** What the classes that it gives reach in other products. */
  readonly reach: Reach
  /** The products that its schedule waits for. */
  readonly followed: readonly FollowedProduct[]
  /** The products that it is made of. */
  readonly upstreams: Upstreams
}

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
}

/**
 * A dry run writes nothing anywhere, and names in its plan what would be a 409. Throws 422 `manifests_invalid` and its
 * kin, 409 `breaking_change`, `breaks_downstream`, `version_exists`, `plan_changed`, `draft_of_another`, `class_lowering_unnamed`.
 */
export async function deployProduct(
  platform: Platform,
  call: TenantCall,
  reference: string,
  request: DeployRequest,
  keep: Keep<DeployAnswer>,
): Promise<DeployAnswer> {
  requireDeveloper(call.principal)
  checkVersion(request.version)
  const { draft, checked, found } = await judgeDraft(platform, call, reference, request)
  if (request.dryRun) return planned(checked, draft.digest, found)
  checkStorePlans(checked, request)
  if (found[0] !== undefined) throw found[0]
  const answer = await commitDeployment(platform, call, checked, draft.digest, keep).catch(async (error: unknown) => {
    throw await withPlaces(platform.parsing, call.tenant, error, checked.texts)
  })
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

/** Writes nothing. Throws 422 `manifests_invalid` and its kin, 403 of rights, 409 `plan_changed`, `draft_of_another`, `manifests_missing`. */
export async function judgeDraft(
  platform: Platform,
  call: TenantCall,
  reference: string,
  request: DeployRequest,
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
  return { draft, ...(await checkNew(platform, call, product, request, draft)) }
}

/**
 * The plan of manifests that are uploaded for it alone. Nothing is written anywhere: a product of that name need not be
 * there, and where it is, its draft stays. Throws what a deployment does, but for a 409, which the plan names.
 *
 * @param reference of a product that is not there: `namespace.name`
 */
export async function planManifests(
  platform: Platform,
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
  const { checked, found } = await checkNew(platform, call, product, request, kept)
  return planned(checked, digest, [...first, ...found])
}

/** `found` are the errors that stand against the deployment and belong into its plan, the gravest first. */
async function checkNew(
  platform: Platform,
  call: TenantCall,
  product: Product,
  request: Pick<DeployRequest, 'version' | 'lower' | 'breaks'>,
  kept: ManifestRecord<ManifestSet>,
): Promise<{ readonly checked: Checked; readonly found: readonly SluiceError[] }> {
  const checked = await checkManifests(platform, call, product, request.version, kept)
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

/** What stores do is what the caller has reviewed. Throws CONFLICT. */
function checkStorePlans({ plan }: Checked, { storesHash: reviewed }: Pick<DeployRequest, 'storesHash'>): void {
  const now = storesHash(plan.stores)
  if (reviewed === undefined || reviewed === now) return
  throw new SluiceError('CONFLICT', 'a store would do something else by now than that plan says', {
    code: 'plan_changed',
    remedy: 'Plan again with dry_run, and deploy by the stores_hash of the plan that you have reviewed.',
    details: { stores_hash: now },
  })
}

/** Lowering is meant where it is asked for by the columns' names. Null: nothing is lowered that is not named. */
export function loweringProblem(lowered: readonly string[], named: readonly string[] = []): SluiceError | null {
  const unnamed = lowered.filter((column) => !named.includes(column))
  if (unnamed.length === 0) return null
  return new SluiceError('CONFLICT', `this would lower the class of ${unnamed.join(', ')}`, {
    code: 'class_lowering_unnamed',
    remedy: 'Keep the class, or name the columns in lower.',
    details: { columns: unnamed },
  })
}

/** What is asked of a new version, and not of one that comes back: it was in service as it is. */
async function checkForNow(platform: Platform, call: TenantCall, checked: Checked): Promise<void> {
  const connections = await connectionsOf(platform, call.tenant, checked.manifests)
  for (const { connectorType } of connections.values()) connectorPlugin(platform, connectorType)
  checkFollowed(checked)
  checkCasts(checked)
  await checkQuality(platform, call, checked.manifests, checked.sources)
}

/** What stands against the deployment is part of a plan, beside all that the plan says. */
function planned({ plan }: Checked, digest: string, found: readonly SluiceError[]): DeployAnswer {
  const problems = found.map(({ code, message, remedy }) => ({ code, message, remedy: remedy ?? null }))
  const hashes = { digest, storesHash: storesHash(plan.stores) }
  return { dryRun: true, ...hashes, plan: { ...plan, problems }, deployment: null, runId: null }
}

/** Whether these manifests can run, and whether the caller may put them in service. */
export async function checkManifests(
  platform: Platform,
  call: TenantCall,
  product: Product,
  version: string,
  kept: ManifestRecord<ManifestSet>,
): Promise<Checked> {
  const connections = await connectionsOf(platform, call.tenant, kept.normalised)
  // Before the source is asked: what it has, and whether it answers, is nothing for those who may not read it.
  await checkRawGrants(platform, call, kept.normalised, connections)
  const upstreams = await upstreamsOf(platform, call, kept.normalised)
  const sources = await discoverSources(platform, call, kept.normalised, connections, upstreams)
  // Checks of other products are those that the manifests were uploaded with, whatever became of them since.
  const sharedChecks = sharedIn(kept.normalised.quality)
  const parsed = await parseTexts(platform, product, kept.manifests, { connections: sources.tables, sharedChecks })
  if (!parsed.ok) throw manifestsInvalid(parsed)
  const { manifests } = parsed
  // Once more: an earlier release may have read the same texts in another way.
  await checkRawGrants(platform, call, manifests, connections)
  await requireNoCycle(platform.pool, product, manifests)
  const judged = await judgedColumns(platform, call, manifests, sources.tables).catch(async (error: unknown) => {
    throw await withPlaces(platform.parsing, call.tenant, error, kept.manifests)
  })
  const { origins, hidden, laundered, given } = judged
  const unplaced = given === null ? [] : excessColumns(manifests, given)
  const excess = (await placed(platform.parsing, call.tenant, unplaced, kept.manifests)) as readonly Problem[]
  const inService = await liveVersion(platform, product)
  const live = inService?.normalised ?? null
  const known = judgedUpstreams(upstreams, inService?.upstreams ?? null)
  const compatibility = live === null ? null : compareManifests(live, manifests)
  const today: readonly ClassifiedColumn[] = live?.output.columns ?? []
  const former = [
    ...today,
    ...(await formerColumns<ClassifiedColumn>(platform.pool, product.id, today)),
    ...(await raisedBefore(platform, product, live, manifests)),
  ]
  const lowering = {
    columns: [...loweredClasses(platform, former, manifests), ...laundered],
    opens: opensProduct(live, manifests) || opensUpstreams(upstreams, known, live, manifests),
  }
  const meant = (await deployedAs(platform, product, version, manifests)) ?? manifests
  const reads = await plannedReads(platform.pool, product, meant, connections, sources.tables)
  await requireLogs(platform, meant, connections, sources.tables, call.signal)
  const leaving = await leavingRows(platform, product, live, meant, accessBy(upstreams), call.signal)
  const lacking = await inputsLackingValues(platform, call.tenant, meant)
  const readings = hidden.size === 0 ? new Map() : await checkReadings(platform, call, manifests, sources.tables)
  const owners = await sourceOwners(platform, product, manifests, lowering, live)
  const lowered = checkClasses(call, product, lowering, owners)
  const readers = live === null ? firstReaders(platform, call, manifests) : []
  const readership = await requireReadership(platform, call, product, manifests, { readers, judged: known })
  const shared = await sharedChecksOf(platform.pool, call.tenant, manifests.quality)
  const reach = await reachOf(platform, call, product, manifests, origins)
  const downstream = await downstreamOf(platform, product, { live, next: manifests }, (reader, table) =>
    canBeMade(platform, call, reader, table),
  )
  const followed = await followedProducts(platform, call, product, manifests).catch(async (error: unknown) => {
    throw await withPlaces(platform.parsing, call.tenant, error, kept.manifests)
  })
  return {
    product,
    texts: kept.manifests,
    manifests,
    live,
    sources: sources.tables,
    origins,
    lowered,
    readers,
    readership,
    judged,
    reach,
    followed,
    upstreams,
    plan: {
      version,
      verdict: compatibility?.verdict ?? 'initial',
      changes: compatibility?.changes ?? [],
      lake: lakeChanges(live, manifests),
      stores: await storePlans(platform, product, manifests, live),
      loweredClasses: lowered,
      reaches: reach.products,
      downstream,
      estimatedRows: estimatedRows(manifests, sources.estimates),
      warnings: [...parsed.warnings, ...sources.warnings, ...excess, ...readershipWarnings(readership)],
      sharedChecks: shared,
      reads,
      notes: [
        ...(product.paused === null ? [] : [`${pauseText(product.paused)}; a deployment resumes it`]),
        ...deleteNotes(live, meant, reads, leaving),
        ...castNotes({ origins }),
        ...lacking.map(lackingNote),
        ...scheduleNotes(live, meant),
        ...checkNotes(platform, manifests, hidden, readings),
        ...sharedCheckNotes(shared, live?.quality ?? null),
        ...reach.products.map(reachNote),
        ...downstreamNotes(downstream, manifests),
        ...momentNotes(meant, connections, (connection) => readsAtOneMoment(platform, connection)),
      ],
      problems: [],
    },
  }
}

/** Columns of the version in service, and those that it has no more, by the classes that hide them besides their own. */
async function raisedBefore(
  { pool }: Pick<Platform, 'pool'>,
  product: Product,
  live: ManifestSet | null,
  next: ManifestSet,
): Promise<readonly ClassifiedColumn[]> {
  const byDigest = await blockingColumns(pool, product.id)
  const ofLive = byDigest.get(live?.digest ?? '') ?? []
  const isGone = (name: string) => !live?.output.columns.some((column) => column.name === name)
  const gone = [...byDigest.values()].flat().filter(({ column }) => isGone(column))
  return [...ofLive, ...gone].flatMap(({ column, classification }) =>
    next.output.columns.filter(({ name }) => name === column).map((own) => ({ ...own, classification })),
  )
}

/** What the version means where it was deployed before: later defaults do not change it. Null where it never was. */
async function deployedAs(
  platform: Platform,
  product: Product,
  version: string,
  { digest }: ManifestSet,
): Promise<ManifestSet | null> {
  const same = await findVersion<ManifestSet>(platform.pool, product.id, version)
  return same?.digest === digest ? same.normalised : null
}

async function liveVersion(platform: Platform, product: Product): Promise<ProductVersion<ManifestSet> | null> {
  if (product.currentVersion === null) return null
  return findVersion<ManifestSet>(platform.pool, product.id, product.currentVersion)
}

/** Why the version cannot follow the one in service under this number; null where it can. */
async function versionProblem(platform: Platform, { product, manifests, plan }: Checked): Promise<SluiceError | null> {
  const { version, verdict, changes } = plan
  const same = await findVersion<ManifestSet>(platform.pool, product.id, version)
  if (same && same.digest !== manifests.digest) {
    return new SluiceError('CONFLICT', 'this version was deployed with other manifests', {
      code: 'version_exists',
      remedy: 'Deploy the changed manifests under a new version.',
      details: { version },
    })
  }
  const current = product.currentVersion
  if (current === null || verdict !== 'breaking' || semver.major(version) > semver.major(current)) return null
  return new SluiceError('CONFLICT', `the changes break readers of version ${current}`, {
    code: 'breaking_change',
    remedy: `Deploy it as ${semver.inc(current, 'major')}.`,
    details: { changes: changes.filter((change) => change.verdict === 'breaking') },
  })
}

/** Raising the fence ends runs of the former version: they may not commit any more. */
async function commitDeployment(
  platform: Platform,
  call: TenantCall,
  checked: Checked,
  digest: string,
  keep: Keep<DeployAnswer>,
): Promise<DeployAnswer> {
  const { product, manifests } = checked
  const { version } = checked.plan
  const ready =
    (await inputsAreInLake(platform, call.tenant, manifests)) && (await areMade(platform.pool, checked.upstreams))
  return inTransaction(platform.pool, async (tx) => {
    const actor = actorOf(call.principal)
    await lockClasses(tx, call.tenant)
    await requireSameClasses(tx, platform, call.tenant, manifests, checked.judged.hidden)
    await requireNoCycle(tx, product, manifests)
    const fence = await raiseFence(tx, product.id)
    await supersedeDeployments(tx, product.id)
    await saveVersion(tx, {
      judgedBy: JUDGED_BY_INFLUENCE,
      origins: checked.judged.strict,
      upstreams: keptUpstreams(call, manifests, checked.upstreams),
      judgedColumns: checked.judged.inputs,
      productId: product.id,
      version,
      manifests: checked.texts,
      normalised: manifests,
      digest: manifests.digest,
      deployedBy: actor,
    })
    const begun = await createDeployment(tx, {
      tenant: call.tenant,
      productId: product.id,
      kind: 'deploy',
      version,
      digest: manifests.digest,
      fence: fence.token,
      plan: checked.plan,
      createdBy: actor,
    })
    await updateProduct(tx, call.tenant, product.id, {
      status: 'deployed',
      currentVersion: version,
      classification: manifests.product.classification,
      archetype: manifests.product.archetype,
      description: manifests.product.description,
    })
    await setPause(tx, product.id, null)
    const target = { id: product.id, tenant: call.tenant, of: 'product' } as const
    await keepSchedule(tx, target, wantedSchedule(call, manifests, checked.followed))
    await setObjective(tx, target, manifests.product.slo.freshnessMs)
    if (checked.readers.length > 0) await lockGrants(tx, call.tenant)
    for (const reader of checked.readers) await grantReading(tx, call, product, reader, checked.readership)
    await wishDashboards(tx, product.id, { anew: true })
    const classes = classesOf(manifests, checked.origins)
    const keepFormer = checked.origins?.some(({ guessed }) => guessed) ?? true
    if (!keepFormer && !call.principal.isAdmin) await keepLostClasses(tx, product, classes, actor)
    await saveRawClasses(tx, product, classes, { keepFormer })
    await endKeptClasses(tx, call.tenant, copiedBy(checked.judged.strict, checked.lowered))
    await settleRaisedColumns(tx, product.id, manifests.digest, checked.lowered)
    await keepReach(tx, call, product, checked.reach)
    const details = {
      version,
      ...(checked.lowered.length > 0 ? { lowered_classes: checked.lowered } : {}),
      ...(checked.reach.products.length > 0
        ? { reaches: checked.reach.products.map(({ productId }) => productId) }
        : {}),
    }
    await audited(tx, call, call.tenant, 'product.deploy', { type: 'product', id: product.id }, details)
    await appendEvent(tx, {
      tenant: call.tenant,
      kind: 'deployment',
      name: 'succeeded',
      subject: product.id,
      traceparent: call.traceparent,
      data: { version, product: product.name, namespace: product.domain },
    })
    const deployment = (await finishDeployment(tx, begun.id, 'succeeded')) ?? begun
    const waits = !ready || (await queuedRunOf(tx, { productId: product.id })) !== null
    const runId = waits ? null : await queueFirstRun(tx, product, actor)
    const hashes = { digest, storesHash: storesHash(checked.plan.stores) }
    const answer = { dryRun: false, ...hashes, plan: checked.plan, deployment, runId }
    await keep(tx, answer)
    return answer
  })
}

async function queueFirstRun(tx: Transaction, product: Product, createdBy: Actor): Promise<string> {
  const work = { tenant: product.tenant, kind: 'materialization', productId: product.id } as const
  return (await enqueueRun(tx, { ...work, trigger: 'deploy', createdBy })).id
}

/** Users are those of the issuer of who deploys. Throws INVALID_DATA `invalid_grant`. */
function firstReaders(platform: Platform, call: TenantCall, { product }: ManifestSet): readonly GrantSubject[] {
  const { teams, users } = product.access
  const subjects = [...teams.map((team) => ({ team })), ...users.map((user) => ({ user }))]
  return subjects.map((subject) => subjectOf(platform, call, { subject }))
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
