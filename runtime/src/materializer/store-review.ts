/**
 * Whether stores still have what the registry has written down of them: a database that was emptied, an older copy put
 * back, another installation's put in place. What is found is noted, and built anew from the lake by whoever retries stores.
 */
import { type AppliedEpoch, isSluiceError, type Logger, type ServingStore, SluiceError, type Target } from '@sluice/sdk'
import type pg from 'pg'
import type { OutputManifest } from '../manifest/manifest-set.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import {
  appliedCopies,
  type CopyLoss,
  copiesBeside,
  type EndpointKey,
  endpointLost,
  endpointsEver,
  leftoverFound,
  type PlacedKey,
  type SoundCopy,
  soundCopy,
} from '../registry/endpoint-states.ts'
import { findEpoch } from '../registry/materializations.ts'
import { findProduct } from '../registry/products.ts'
import type { Queryable } from '../registry/sql.ts'
import { hasPlaces, otherPlace } from './places.ts'
import { ifProductIsFree } from './product-lock.ts'
import { copyTarget } from './store-copies.ts'

/** An epoch as the registry has it. */
export interface ExpectedEpoch {
  readonly epoch: number
  readonly committedAt: Date
}

/**
 * Null where the store has the epoch that the registry believes it has, or a later one of the same product that is being
 * written. Epochs of others have the same numbers, and none of them was committed at the same instant.
 */
export async function lossOf(
  db: Queryable,
  productId: string,
  store: ServingStore,
  target: Target,
  expected: ExpectedEpoch,
): Promise<CopyLoss | null> {
  const found = await epochIn(store, target)
  if (found === undefined) return null
  if (found === null) return 'emptied'
  const known = found.epoch === expected.epoch ? expected : await findEpoch(db, productId, found.epoch)
  if (known === null || known.committedAt.getTime() !== Date.parse(found.committedAt)) return 'foreign'
  return found.epoch < expected.epoch ? 'outdated' : null
}

/** Null where the store has none, and undefined where it cannot say. Some throw where there is not even a place for one. */
async function epochIn(store: ServingStore, target: Target): Promise<AppliedEpoch | null | undefined> {
  try {
    return await store.recover?.(target)
  } catch (error) {
    if (lossIn(error) === 'emptied') return null
    throw error
  }
}

export interface StoreReviewDeps {
  readonly pool: pg.Pool
  readonly plugins: PluginSet
  readonly logger: Logger
}

type NotingDeps = Omit<StoreReviewDeps, 'plugins'>

/**
 * Looks again at a copy of which a first look said that it is lost, and notes what the second one says too; null where
 * nothing is noted. Only while nobody else has the product, and the copy is said to be in order from before the second
 * look until it is noted: whoever is writing it leaves it as it should be, or as the next look finds it. Readers go on
 * meanwhile. Throws what the second look throws: of a store that does not answer nothing is known.
 */
export function confirmLoss(
  deps: NotingDeps,
  key: PlacedKey,
  epoch: number,
  look: () => Promise<CopyLoss | null>,
): Promise<CopyLoss | null> {
  const second = async () => {
    const copy = await soundCopy(deps.pool, key, epoch)
    const loss = copy && (await look())
    return copy && loss && (await noteLoss(deps, copy, loss)) ? loss : null
  }
  return inTurn(key.productId, () => ifProductIsFree(deps.pool, key.productId, second))
}

/** The lock of a product has a connection of its own beside those that looks need: a whole store lost must not take all. */
const CONFIRMED_AT_ONCE = 4
const confirming = new Set<string>()
const waiting: (() => void)[] = []

/** Null at once where the product is being confirmed: its lock is taken. */
async function inTurn<T>(productId: string, confirm: () => Promise<T>): Promise<T | null> {
  if (confirming.has(productId)) return null
  confirming.add(productId)
  try {
    if (confirming.size > CONFIRMED_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve))
    return await confirm()
  } finally {
    confirming.delete(productId)
    waiting.shift()?.()
  }
}

async function noteLoss({ pool, logger }: NotingDeps, copy: SoundCopy, loss: CopyLoss): Promise<boolean> {
  const isNoted = await endpointLost(pool, copy, loss)
  const { productId: product, endpoint, variant } = copy
  if (isNoted)
    logger.warn('a store has lost its copy of a product; it is built anew', { product, endpoint, variant, loss })
  return isNoted
}

/** Of a read whose rows are of an epoch before the one that the store was said to have. */
export function copyOutdated(): SluiceError {
  return new SluiceError('TRANSIENT', 'the store has an older epoch than it had', {
    code: 'copy_outdated',
    remedy: 'Nothing is to be done: it is built anew from the lake. Try again in a moment.',
    retryAfterMs: 2_000,
  })
}

export const isCopyOutdated = (error: unknown) => isSluiceError(error, 'TRANSIENT') && error.code === 'copy_outdated'

