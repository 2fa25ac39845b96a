/** Products as inputs of the version that is deployed: which there are, what its author is shown of them, and who is made of it. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { fullNameOf } from '../../ingestion/product-outcome.ts'
import { productOfInput, type SourceTable } from '../../manifest/context.ts'
import type { DownstreamExpectations, Expectation, Input, ManifestSet } from '../../manifest/manifest-set.ts'
import { hasForReader, inputForbidden, inputShowsTooMuch, type UpstreamAccess } from '../../materializer/inputs.ts'
import { planVariants, type VariantPlan } from '../../materializer/variants.ts'
import { missingMasks, plannedMasks } from '../../policy/made-masks.ts'
import { masksFor } from '../../policy/masking.ts'
import { productInputs } from '../../registry/lineage.ts'
import { latestEpoch } from '../../registry/materializations.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import { findProductsByName, type Product, productsInServiceReading } from '../../registry/products.ts'
import type { Queryable } from '../../registry/sql.ts'
import { findVersion, type VersionUpstream, type VersionUpstreams } from '../../registry/versions.ts'
import { accessOrNull, type ServedProduct } from '../served/served-product.ts'
import { classificationOf, formerlyHidden, isRead, isStricter, readerOf, shownTo } from '../served/upstream-access.ts'
import type { DeployDeps } from './deps.ts'

/** A product that an input names, where the caller may read it. */
export interface Upstream {
  readonly product: Product
  readonly served: ServedProduct
  /** The columns that its deployer is shown, and how. */
  readonly plan: VariantPlan
  readonly access: UpstreamAccess
  /** What those that are made of it may hold up. */
  readonly expectations: DownstreamExpectations
}

/** By `namespace.name`. One that is not in service, or that the caller may not read, is not there for him. */
export type Upstreams = ReadonlyMap<string, Upstream>

/** Throws CONFLICT `mask_pending`, PERMISSION `input_forbidden` for one that shows more than it may until it is made anew. */
export async function upstreamsOf(
  platform: DeployDeps,
  call: TenantCall,
  { inputs }: Pick<ManifestSet, 'inputs'>,
): Promise<Upstreams> {
  const found = new Map<string, Upstream>()
  for (const input of inputs) {
    const named = productOfInput(input)
    if (named === null || found.has(input.table)) continue
    const upstream = await upstreamNamed(platform, call, input, named)
    if (upstream !== null) found.set(input.table, upstream)
  }
  return found
}

async function upstreamNamed(
  platform: DeployDeps,
  call: TenantCall,
  input: Input,
  { domain, name }: { readonly domain: string; readonly name: string },
): Promise<Upstream | null> {
  const [product] = await findProductsByName(platform.pool, call.tenant, name, domain)
  if (product === undefined || product.currentVersion === null || product.status === 'retired') return null
  const served = await platform.served.find(call.tenant, product.id)
  const version = await findVersion<ManifestSet>(platform.pool, product.id, product.currentVersion)
  if (version === null) return null
  const plans = planVariants(version.normalised.output, served.grants, platform.rules)
  const access = accessOrNull(served, call.principal, platform.rules)
  if (access === null) return null
  const { variant, masks } = access
  const hidden = masks.map(({ column }) => column)
  const plan = plans.find((one) => one.variant === variant)
  if (plan === undefined || missingMasks(masks, plannedMasks(plan.masks)).length > 0) {
    const { remaking } = served
    const newest = await latestEpoch(platform.pool, product.id)
    throw inputShowsTooMuch(input, { variant, hidden, masks, fitsOnceMade: true, remaking }, newest)
  }
  const former = await formerlyHidden(platform, served)
  const columns = plan.schema.columns.map((column) => column.name)
  const made = { masks, fitsOnceMade: true, remaking: served.remaking }
  const read = { productId: product.id, variant, hidden: [...hidden, ...former], columns, ...made }
  const expectations = version.normalised.quality.downstreamExpectations ?? 'warn'
  return { product, served, plan, access: read, expectations }
}

/** As tables of a source that has their namespaces as schemas. */
export function upstreamTables(upstreams: Upstreams): readonly SourceTable[] {
  return [...upstreams.values()].map(({ product, plan }) => tableOf(product, plan))
}

