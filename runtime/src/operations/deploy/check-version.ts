/** Whether manifests can be the next version of a product, and what becomes of it: all that is known before anything is written. */
import { SluiceError } from '@sluice/sdk'
import lt from 'semver/functions/lt.js'
import major from 'semver/functions/major.js'
import prerelease from 'semver/functions/prerelease.js'
import rcompare from 'semver/functions/rcompare.js'
import type { TenantCall } from '../../flow.ts'
import { compareManifests } from '../../manifest/compatibility.ts'
import type { Change } from '../../manifest/compatibility-change.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { withModesOf } from '../../manifest/open-modes.ts'
import type { Problem } from '../../manifest/problem.ts'
import { sharedIn } from '../../manifest/used-checks.ts'
import { pauseText } from '../../materializer/pauses.ts'
import type { ClassifiedColumn } from '../../policy/masking.ts'
import type { GrantSubject } from '../../registry/grants.ts'
import type { Product } from '../../registry/products.ts'
import { blockingColumns } from '../../registry/raised-classes.ts'
import {
  findVersion,
  formerColumns,
  listVersions,
  type ManifestRecord,
  type ProductVersion,
} from '../../registry/versions.ts'
import { readsAtOneMoment } from '../connections/connections.ts'
import { deleteNotes, momentNotes, plannedReads } from '../products/input-reads.ts'
import { requireLogs } from '../products/log-reads.ts'
import { connectionsOf, inputsLackingValues, manifestsInvalid, parseTexts } from '../products/products.ts'
import { sharedCheckNotes, sharedChecksOf } from '../products/shared-checks.ts'
import { readershipWarnings, requireReadership } from '../rights/grant-rights.ts'
import { subjectOf } from '../rights/grant-subject.ts'
import { castNotes } from './casts.ts'
import type { Checked } from './checked.ts'
import { brokenExpectations, checkReadings } from './checks.ts'
import { checkClasses, loweredClasses, opensProduct, sourceOwners } from './column-classes.ts'
import { comparisonNotes } from './comparison.ts'
import { withDefaultModes } from './default-modes.ts'
import type { DeployDeps } from './deps.ts'
import { checkNotes, judgedColumns } from './judged-columns.ts'
import { lackingNote, lakeChanges, sourceRows, storePlans } from './plan.ts'
import { planEffects } from './plan-effects.ts'
import { placed, withPlaces } from './problem-places.ts'
import { followedProducts, scheduleNotes } from './product-schedule.ts'
import { reachNote, reachOf } from './raised-classes.ts'
import { retentionNotes } from './retention-notes.ts'
import { canBeMade, checkRawGrants, discoverSources } from './sources.ts'
import { excessColumns } from './transform-columns.ts'
import {
  accessBy,
  downstreamNotes,
  downstreamOf,
  expectationNotes,
  judgedUpstreams,
  keptUpstreams,
  opensUpstreams,
  requireNoCycle,
  returningNotes,
  upstreamsOf,
} from './upstreams.ts'

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

/**
 * Whether these manifests can run, and whether the caller may put them in service.
 * @param isPlan whether what the version does is counted, too, which a deployment does not wait for
 * @param formerly what the manifests meant where they come back, or come from a preview; null: it is a new version
 */