/** What a store says whose place is not as it has written it down, or that has nothing there; or what its rows say. */
export function lossIn(error: unknown): 'unreadable' | 'emptied' | 'outdated' | null {
  if (!isSluiceError(error)) return null
  if (isCopyOutdated(error)) return 'outdated'
  if (['schema_conflict', 'policy_missing', 'not_provisioned'].includes(error.code)) return 'unreadable'
  return error.code === 'not_materialized' ? 'emptied' : null
}

/**
 * What calls that failed say of the copy. Of a place that is gone a store says the same as of one that is damaged; but a
 * copy that is gone is its own loss, and none of the copies beside it.
 */
export async function lossBy(
  calls: () => Promise<unknown>,
  store: ServingStore,
  target: Target,
): Promise<CopyLoss | null> {
  try {
    await calls()
    return null
  } catch (error) {
    const loss = lossIn(error)
    if (loss === null) throw error
    return (await epochIn(store, target)) === null ? 'emptied' : loss
  }
}

const COPIES_AT_ONCE = 200

type Copies = Awaited<ReturnType<typeof appliedCopies>>

/** Looks at every copy once. A store that does not answer is passed over: its own readiness says so. */
export function reviewStores(deps: StoreReviewDeps, signal: AbortSignal): Promise<number> {
  const pages = (after: EndpointKey | null) => appliedCopies(deps.pool, after, COPIES_AT_ONCE)
  return review(pages, async () => undefined, deps, signal)
}

/**
 * A copy's place is damaged, and so may be those beside it, whoever's they are: products of one name and shape share a table
 * in some stores. Each is looked at, its policy too, and only those that are lost are noted; how many. Once others have the
 * product at hand, such a copy is passed over: whoever reads it, or looks next, finds it lost as well.
 */
export async function reviewBeside(
  damaged: Pick<EndpointKey, 'productId' | 'endpoint'>,
  deps: StoreReviewDeps,
  signal: AbortSignal,
): Promise<number> {
  const pages = (after: EndpointKey | null) => copiesBeside(deps.pool, damaged, after, COPIES_AT_ONCE)
  const policy = (store: ServingStore, target: Target) => store.rls.describe(target)
  try {
    return await review(pages, policy, deps, signal)
  } catch (error) {
    signal.throwIfAborted()
    const code = isSluiceError(error) ? error.code : undefined
    deps.logger.warn('the copies beside a damaged one could not be looked at', { product: damaged.productId, code })
    return 0
  }
}

/** What is asked of a copy besides its epoch. */
type AlsoAsked = (store: ServingStore, target: Target) => Promise<unknown>

async function review(
  pages: (after: EndpointKey | null) => Promise<Copies>,
  also: AlsoAsked,
  deps: StoreReviewDeps,
  signal: AbortSignal,
): Promise<number> {
  let lost = 0
  let after: EndpointKey | null = null
  for (;;) {
    const copies: Copies = await pages(after)
    for (const copy of copies) {
      signal.throwIfAborted()
      if ((await lossOfCopy(copy, also, deps)) !== null) lost += 1
    }
    if (copies.length < COPIES_AT_ONCE) return lost
    after = copies.at(-1) ?? null
  }
}

async function lossOfCopy(copy: Copies[number], also: AlsoAsked, deps: StoreReviewDeps): Promise<CopyLoss | null> {
  const { pool, plugins, logger } = deps
  const serving = plugins.serving(copy.endpoint)
  const product = serving === undefined ? null : await findProduct(pool, copy.tenant, copy.productId)
  if (serving === undefined || product === null) return null
  const endpoints = await endpointsEver<OutputManifest>(pool, product.id)
  const endpoint = endpoints.find(({ type }) => type === copy.endpoint)
  if (endpoint === undefined) return null
  const { store, plugin } = serving
  const target = copyTarget(product, endpoint, copy.variant, copy.place)
  const look = async () =>
    (await lossOf(pool, product.id, store, target, copy)) ?? (await lossBy(() => also(store, target), store, target))
  try {
    const other = copyTarget(product, endpoint, copy.variant, otherPlace(copy.place))
    if (hasPlaces(plugin) && (await store.drop(other, 'plan')).steps.length > 0) await leftoverFound(pool, copy)
    return (await look()) === null ? null : await confirmLoss(deps, copy, copy.epoch, look)
  } catch (error) {
    const code = isSluiceError(error) ? error.code : undefined
    logger.warn('a copy in a store could not be looked at', { product: product.id, endpoint: copy.endpoint, code })
    return null
  }
}

/** What a reader is told meanwhile. */
export function copyRebuilding(): SluiceError {
  return new SluiceError('TRANSIENT', 'the rows of the product are being built anew in this store', {
    code: 'store_rebuilding',
    remedy: 'Repeat the read a little later; the product says what was found.',
    retryAfterMs: 2_000,
  })
}