function tableOf({ domain, name }: Pick<Product, 'domain' | 'name'>, { schema }: VariantPlan): SourceTable {
  return { schema: domain, name, columns: schema.columns, primaryKey: schema.primaryKey, suggestedCursor: null }
}

/** What is kept with the version. */
export function keptUpstreams(
  { principal }: TenantCall,
  { inputs }: ManifestSet,
  upstreams: Upstreams,
): VersionUpstreams | null {
  const kept = inputs.flatMap((input) => {
    const upstream = input.connection === PRODUCTS ? upstreams.get(input.table) : undefined
    if (upstream === undefined) return []
    const { served, access } = upstream
    const { productId, variant, columns } = access
    const about = { productId, variant, classification: classificationOf(served), ...(columns && { columns }) }
    return [[input.name, { ...about, reader: readerOf(principal, served) }] as const]
  })
  return kept.length === 0 ? null : Object.fromEntries(kept)
}

/** Whether each has rows as its reader is shown it. Where one has not, the run that makes it makes what follows. */
export async function areMade(db: Queryable, upstreams: Upstreams): Promise<boolean> {
  for (const { access } of upstreams.values()) {
    const newest = await latestEpoch(db, access.productId)
    if (newest === null || !hasForReader(newest, access)) return false
  }
  return true
}

/** As the plan's author is shown them. */
export function accessBy(upstreams: Upstreams): (input: Input) => Promise<UpstreamAccess> {
  return async (input) => {
    const upstream = upstreams.get(input.table)
    if (upstream === undefined) throw inputForbidden(input, 'it is not there for whoever deploys')
    return upstream.access
  }
}

/**
 * By id, the products that the version in service is made of, and that are not closed to more readers by now: who reads them by
 * it has been judged.
 */
export function judgedUpstreams(upstreams: Upstreams, live: VersionUpstreams | null): ReadonlySet<string> {
  const kept = Object.values(live ?? {})
  const isJudged = ({ product, served }: Upstream) => {
    const own = kept.filter(({ productId }) => productId === product.id)
    return own.length > 0 && own.every(({ classification }) => !isStricter(classificationOf(served), classification))
  }
  return new Set([...upstreams.values()].filter(isJudged).map(({ product }) => product.id))
}

/**
 * Whether the version shows more readers what fewer may read of its inputs, and the one in service does not.
 * @param judged as `judgedUpstreams` gives them
 */
export function opensUpstreams(
  upstreams: Upstreams,
  judged: ReadonlySet<string>,
  live: ManifestSet | null,
  next: ManifestSet,
): boolean {
  return [...upstreams.values()].some(({ product, served }) => {
    const of = classificationOf(served)
    const wasOpen = live !== null && judged.has(product.id) && isStricter(of, live.product.classification)
    return isStricter(of, next.product.classification) && !wasOpen
  })
}

/** Throws INVALID_DATA `product_cycle` where the product would be made of itself. Sees what the transaction has locked. */
export async function requireNoCycle(db: Queryable, product: Product, { inputs }: ManifestSet): Promise<void> {
  const first = inputs.filter(({ connection }) => connection === PRODUCTS).map(({ table }) => table)
  if (first.length === 0) return
  const made = await productInputs(db, product.tenant)
  const own = fullNameOf(product)
  const ways = new Map<string, readonly string[]>(first.map((name) => [name, [own, name]]))
  for (const [name, way] of ways) {
    if (name === own) throw circularInputs(way)
    for (const next of made.get(name) ?? []) if (!ways.has(next)) ways.set(next, [...way, next])
  }
}

function circularInputs(way: readonly string[]): SluiceError {
  return new SluiceError('INVALID_DATA', `the product would be made of itself: ${way.join(' ← ')}`, {
    code: 'product_cycle',
    remedy: 'Take one of these inputs away.',
    details: { products: way },
  })
}

/** A product in service that is made of this one. */
export interface Downstream {
  readonly productId: string
  readonly product: string
  readonly namespace: string
  readonly owner: ManifestSet['product']['owner']
  /**
   * What it reads and would not be given by the version: columns that are gone or of another type. Also those that it was judged
   * by, and that are to be hidden from whoever deployed it.
   */
  readonly breaks: readonly string[]
  /** Whether more may read it than this version. */
  readonly isMoreOpen: boolean
  /** What it expects of the rows. */
  readonly expectations: readonly PlannedExpectation[]
}

