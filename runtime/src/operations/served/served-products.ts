/** Keeps products as readers meet them for moments: reads must not ask the registry every time. */
import { LRUCache } from 'lru-cache'
import { Bell } from '../../jobs/bell.ts'
import { deployedProducts } from '../../registry/products.ts'
import { ProductLoader, type ProductLoaderDeps } from './product-loader.ts'
import { ProductWatches } from './product-watches.ts'
import type { ServedProduct } from './served-product.ts'

/** Policies are at most this stale, were a notification lost that should have come. */
const MAX_AGE_MS = 5_000
const MAX_CACHED = 5_000
/** The clock is read for each look: to keep what it said, the cache would start a timer each millisecond. */
const AGING = { ttl: MAX_AGE_MS, ttlResolution: 0 }
/** From then on a read has the product loaded anew beside it, so that those after it need not wait. */
const REFRESH_AFTER_MS = 2_500

export interface ServedProductsDeps extends Omit<ProductLoaderDeps, 'onLateLoss'> {
  /** Whether changes are told (`drop`) now; what is loaded while they are not is not kept. */
  hearsChanges(): boolean
  /** Of this runtime that answer. Default 1. */
  readonly processes?: number
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
  readonly #cache = new LRUCache<string, Loading>({ max: MAX_CACHED, ...AGING })
  /** By the same keys: what will take the place of the cached one. */
  readonly #refreshing = new Map<string, Loading>()
  /** By the same keys: while stores are given an epoch, each read looks whether copies have come, and at nothing else. */
  readonly #writing = new LRUCache<string, Loading>({ max: MAX_CACHED, ...AGING })
  readonly #loader: ProductLoader
  /** By tenant. */
  readonly #bells = new Map<string, Set<Bell>>()
  /** For readers that wait for what a product will be. */
  readonly watches: ProductWatches

  constructor(deps: ServedProductsDeps) {
    this.#deps = deps
    this.#loader = new ProductLoader({ ...deps, onLateLoss: () => this.dropAll() })
    this.watches = new ProductWatches(this, deps.processes)
  }

  /** By id, name or `namespace.name`. Throws `product_not_found`, or CONFLICT `ambiguous_product`. */
  find(tenant: string, reference: string, domain?: string): Promise<ServedProduct> {
    const key = JSON.stringify([tenant, reference, domain ?? null])
    const cached = this.#cache.get(key)
    const load = () => this.#loader.load(tenant, reference, domain)
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

  async #again(before: Loading, load: () => Promise<ServedProduct>): Promise<ServedProduct> {
    return this.#loader.again(await before.product, load)
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

  /** As of `ProductLoader`. */
  withCopyAt(...asked: Parameters<ProductLoader['withCopyAt']>): Promise<ServedProduct | null> {
    return this.#loader.withCopyAt(...asked)
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
