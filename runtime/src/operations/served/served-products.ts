/** Loads products as readers meet them, and keeps them for moments: reads must not ask the registry every time. */

import { type Logger, SluiceError, type Variant } from '@sluice/sdk'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import { Bell } from '../../jobs/bell.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { pastOf, targetFor } from '../../materializer/targets.ts'
import { planVariants, type VariantPlan } from '../../materializer/variants.ts'
import type { PluginSet } from '../../plugins/plugin-set.ts'
import { type Classification, stricter } from '../../policy/classification.ts'
import { madeMasks } from '../../policy/made-masks.ts'
import { type ClassifiedColumn, isSensitive, type MaskingRules } from '../../policy/masking.ts'
import { withRaised } from '../../policy/raised.ts'
import { readAtOf } from '../../registry/data-ages.ts'
import { COPY_LOST, type EndpointState, endpointStates } from '../../registry/endpoint-states.ts'
import { productGrants } from '../../registry/grants.ts'
import { findEpoch, latestEpoch, type Materialization } from '../../registry/materializations.ts'
import { policyVersion } from '../../registry/policy-versions.ts'
import { isPreviewOver } from '../../registry/previews.ts'
import {
  deployedProducts,
  findProduct,
  findProductsByName,
  holderOfGrants,
  type Product,
} from '../../registry/products.ts'
import { blockingColumns, type RaisedByDigest } from '../../registry/raised-classes.ts'
import { ownName, restsOf } from '../../registry/rests-on.ts'
import { findVersion, formerColumns, type ProductVersion } from '../../registry/versions.ts'
import { CopyChecks } from './copy-checks.ts'
import { ProductWatches } from './product-watches.ts'
import {
  NO_PRODUCT,
  type ServedEndpoint,
  type ServedProduct,
  type ServedTarget,
  type ServedVariant,
} from './served-product.ts'

/** Policies are at most this stale, were a notification lost that should have come. */
const MAX_AGE_MS = 5_000
const MAX_CACHED = 5_000
/** A lake that could not tell by which masks a product was made is not asked by every read. */
const UNTOLD_FOR_MS = 60_000
/** From then on a read has the product loaded anew beside it, so that those after it need not wait. */
const REFRESH_AFTER_MS = 2_500

export interface ServedProductsDeps {
  readonly pool: pg.Pool
  readonly plugins: PluginSet
  readonly rules: MaskingRules
  readonly logger: Logger
  /** Looks up by which masks epochs of the product were made that do not say so. */
  noteMasks(productId: string): Promise<'noted' | 'unreadable' | 'unavailable'>
  /** Whether changes are told (`drop`) now; what is loaded while they are not is not kept. */
  hearsChanges(): boolean
}

interface Loading {
  readonly product: Promise<ServedProduct>
  /** As `performance.now()`: what is kept of it counts from when it was begun. */
  readonly sinceMs: number
  /**
   * `writing`: it is another one as soon as a copy has come, of which nobody tells; what else is in it holds. `changing`: it may
   * be another one at any moment, so nothing is kept of it.
   */
  readonly outcome: Promise<'kept' | 'writing' | 'changing' | 'failed'>
}

export class ServedProducts {
  readonly #deps: ServedProductsDeps
  /** Keys begin with the tenant. */
  readonly #cache = new LRUCache<string, Loading>({ max: MAX_CACHED, ttl: MAX_AGE_MS })
  /** By the same keys: what will take the place of the cached one. */
  readonly #refreshing = new Map<string, Loading>()
  /** By the same keys: while stores are given an epoch, each read looks whether copies have come, and at nothing else. */
  readonly #writing = new LRUCache<string, Loading>({ max: MAX_CACHED, ttl: MAX_AGE_MS })
  /** What products were loaded from. */
  readonly #grounds = new WeakMap<ServedProduct, Grounds>()
  /** Products by whose files it could not be told how they are masked. */
  readonly #untold = new LRUCache<string, true>({ max: MAX_CACHED, ttl: UNTOLD_FOR_MS })
  readonly #copies: CopyChecks
  /** By tenant. */
  readonly #bells = new Map<string, Set<Bell>>()
  /** For readers that wait for what a product will be. */
  readonly watches: ProductWatches

  constructor(deps: ServedProductsDeps) {
    this.#deps = deps
    this.#copies = new CopyChecks({ ...deps, onLateLoss: () => this.dropAll() })
    this.watches = new ProductWatches(this)
  }

