/** Whether there is anything to make of a product, as whoever would make it asks, and whoever leaves it to another. */
import { isDeepStrictEqual } from 'node:util'
import { inTransaction } from '../database/pools.ts'
import type { Input } from '../manifest/manifest-set.ts'
import { databaseNow } from '../registry/clock.ts'
import { latestEpoch, type Materialization, noteLaterRead } from '../registry/materializations.ts'
import { findProduct, type Product, pauseOf } from '../registry/products.ts'
import { type Deployed, deployedVersion, keysFor } from './deployed.ts'
import type { MaterializeDeps } from './deps.ts'
import { pauseIfOutdated } from './epoch-note.ts'
import type { InputState } from './input-state.ts'
import { readInputs } from './inputs.ts'
import { productPaused } from './pauses.ts'
import { inputsUnchanged, isUnchanged, type Made, valuesAge } from './unchanged.ts'

interface Asked {
  readonly product: Product
  readonly signal: AbortSignal
}

/**
 * Throws what its making would begin with: CONFLICT `product_paused`, `inputs_unchanged`, and what its inputs cannot be read for. It
 * waits for nobody who makes the product, and fences nobody off. Repeatable.
 */
export async function requireDue({ product, signal }: Asked, deps: MaterializeDeps): Promise<void> {
  await requireNoPause(product, deps)
  const deployed = await inService(product, deps)
  const [inputs, keys] = await Promise.all([
    inputsOf(product, deployed, signal, deps),
    keysFor(product.tenant, deployed.variants, deps),
  ])
  await requireChanged({ product, deployed, keys, inputs }, signal, deps)
}

/** Whether the epoch is made of other rows than there are: a run that is taken up again may have read more since it made it. */
export async function isOfOthers(
  { product, signal }: Asked,
  { inputs: kept }: Materialization,
  deps: MaterializeDeps,
): Promise<boolean> {
  const inputs = await inputsOf(product, await inService(product, deps), signal, deps)
  return inputs.some(({ input, restsOn = {} }) => {
    const { rests_on: rested = {} } = (kept[input.name] ?? {}) as { readonly rests_on?: InputState['restsOn'] }
    return !isDeepStrictEqual(rested, restsOn)
  })
}

async function inService(product: Product, deps: MaterializeDeps): Promise<Deployed> {
  const current = (await findProduct(deps.pool, product.tenant, product.id))?.currentVersion ?? null
  return deployedVersion(product, current, deps)
}

export async function requireNoPause(product: Product, deps: MaterializeDeps): Promise<void> {
  const paused = (await pauseOf(deps.pool, product.id)) ?? (await pauseIfOutdated(product, deps))
  if (paused !== null) throw productPaused(paused)
}

/** As they lie in the lake now. */
export function inputsOf(
  product: Product,
  { manifests, version, judgedColumns, heldShapes }: Deployed,
  signal: AbortSignal,
  deps: MaterializeDeps,
): Promise<readonly InputState[]> {
  const { pool, lake } = deps
  const upstreamOf = (input: Input) => deps.upstreamOf(product, version, input)
  return readInputs(product, manifests, signal, { pool, lake, judgedColumns, heldShapes, upstreamOf })
}

/** Of a product that stays as it is: that its rows are those of a later read. */
export async function requireChanged(made: Made, signal: AbortSignal, deps: MaterializeDeps): Promise<void> {
  const { product, deployed, inputs } = made
  const newest = await latestEpoch(deps.pool, product.id)
  if (newest === null || !(await isUnchanged(made, newest, deps.lake, signal))) return
  if (valuesAge(deployed.manifests, newest, await databaseNow(deps.pool))) return
  const readAts = Object.fromEntries(inputs.map(({ input, readAt }) => [input.name, readAt ?? null]))
  await inTransaction(deps.pool, (tx) => noteLaterRead(tx, newest, readAts))
  throw inputsUnchanged()
}