export interface PlannedExpectation {
  readonly name: string
  readonly severity: Expectation['severity']
  /** Why it cannot hold, whatever the rows of the version are; null: its rows will show. */
  readonly problem: string | null
}

/** What is asked of a version on behalf of those that are made of the product. */
export interface DownstreamJudge {
  /** Of manifests that read it, with its columns as they would be. */
  canBeMade(manifests: ManifestSet, table: SourceTable): Promise<boolean>
  /** By name, those that cannot hold for rows with such columns, and why. */
  broken(expectations: readonly Expectation[], columns: SourceTable['columns']): Promise<ReadonlyMap<string, string>>
}

/**
 * The products made of this one, and whether they can go on with the version.
 */
export async function downstreamOf(
  platform: DeployDeps,
  product: Product,
  { live, next }: { readonly live: ManifestSet | null; readonly next: ManifestSet },
  { canBeMade, broken }: DownstreamJudge,
): Promise<readonly Downstream[]> {
  const own = fullNameOf(product)
  const found: Downstream[] = []
  const readers = await productsInServiceReading<ManifestSet>(platform.pool, product.tenant, PRODUCTS)
  for (const { product: reader, normalised: manifests } of readers) {
    const inputs = manifests.inputs.filter(({ connection, table }) => connection === PRODUCTS && table === own)
    if (inputs.length === 0) continue
    const kept = (await findVersion(platform.pool, reader.id, reader.currentVersion as string))?.upstreams ?? {}
    const breaks = new Set<string>()
    const expectations: PlannedExpectation[] = []
    for (const { name, columns: read } of inputs) {
      const lost = await lostColumns(platform, product, { live, next }, kept[name])
      const own = (manifests.quality.expectations ?? []).filter(({ on }) => on === name)
      const given = (lost?.table.columns ?? []).filter((column) => read?.includes(column.name) ?? true)
      // Judged when it was deployed: only other columns can have broken it since.
      const isSame = lost !== null && lost.columns.length === 0 && lost.hidden.length === 0
      const why = own.length === 0 || isSame || lost === null ? new Map() : await broken(own, given)
      expectations.push(
        ...own.map((one) => ({ name: one.name, severity: one.severity, problem: why.get(one.name) ?? null })),
      )
      if (lost === null) breaks.add('what nobody who deployed it may read then')
      else {
        // The variant that it is made of would show them, so that no run may read it.
        for (const column of lost.hidden) breaks.add(column)
        if (lost.columns.length > 0 && !(await canBeMade(manifests, lost.table))) {
          for (const column of lost.columns) breaks.add(column)
        }
      }
    }
    found.push({
      productId: reader.id,
      product: reader.name,
      namespace: reader.domain,
      owner: manifests.product.owner,
      breaks: [...breaks],
      isMoreOpen: isStricter(next.product.classification, reader.classification),
      expectations,
    })
  }
  return found
}

interface Lost {
  /** As the reader would be given it. */
  readonly table: SourceTable
  /** That it has not any more, or has of another type. */
  readonly columns: readonly string[]
  /** That are hidden from the reader, and are not in the variant that the version is made of. */
  readonly hidden: readonly string[]
}

/** Null: nothing of it would be shown to him. */
async function lostColumns(
  platform: DeployDeps,
  product: Product,
  { live, next }: { readonly live: ManifestSet | null; readonly next: ManifestSet },
  kept: VersionUpstream | undefined,
): Promise<Lost | null> {
  const served = await platform.served.find(product.tenant, product.id)
  const planIn = (manifests: ManifestSet) =>
    planVariants(manifests.output, served.grants, platform.rules).find((plan) => plan.variant === kept?.variant)
  const plan = planIn(next)
  if (kept === undefined || plan === undefined) return null
  const decision = shownTo(kept, { ...served, classification: next.product.classification })
  if (!decision.allowed) return null
  const masked = new Set(plan.masks.map(({ column }) => column))
  const hidden = masksFor(next.output.columns, decision.clearClasses, platform.rules)
    .map(({ column }) => column)
    .filter((column) => !masked.has(column) && isRead(kept, column))
  const given = plan.schema.columns.filter(({ name }) => isRead(kept, name) && !hidden.includes(name))
  const before = live === null ? [] : (planIn(live)?.schema.columns ?? [])
  const columns = before
    .filter(({ name, type }) => isRead(kept, name) && !given.some((now) => now.name === name && now.type === type))
    .map(({ name }) => name)
  return { table: { ...tableOf(product, plan), columns: given }, columns, hidden }
}