  /** By id, name or `namespace.name`. Throws `product_not_found`, or CONFLICT `ambiguous_product`. */
  find(tenant: string, reference: string, domain?: string): Promise<ServedProduct> {
    const key = JSON.stringify([tenant, reference, domain ?? null])
    const cached = this.#cache.get(key)
    const load = () => this.#load(tenant, reference, domain)
    if (cached === undefined) return this.#loadFirst(key, load)
    if (performance.now() - cached.sinceMs > REFRESH_AFTER_MS) this.#refresh(key, load)
    return cached.product
  }

  #loadFirst(key: string, load: () => Promise<ServedProduct>): Promise<ServedProduct> {
    const before = this.#writing.get(key)
    // As old as what it may be again.
    const loading = before ? this.#begin(() => this.#again(before, load), before.sinceMs) : this.#begin(load)
    this.#cache.set(key, loading, { start: loading.sinceMs })
    this.#refreshing.delete(key)
    void loading.outcome.then((outcome) => {
      if (outcome === 'kept' || this.#cache.peek(key) !== loading) return
      this.#cache.delete(key)
      if (outcome === 'writing') this.#writing.set(key, loading, { start: loading.sinceMs })
      else this.#writing.delete(key)
    })
    return loading.product
  }

  /** What was loaded before, with the copies whose lines are others by now. A copy of a later epoch is the first word of that. */
  async #again(before: Loading, load: () => Promise<ServedProduct>): Promise<ServedProduct> {
    const product = await before.product
    const grounds = this.#grounds.get(product) as Grounds
    const states = await endpointStates(this.#deps.pool, product.id)
    if (sameLines(states, grounds.states)) return product
    if (states.some(({ appliedEpoch }) => (appliedEpoch ?? 0) > (grounds.newest?.epoch ?? 0))) return load()
    return this.#withCopies(product, { ...grounds, states }, { product, states: grounds.states })
  }

  /** One at a time; what was dropped meanwhile is not put back. */
  #refresh(key: string, load: () => Promise<ServedProduct>): void {
    if (this.#refreshing.has(key)) return
    const loading = this.#begin(load)
    this.#refreshing.set(key, loading)
    void loading.outcome.then((outcome) => {
      if (this.#refreshing.get(key) !== loading) return
      this.#refreshing.delete(key)
      if (outcome === 'kept') this.#cache.set(key, loading, { start: loading.sinceMs })
      else if (outcome !== 'failed') this.#cache.delete(key)
    })
  }

  #begin(load: () => Promise<ServedProduct>, sinceMs: number = performance.now()): Loading {
    const hears = this.#deps.hearsChanges()
    const product = load()
    const outcome = product.then(
      (loaded) => (!hears ? 'changing' : isSettled(loaded) ? 'kept' : isBeingWritten(loaded) ? 'writing' : 'changing'),
      () => 'failed' as const,
    )
    return { product, sinceMs, outcome }
  }

