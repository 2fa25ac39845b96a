/**
 * Whether stores still have what the registry has written down of them: a database that was emptied, an older copy put
 * back, another installation's put in place. What is found is noted, and built anew from the lake by whoever retries stores.
 */
import { isSluiceError, type Logger, type ServingStore, SluiceError, type Target } from '@sluice/sdk'
import type pg from 'pg'
import type { OutputManifest } from '../manifest/manifest-set.ts'
import type { PluginSet } from '../plugins/plugin-set.ts'
import {
  appliedCopies,
  type CopyLoss,
  type EndpointKey,
  endpointLost,
  endpointsEver,
  loseTable,
} from '../registry/endpoint-states.ts'
import { findEpoch } from '../registry/materializations.ts'
import { findProduct } from '../registry/products.ts'
import type { Queryable } from '../registry/sql.ts'
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
  const found = await store.recover?.(target)
  if (found === undefined) return null
  if (found === null) return 'emptied'
  const known = found.epoch === expected.epoch ? expected : await findEpoch(db, productId, found.epoch)
  if (known === null || known.committedAt.getTime() !== Date.parse(found.committedAt)) return 'foreign'
  return found.epoch < expected.epoch ? 'outdated' : null
}

export interface StoreReviewDeps {
  readonly pool: pg.Pool
  readonly plugins: PluginSet
  readonly logger: Logger
}

/** Notes the loss, unless a run is about to write the copy in any case; true where it was news. */
export async function noteLoss(
  { pool, logger }: Omit<StoreReviewDeps, 'plugins'>,
  key: EndpointKey,
  epoch: number,
  loss: CopyLoss,
): Promise<boolean> {
  const isNew = await endpointLost(pool, key, epoch, loss)
  if (isNew && loss === 'unreadable') await loseTable(pool, key.productId, key.endpoint)
  const { productId: product, endpoint, variant } = key
  if (isNew)
    logger.warn('a store has lost its copy of a product; it is built anew', { product, endpoint, variant, loss })
  return isNew
}

const COPIES_AT_ONCE = 200

/** Looks at every copy once. A store that does not answer is passed over: its own readiness says so. */
export async function reviewStores(deps: StoreReviewDeps, signal: AbortSignal): Promise<number> {
  let lost = 0
  let after: EndpointKey | null = null
  for (;;) {
    const copies: Awaited<ReturnType<typeof appliedCopies>> = await appliedCopies(deps.pool, after, COPIES_AT_ONCE)
    for (const copy of copies) {
      signal.throwIfAborted()
      const loss = await lossOfCopy(copy, deps)
      if (loss !== null && (await noteLoss(deps, copy, copy.epoch, loss))) lost += 1
    }
    if (copies.length < COPIES_AT_ONCE) return lost
    after = copies.at(-1) ?? null
  }
}

async function lossOfCopy(
  copy: Awaited<ReturnType<typeof appliedCopies>>[number],
  { pool, plugins, logger }: StoreReviewDeps,
): Promise<CopyLoss | null> {
  const serving = plugins.serving(copy.endpoint)
  const product = serving === undefined ? null : await findProduct(pool, copy.tenant, copy.productId)
  if (serving === undefined || product === null) return null
  const endpoints = await endpointsEver<OutputManifest>(pool, product.id)
  const endpoint = endpoints.find(({ type }) => type === copy.endpoint)
  if (endpoint === undefined) return null
  try {
    return await lossOf(pool, product.id, serving.store, copyTarget(product, endpoint, copy.variant), copy)
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