const MAY: Readonly<Record<DownstreamExpectations, string>> = {
  enforce:
    'rows that fail what the rows in service keep are not published (downstream_expectations: enforce), which everybody sees, also of columns that are hidden from them',
  warn: 'rows that fail it are published, and both owners are told (downstream_expectations: warn)',
  ignore: 'nobody looks at it (downstream_expectations: ignore)',
}

/** For the plan: what comes of what the version expects of its inputs. */
export function expectationNotes({ inputs, quality }: ManifestSet, upstreams: Upstreams): readonly string[] {
  return inputs.flatMap(({ name, table }) => {
    const own = (quality.expectations ?? []).filter(({ on }) => on === name)
    const upstream = upstreams.get(table)
    if (own.length === 0 || upstream === undefined) return []
    return [`it expects of ${table}: ${own.map((one) => one.name).join(', ')}; ${MAY[upstream.expectations]}`]
  })
}

/** For the plan. */
export function downstreamNotes(
  downstream: readonly Downstream[],
  { product, quality }: ManifestSet,
): readonly string[] {
  const { downstreamExpectations: policy = 'warn' } = quality
  return downstream.flatMap(({ namespace, product: name, owner, breaks, isMoreOpen, expectations }) => {
    const who = owner.team ?? owner.email
    const of = who === null ? '' : `, of ${who},`
    return [
      breaks.length === 0
        ? `${namespace}.${name}${of} is made of this product, and is made anew with it`
        : `${namespace}.${name}${of} is made of this product and cannot be with this version: it reads ${breaks.join(', ')}`,
      ...(expectations.length === 0
        ? []
        : [
            `${namespace}.${name}${of} expects of its rows: ${expectations.map((one) => one.name).join(', ')}; ${MAY[policy]}`,
          ]),
      ...expectations.flatMap(({ name: expectation, problem }) =>
        problem === null
          ? []
          : [`${namespace}.${name} expects what this version cannot keep, ${expectation}: ${problem}`],
      ),
      ...(isMoreOpen
        ? [`more may read ${namespace}.${name} than this product, which is ${product.classification}`]
        : []),
    ]
  })
}

/**
 * For the plan: products that are made of this one by no version in service, but by one that may come back without being judged again.
 * They keep this one from being deleted as well.
 */
export async function returningNotes(
  db: Queryable,
  product: Pick<Product, 'tenant' | 'domain' | 'name'>,
  downstream: readonly Pick<Downstream, 'namespace' | 'product'>[],
): Promise<readonly string[]> {
  const own = fullNameOf(product)
  const listed = new Set(downstream.map(({ namespace, product: name }) => `${namespace}.${name}`))
  const made = [...(await productInputs(db, product.tenant))].filter(([, inputs]) => inputs.includes(own))
  return made.flatMap(([name]) =>
    listed.has(name)
      ? []
      : [
          `${name} may be made of this product again, and keeps it until then: a rollback or a comparison of rows that is under way may bring back a version of it that is`,
        ],
  )
}

/** Products break where that is asked for by their names. Null: none breaks that is not named. */
export function breakingProblem(downstream: readonly Downstream[], named: readonly string[] = []): SluiceError | null {
  const broken = downstream
    .filter(({ breaks }) => breaks.length > 0)
    .map(({ namespace, product }) => `${namespace}.${product}`)
  const unnamed = broken.filter((name) => !named.includes(name))
  if (unnamed.length === 0) return null
  return new SluiceError('CONFLICT', `products made of this one could not be made any more: ${unnamed.join(', ')}`, {
    code: 'breaks_downstream',
    remedy: 'Keep the columns that they read, or deploy them without these first, or name the products in breaks.',
    details: { products: unnamed },
  })
}