export async function checkManifests(
  platform: DeployDeps,
  call: TenantCall,
  product: Product,
  version: string,
  kept: ManifestRecord<ManifestSet>,
  isPlan = false,
  formerly: ManifestSet | null = null,
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
  const kin =
    (await deployedAs(platform, product, version, manifests)) ?? (formerly && withModesOf(formerly, manifests))
  const { manifests: meant, notByLog } =
    kin === null
      ? await withDefaultModes(platform, { product, live }, manifests, connections, sources.tables, call.signal)
      : { manifests: kin, notByLog: NOT_ASKED }
  const reads = (await plannedReads(platform.pool, product, meant, connections, sources.tables)).map((read) =>
    read.mode === 'cdc' ? read : { ...read, notByLog: notByLog.get(read.input) ?? null },
  )
  await requireLogs(platform, meant, connections, sources.tables, call.signal)
  const lacking = await inputsLackingValues(platform, call.tenant, meant)
  const readings = hidden.size === 0 ? new Map() : await checkReadings(platform, call, manifests, sources.tables)
  const owners = await sourceOwners(platform, product, manifests, lowering, live)
  const lowered = checkClasses(call, product, lowering, owners)
  const readers = live === null ? firstReaders(platform, call, manifests) : []
  const readership = await requireReadership(platform, call, product, manifests, { readers, judged: known })
  const shared = await sharedChecksOf(platform.pool, call.tenant, manifests.quality)
  const reach = await reachOf(platform, call, product, manifests, origins)
  const downstream = await downstreamOf(
    platform,
    product,
    { live, next: manifests },
    {
      canBeMade: (reader, table) => canBeMade(platform, call, reader, table),
      async broken(expectations, columns) {
        const found = await brokenExpectations(platform, call, expectations, columns)
        const told = [...found].map(async ([name, why]) => [name, (await why()).message] as const)
        return new Map(await Promise.all(told))
      },
    },
  )
  const followed = await followedProducts(platform, call, product, manifests).catch(async (error: unknown) => {
    throw await withPlaces(platform.parsing, call.tenant, error, kept.manifests)
  })
  const stores = await storePlans(platform, product, manifests, live)
  // Last: what is refused costs no counting.
  const effects = await planEffects(platform, call, {
    product,
    live,
    next: meant,
    upstreamOf: accessBy(upstreams),
    reads: { live: inService?.upstreams ?? null, next: keptUpstreams(call, manifests, upstreams) },
    judged,
    readers,
    stores,
    sourceRows: sourceRows(manifests, sources.estimates),
    isPlan,
  })
  return {
    product,
    texts: kept.manifests,
    manifests,
    meant,
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
      stores,
      loweredClasses: lowered,
      reaches: reach.products,
      downstream,
      ...effects,
      warnings: [...parsed.warnings, ...sources.warnings, ...excess, ...readershipWarnings(readership)],
      sharedChecks: shared,
      reads,
      notes: [
        ...(product.paused === null ? [] : [`${pauseText(product.paused)}; a deployment resumes it`]),
        ...deleteNotes(live, meant, reads, effects.rows?.leaving),
        ...castNotes({ origins }),
        ...comparisonNotes(live, meant),
        ...lacking.map(lackingNote),
        ...scheduleNotes(live, meant),
        ...(await retentionNotes(platform, product, meant)),
        ...checkNotes(platform, manifests, hidden, readings),
        ...sharedCheckNotes(shared, live?.quality ?? null),
        ...reach.products.map(reachNote),
        ...expectationNotes(manifests, upstreams),
        ...downstreamNotes(downstream, manifests),
        ...(await returningNotes(platform.pool, product, downstream)),
        ...momentNotes(meant, connections, (connection) => readsAtOneMoment(platform, connection)),
      ],
      problems: [],
    },
  }
}

/** The modes of a version that was deployed before are what they are. */
const NOT_ASKED: ReadonlyMap<string, string> = new Map()

/** Columns of the version in service, and those that it has no more, by the classes that hide them besides their own. */
async function raisedBefore(
  { pool }: Pick<DeployDeps, 'pool'>,
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
  platform: DeployDeps,
  product: Product,
  version: string,
  { digest }: ManifestSet,
): Promise<ManifestSet | null> {
  const same = await findVersion<ManifestSet>(platform.pool, product.id, version)
  return same?.digest === digest ? same.normalised : null
}

async function liveVersion(platform: DeployDeps, product: Product): Promise<ProductVersion<ManifestSet> | null> {
  if (product.currentVersion === null) return null
  return findVersion<ManifestSet>(platform.pool, product.id, product.currentVersion)
}

/** Why the version cannot follow the one in service under this number; null where it can. */
export async function versionProblem(
  platform: DeployDeps,
  { product, manifests, plan }: Checked,
): Promise<SluiceError | null> {
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
  if (current === null || verdict !== 'breaking') return null
  const deployed = (await listVersions(platform.pool, product.id)).map((one) => one.version).toSorted(rcompare)
  if (major(version) <= major(current)) return breaking(current, changes, deployed)
  // A pre-release promises nothing.
  const isFormer = (one: string) => major(one) === major(version) && lt(one, version) && prerelease(one) === null
  const former = deployed.find(isFormer)
  if (same || former === undefined) return null
  const before = await findVersion<ManifestSet>(platform.pool, product.id, former)
  const since = before && compareManifests(before.normalised, manifests)
  return since?.verdict === 'breaking' ? breaking(former, since.changes, deployed) : null
}

/** Readers of a major number count on it, also of one that is not in service just now. */
function breaking(readOf: string, changes: readonly Change[], deployed: readonly string[]): SluiceError {
  return new SluiceError('CONFLICT', `the changes break readers of version ${readOf}`, {
    code: 'breaking_change',
    remedy: `Deploy it as ${major(deployed[0] ?? readOf) + 1}.0.0.`,
    details: { changes: changes.filter((change) => change.verdict === 'breaking') },
  })
}

/** Users are those of the issuer of who deploys. Throws INVALID_DATA `invalid_grant`. */
function firstReaders(platform: DeployDeps, call: TenantCall, { product }: ManifestSet): readonly GrantSubject[] {
  const { teams, users } = product.access
  const subjects = [...teams.map((team) => ({ team })), ...users.map((user) => ({ user }))]
  return subjects.map((subject) => subjectOf(platform, call, { subject }))
}