  /** Those with a version in service. @param names `namespace.product` */
  async named(tenant: string, names: ReadonlySet<string>): Promise<readonly ServedProduct[]> {
    if (names.size === 0) return []
    const products = await deployedProducts(this.#deps.pool, tenant)
    const found = products.filter(({ domain, name }) => names.has(`${domain}.${name}`))
    return Promise.all(found.map((product) => this.find(tenant, product.id)))
  }

  /**
   * The product with that copy as that epoch has it: a store may tell of it sooner than the registry does. Null where the
   * product has no such epoch, or none that has that copy.
   */
  async withCopyAt(
    product: ServedProduct,
    type: string,
    { variant, epoch }: { readonly variant: Variant; readonly epoch: number },
  ): Promise<ServedProduct | null> {
    const { pool, plugins, rules } = this.#deps
    const endpoint = product.endpoints.get(type)
    const serving = plugins.serving(type)
    const made = await findEpoch(pool, product.id, epoch)
    const version = made && (await findVersion<ManifestSet>(pool, product.id, made.version))
    if (!endpoint || !serving || !made || !version) return null
    const place = { endpoint: type, variant, grants: product.grants, rules }
    const copy = copyOf(product, serving, version, made, place)
    if (copy === null) return null
    const targets = new Map(endpoint.targets).set(variant, copy)
    return { ...product, endpoints: new Map(product.endpoints).set(type, { ...endpoint, targets }) }
  }

  drop(tenant: string): void {
    const prefix = `${JSON.stringify([tenant]).slice(0, -1)},`
    for (const keys of [this.#cache, this.#refreshing, this.#writing]) {
      for (const key of keys.keys()) if (key.startsWith(prefix)) keys.delete(key)
    }
    for (const bell of this.#bells.get(tenant) ?? []) bell.ring()
  }

  dropAll(): void {
    this.#cache.clear()
    this.#refreshing.clear()
    this.#writing.clear()
    for (const bells of this.#bells.values()) for (const bell of bells) bell.ring()
  }

  /** Rings when products of the tenant are dropped, until it is disposed of. */
  changes(tenant: string): Bell & Disposable {
    const bell = new Bell()
    const bells = this.#bells.get(tenant) ?? new Set()
    this.#bells.set(tenant, bells.add(bell))
    const leave = () => {
      bells.delete(bell)
      if (bells.size === 0 && this.#bells.get(tenant) === bells) this.#bells.delete(tenant)
    }
    return Object.assign(bell, { [Symbol.dispose]: leave })
  }

  async #load(tenant: string, reference: string, domain: string | undefined): Promise<ServedProduct> {
    const { pool, rules } = this.#deps
    const version = String(await policyVersion(pool, tenant))
    const product = await findByReference(pool, tenant, reference, domain)
    if (product.previewOf !== null && (await isPreviewOver(pool, product.id))) {
      throw new SluiceError('INVALID_DATA', NO_PRODUCT.message, NO_PRODUCT)
    }
    const newest = await this.#newestOf(product)
    const grants = await productGrants(pool, tenant, holderOfGrants(product))
    const versions = new VersionCache(pool, product.id)
    const current = product.currentVersion === null ? null : await versions.get(product.currentVersion)
    const snapshotVersion = newest === null ? null : await versions.get(newest.version)
    const raised = await blockingColumns(pool, product.id)
    const classification = await this.#classificationOf(product, current)
    const columnsOf = (version: Version | null) => columnsMadeBy(version?.normalised, raised, rules)
    const today = columnsOf(current)
    const former = await formerColumns<ClassifiedColumn>(pool, product.id, today)
    const states = await endpointStates(pool, product.id)
    const loaded = {
      id: product.id,
      tenant,
      domain: product.domain,
      name: product.name,
      isPreview: product.previewOf !== null,
      classification,
      snapshotClassification: snapshotVersion?.normalised.product.classification ?? classification,
      columns: strictestThen(today, former, columnsOf(snapshotVersion), rules),
      formerColumns: former,
      raised,
      grants,
      policyVersion: version,
      remaking: {
        name: `${product.domain}.${product.name}`,
        paused: product.paused,
        toDeploy: (raised.get(current?.digest ?? '') ?? []).map(({ column }) => column),
      },
      variants: variantsOf(product, newest),
    }
    return this.#withCopies(loaded, { newest, current, versions, states }, null)
  }

  /** A release before this one, which runs beside it, notes no masks. */
  async #newestOf({ id }: Product): Promise<Materialization | null> {
    const { pool, noteMasks } = this.#deps
    const newest = await latestEpoch(pool, id)
    if (newest === null || newest.masks !== null || this.#untold.has(id)) return newest
    if ((await noteMasks(id)) !== 'noted') this.#untold.set(id, true)
    return latestEpoch(pool, id)
  }

  /** Of a preview the stricter of its own and of its product: the row of a preview says nothing of it. */
  async #classificationOf(product: Product, current: Version | null): Promise<Classification> {
    const { tenant, previewOf, classification } = product
    if (previewOf === null) return classification
    const previewed = await findProduct(this.#deps.pool, tenant, previewOf)
    if (previewed === null || current === null) return classification
    return stricter(previewed.classification, current.normalised.product.classification)
  }

  /** @param before whose copies are taken where their lines are still the same */
  async #withCopies(
    product: Omit<ServedProduct, 'endpoints'>,
    grounds: Grounds,
    before: { readonly product: ServedProduct; readonly states: readonly EndpointState[] } | null,
  ): Promise<ServedProduct> {
    const { newest, current, versions, states } = grounds
    const { plugins, rules } = this.#deps
    const past = pastOf(product, this.#deps)
    const endpoints = new Map<string, LoadedEndpoint>()
    for (const { type } of current?.normalised.serving.endpoints ?? [])
      endpoints.set(type, {
        type,
        isServed: plugins.serving(type) !== undefined,
        targets: new Map(),
        rebuilding: new Set(),
        coming: new Set(),
        isSettled: true,
      })
    const load = async (state: EndpointState): Promise<void> => {
      const serving = plugins.serving(state.endpoint)
      const endpoint = endpoints.get(state.endpoint)
      if (endpoint && state.error?.code === COPY_LOST) endpoint.rebuilding.add(state.variant)
      // Nobody tells when a copy has come: only of epochs.
      if (endpoint && state.state !== 'ok') endpoint.isSettled = false
      if (endpoint && state.appliedEpoch === null) endpoint.coming.add(state.variant)
      if (!serving || !endpoint || state.appliedEpoch === null) return
      const known = before?.states.some((one) => sameLines([one], [state]))
        ? before.product.endpoints.get(state.endpoint)?.targets.get(state.variant)
        : undefined
      if (known !== undefined) {
        endpoint.targets.set(state.variant, known)
        return
      }
      const applied = newest?.epoch === state.appliedEpoch ? newest : await past.epoch(state.appliedEpoch)
      const version = applied === null ? null : await versions.get(applied.version)
      if (!applied || !version) return
      const copy = copyOf(product, serving, version, applied, { ...state, grants: product.grants, rules })
      if (copy === null) return
      const expected = { epoch: state.appliedEpoch, committedAt: applied.committedAt }
      if (await this.#copies.isLost(state, expected, serving.store, copy.target)) {
        endpoint.rebuilding.add(state.variant)
        endpoint.isSettled = false
        return
      }
      endpoint.targets.set(state.variant, copy)
    }
    await Promise.all(states.map(load))
    const loaded = { ...product, endpoints }
    this.#grounds.set(loaded, grounds)
    return loaded
  }
}

interface CopyPlace extends Pick<EndpointState, 'endpoint' | 'variant'> {
  readonly grants: ServedProduct['grants']
  readonly rules: MaskingRules
}

/** As the version that made the epoch says; null where it has no such copy. */
function copyOf(
  product: Pick<Product, 'tenant' | 'domain' | 'name'>,
  { plugin, store }: Pick<ServedTarget, 'plugin' | 'store'>,
  { normalised: madeBy }: Version,
  made: Materialization,
  { endpoint, variant, grants, rules }: CopyPlace,
): ServedTarget | null {
  const plan = planOf(madeBy, variant, grants, rules)
  const declared = madeBy.serving.endpoints.find(({ type }) => type === endpoint)
  if (!plan || !declared) return null
  return {
    plugin,
    store,
    target: targetFor(product, plan, declared.config),
    madeBy,
    version: made.version,
    epoch: made.epoch as number,
    snapshotId: made.snapshots[variant] ?? '',
    committedAt: made.committedAt.toISOString(),
    readAt: readAtOf(made).toISOString(),
    rests: restsOf(ownName(product.domain, product.name), made),
    maskedColumns: made.maskedColumns[variant] ?? [],
    masks: madeMasks(made, variant),
  }
}

/** All but the lines of its copies is told of when it becomes another. */
interface Grounds {
  readonly newest: Materialization | null
  readonly current: Version | null
  readonly versions: VersionCache
  readonly states: readonly EndpointState[]
}

const sameLines = (one: readonly EndpointState[], other: readonly EndpointState[]): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

interface LoadedEndpoint extends ServedEndpoint {
  readonly targets: Map<Variant, ServedTarget>
  readonly rebuilding: Set<Variant>
  readonly coming: Set<Variant>
  isSettled: boolean
}

type Version = ProductVersion<ManifestSet>

class VersionCache {
  readonly #pool: pg.Pool
  readonly #productId: string
  readonly #known = new Map<string, Promise<Version | null>>()

  constructor(pool: pg.Pool, productId: string) {
    this.#pool = pool
    this.#productId = productId
  }

  get(version: string): Promise<Version | null> {
    const known = this.#known.get(version)
    if (known) return known
    const loading = findVersion<ManifestSet>(this.#pool, this.#productId, version)
    this.#known.set(version, loading)
    return loading
  }
}

/** Every store is at the newest epoch: nothing will change before the next commit or policy. */
function isSettled(product: ServedProduct): boolean {
  if (product.variants.size === 0) return false
  const newest = product.variants.get('clear')?.epoch
  return [...product.endpoints.values()].every(
    (endpoint) =>
      endpoint.isSettled &&
      endpoint.targets.size > 0 &&
      [...endpoint.targets.values()].every((target) => target.epoch === newest),
  )
}

/** Every endpoint has a copy of an epoch that nothing is wrong with: only newer ones are to come. */
function isBeingWritten({ variants, endpoints }: ServedProduct): boolean {
  return (
    variants.size > 0 &&
    [...endpoints.values()].every(({ targets, rebuilding }) => targets.size > 0 && rebuilding.size === 0)
  )
}

/** The product as readers of what that version made meet it: by the stricter of its policy and today's. */
export function asMadeBy(product: ServedProduct, version: ManifestSet, rules: MaskingRules): ServedProduct {
  return {
    ...product,
    snapshotClassification: stricter(product.snapshotClassification, version.product.classification),
    columns: strictestThen(
      product.columns,
      product.formerColumns,
      columnsMadeBy(version, product.raised, rules),
      rules,
    ),
  }
}

function columnsMadeBy(version: ManifestSet | undefined, raised: RaisedByDigest, rules: MaskingRules) {
  if (version === undefined) return []
  return withRaised<ClassifiedColumn>(version.output.columns, raised.get(version.digest), rules)
}

/** As `strictestOf`, where columns that are no more count with the class that they had last. */
function strictestThen(
  today: ServedProduct['columns'],
  former: ServedProduct['columns'],
  then: ServedProduct['columns'],
  rules: MaskingRules,
): ServedProduct['columns'] {
  const isAmong = (columns: ServedProduct['columns'], name: string) => columns.some((column) => column.name === name)
  const dropped = former.filter(({ name }) => isAmong(then, name) && !isAmong(today, name))
  return strictestOf([...today, ...dropped], then, rules)
}

/**
 * The columns of both, each with the class of today unless only those of then are masked. A column of several masked
 * classes is there once for each: whoever is cleared for one of them has not been cleared for the others.
 */
export function strictestOf(
  today: ServedProduct['columns'],
  then: ServedProduct['columns'],
  rules: MaskingRules,
): readonly ServedProduct['columns'][number][] {
  const hides = ({ classification }: ClassifiedColumn) => isSensitive(classification, rules)
  const merged = [...Map.groupBy(today, ({ name }) => name)].flatMap(([name, now]) => {
    const [column] = now as [ClassifiedColumn]
    const classes = new Set(
      [...now, ...then.filter((one) => one.name === name)].filter(hides).map((one) => one.classification),
    )
    return classes.size === 0 ? [column] : [...classes].map((classification) => ({ ...column, classification }))
  })
  return [...merged, ...then.filter((column) => !today.some((now) => now.name === column.name))]
}

function planOf(
  manifests: ManifestSet,
  variant: Variant,
  grants: ServedProduct['grants'],
  rules: MaskingRules,
): VariantPlan | undefined {
  return planVariants(manifests.output, grants, rules).find((plan) => plan.variant === variant)
}

function variantsOf(
  { domain, name }: Pick<Product, 'domain' | 'name'>,
  newest: Materialization | null,
): ReadonlyMap<Variant, ServedVariant> {
  if (newest === null) return new Map()
  const rests = restsOf(ownName(domain, name), newest)
  return new Map(
    Object.entries(newest.snapshots).map(([variant, snapshotId]) => [
      variant,
      {
        variant,
        epoch: newest.epoch as number,
        snapshotId,
        committedAt: newest.committedAt.toISOString(),
        readAt: readAtOf(newest).toISOString(),
        rests,
        maskedColumns: newest.maskedColumns[variant] ?? [],
        masks: madeMasks(newest, variant),
      },
    ]),
  )
}

/** Throws `product_not_found`, or CONFLICT `ambiguous_product` with the candidates. */
export async function findByReference(
  pool: pg.Pool,
  tenant: string,
  reference: string,
  domain?: string,
): Promise<Product> {
  const byId = await findProduct(pool, tenant, reference)
  if (byId) return byId
  const dot = reference.indexOf('.')
  const [inDomain, name] = dot < 0 ? [domain, reference] : [reference.slice(0, dot), reference.slice(dot + 1)]
  const found = await findProductsByName(pool, tenant, name, inDomain ?? null)
  if (found.length === 1) return found[0] as Product
  if (found.length === 0) {
    throw new SluiceError('INVALID_DATA', NO_PRODUCT.message, NO_PRODUCT)
  }
  throw new SluiceError('CONFLICT', 'products of that name exist in several namespaces', {
    code: 'ambiguous_product',
    remedy: 'Write namespace.name, or add ?namespace=.',
    details: { candidates: found.map((product) => `${product.domain}.${product.name}`) },
  })
}
