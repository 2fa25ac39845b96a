/** A run that the wave of a connection has left a slow product to: that one, and what is made of it, of the newest rows. */
import { isSluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { holdsOf } from '../registry/follows.ts'
import type { LeftBy } from '../registry/left-runs.ts'
import type { Product } from '../registry/products.ts'
import { checkRun, type RunLease } from '../registry/run-claims.ts'
import { saveRunResult } from '../registry/run-progress.ts'
import { pruneLeft } from '../registry/run-retention.ts'
import { findVersion } from '../registry/versions.ts'
import { ofPart, settleLeft } from './held-parts.ts'
import { makeWave, type WaveDeps } from './make-wave.ts'
import type { ProductOutcome } from './product-outcome.ts'

interface LeftWork {
  readonly product: Product
  readonly lease: RunLease
  readonly signal: AbortSignal
}

interface LeftResult extends Readonly<Record<string, unknown>> {
  readonly products: readonly ProductOutcome[]
}

/**
 * Throws the first product's error after everything else was done; what failed waits for another try by itself. Repeatable with the
 * same run. What is as it was is left as it is: somebody else has made it meanwhile.
 */
export async function runLeft(
  { product, lease, signal }: LeftWork,
  { connectionId, tried = {} }: LeftBy,
  deps: WaveDeps,
): Promise<LeftResult> {
  await pruneLeft(deps.pool, product.id)
  const { currentVersion } = product
  const version = currentVersion === null ? null : await findVersion<ManifestSet>(deps.pool, product.id, currentVersion)
  // Deployed meanwhile for another trigger: nothing follows it any more.
  if (version?.normalised.compute.trigger !== 'on_ingestion') return { products: [] }
  const holds = await holdsOf(deps.pool, connectionId)
  const isHeld = (one: { readonly product: Product }) =>
    holds.some(({ kind, part, failures, isHeld: waits }) => {
      return waits && kind === 'product' && part === one.product.id && failures !== tried[part]
    })
  const first = [{ product, manifests: version.normalised }]
  const wave = await makeWave({ lease, signal }, first, { unread: () => null, isHeld, done: [] }, deps)
  // A version that was deployed meanwhile is made by the next attempt.
  const fenced = wave.errors.find((error) => isSluiceError(error, 'FENCED'))
  if (fenced !== undefined) throw fenced
  await inTransaction(deps.pool, async (tx) => {
    await checkRun(tx, lease)
    await settleLeft(tx, { connectionId, outcomes: wave.outcomes, known: holds })
  })
  await saveRunResult(deps.pool, lease, { products: wave.outcomes })
  const [error] = wave.errors
  if (error === undefined) return { products: wave.outcomes }
  throw ofPart(error)
}
