/** Products as readers meet them, loaded from the registry, with the copies that stores have of them. */
import { SluiceError, type Variant } from '@sluice/sdk'
import { LRUCache } from 'lru-cache'
import type pg from 'pg'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { pastOf, targetFor } from '../../materializer/targets.ts'
import { planVariants, type VariantPlan } from '../../materializer/variants.ts'
import type { PluginSet } from '../../plugins/plugin-set.ts'
import { type Classification, stricter } from '../../policy/classification.ts'
import { rowMasks } from '../../policy/made-masks.ts'
import type { ClassifiedColumn, MaskingRules } from '../../policy/masking.ts'
import { readAtOf } from '../../registry/data-ages.ts'
import { COPY_LOST, type EndpointState, endpointStates } from '../../registry/endpoint-states.ts'
import { productGrants } from '../../registry/grants.ts'
import { findEpoch, latestEpoch, type Materialization } from '../../registry/materializations.ts'
import { policyVersion } from '../../registry/policy-versions.ts'
import { isPreviewOver } from '../../registry/previews.ts'
import { findProduct, holderOfGrants, type Product } from '../../registry/products.ts'
import { blockingColumns } from '../../registry/raised-classes.ts'
import { ownName, restsOf } from '../../registry/rests-on.ts'
import { findVersion, formerColumns, type ProductVersion } from '../../registry/versions.ts'
import { columnsMadeBy, strictestThen } from './as-made-by.ts'
import { CopyChecks, type CopyChecksDeps } from './copy-checks.ts'
import { findByReference } from './find-by-reference.ts'
import {
  NO_PRODUCT,
  type ServedEndpoint,
  type ServedProduct,
  type ServedTarget,
  type ServedVariant,
} from './served-product.ts'

const MAX_UNTOLD = 5_000
/** A lake that could not tell by which masks a product was made is not asked by every read. */
const UNTOLD_FOR_MS = 60_000

export interface ProductLoaderDeps extends CopyChecksDeps {
  readonly plugins: PluginSet
  readonly rules: MaskingRules
  /** Looks up by which masks epochs of the product were made that do not say so. */
  noteMasks(productId: string): Promise<'noted' | 'unreadable' | 'unavailable'>
}

export class ProductLoader {
  readonly #deps: ProductLoaderDeps
  /** What products were loaded from. */
  readonly #grounds = new WeakMap<ServedProduct, Grounds>()
  /** Products by whose files it could not be told how they are masked. */
  readonly #untold = new LRUCache<string, true>({ max: MAX_UNTOLD, ttl: UNTOLD_FOR_MS })
  readonly #copies: CopyChecks

  constructor(deps: ProductLoaderDeps) {
    this.#deps = deps
    this.#copies = new CopyChecks(deps)
  }

  /** By id, name or `namespace.name`. Throws `product_not_found`, or CONFLICT `ambiguous_product`. */
  async load(tenant: string, reference: string, domain: string | undefined): Promise<ServedProduct> {
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
    const columns = strictestThen(today, former, columnsOf(snapshotVersion), rules)
    const loaded = {
      id: product.id,
      tenant,
      domain: product.domain,
      name: product.name,
      isPreview: product.previewOf !== null,
      classification,
      snapshotClassification: snapshotVersion?.normalised.product.classification ?? classification,
      columns,
      formerColumns: former,
      raised,
      grants,
      policyVersion: version,
      remaking: {
        name: `${product.domain}.${product.name}`,
        paused: product.paused,
        toDeploy: (raised.get(current?.digest ?? '') ?? []).map(({ column }) => column),
      },
      variants: variantsOf(product, newest, snapshotVersion?.normalised.output.columns ?? columns),
    }
    return this.#withCopies(loaded, { newest, current, versions, states }, null)
  }

  /** What was loaded before, with the copies whose lines are others by now. A copy of a later epoch is the first word of that. */
  async again(product: ServedProduct, load: () => Promise<ServedProduct>): Promise<ServedProduct> {
    const grounds = this.#grounds.get(product) as Grounds
    const states = await endpointStates(this.#deps.pool, product.id)
    if (sameLines(states, grounds.states)) return product
    if (states.some(({ appliedEpoch }) => (appliedEpoch ?? 0) > (grounds.newest?.epoch ?? 0))) return load()
    return this.#withCopies(product, { ...grounds, states }, { product, states: grounds.states })
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
    const { place } = endpoint.targets.get(variant) ?? { place: 'first' as const }
    const copy = copyOf(product, serving, version, made, {
      endpoint: type,
      variant,
      place,
      grants: product.grants,
      rules,
    })
    if (copy === null) return null
    const targets = new Map(endpoint.targets).set(variant, copy)
    return { ...product, endpoints: new Map(product.endpoints).set(type, { ...endpoint, targets }) }
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

interface CopyPlace extends Pick<EndpointState, 'endpoint' | 'variant' | 'place'> {
  readonly grants: ServedProduct['grants']
  readonly rules: MaskingRules
}

/** As the version that made the epoch says; null where it has no such copy. */
function copyOf(
  product: Pick<Product, 'tenant' | 'domain' | 'name'>,
  { plugin, store }: Pick<ServedTarget, 'plugin' | 'store'>,
  { normalised: madeBy }: Version,
  made: Materialization,
  { endpoint, variant, place, grants, rules }: CopyPlace,
): ServedTarget | null {
  const plan = planOf(madeBy, variant, grants, rules)
  const declared = madeBy.serving.endpoints.find(({ type }) => type === endpoint)
  if (!plan || !declared) return null
  return {
    plugin,
    store,
    target: targetFor(product, plan, declared.config, place),
    place,
    madeBy,
    version: made.version,
    epoch: made.epoch as number,
    snapshotId: made.snapshots[variant] ?? '',
    committedAt: made.committedAt.toISOString(),
    readAt: readAtOf(made).toISOString(),
    rests: restsOf(ownName(product.domain, product.name), made),
    maskedColumns: made.maskedColumns[variant] ?? [],
    masks: rowMasks(made, variant, madeBy.output.columns),
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
  then: readonly ClassifiedColumn[],
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
        masks: rowMasks(newest, variant, then),
      },
    ]),
  )
}
