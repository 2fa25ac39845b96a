/** A registry that was put back from an older dump, and the lake that has gone on: which of the two a product follows. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { type EpochNote, forgetUnknownEpoch, pauseIfOutdated, unknownEpoch } from '../../materializer/epoch-note.ts'
import { topicsHave } from '../../registry/change-topics.ts'
import { endpointPending, endpointStates } from '../../registry/endpoint-states.ts'
import { adoptEpoch } from '../../registry/materializations.ts'
import { deployedProducts, type Product, updateProduct } from '../../registry/products.ts'
import type { Transaction } from '../../registry/sql.ts'
import { findVersion } from '../../registry/versions.ts'
import { webhooksHave } from '../../registry/webhooks.ts'
import { audited } from '../audit.ts'
import type { ProductsDeps } from './deps.ts'

export type RightOne = 'lake' | 'registry'

/** Looks at every product of the tenant; how many were paused. */
export async function reviewRegistry(platform: ProductsDeps, tenant: string, signal: AbortSignal): Promise<void> {
  for (const product of await deployedProducts(platform.pool, tenant)) {
    signal.throwIfAborted()
    if (product.paused?.reason !== 'registry_outdated') await pauseIfOutdated(product, platform)
  }
}

/**
 * Makes the registry follow the lake, in the transaction that resumes the product; or lets the lake's newer epoch go.
 * Throws CONFLICT `registry_outdated` where nobody says which, and `version_not_found` for a version made since the dump.
 */
export async function settleOutdated(
  tx: Transaction,
  platform: ProductsDeps,
  call: TenantCall,
  product: Product,
  right: RightOne | undefined,
): Promise<void> {
  if (product.paused?.reason !== 'registry_outdated') return
  if (right === undefined) {
    throw new SluiceError('CONFLICT', 'the lake has an epoch that the registry does not know', {
      code: 'registry_outdated',
      remedy: 'Say which one is right: keep lake goes on from the newer epoch, keep registry from what is served now.',
    })
  }
  const note = await unknownEpoch(product, platform)
  if (note === null) return
  if (right === 'lake') await follow(tx, platform, product, note)
  else {
    // They have rows of it, which no difference from an epoch before it takes back.
    await topicsHave(tx, product.id, note.epoch)
    await webhooksHave(tx, product.id, note.epoch)
    await forgetUnknownEpoch(product, platform)
  }
  const details = { right, epoch: note.epoch }
  await audited(tx, call, call.tenant, 'product.settle', { type: 'product', id: product.id }, details)
}

async function follow(tx: Transaction, { lake, pool }: ProductsDeps, product: Product, note: EpochNote): Promise<void> {
  if ((await findVersion(pool, product.id, note.version)) === null) {
    throw new SluiceError('CONFLICT', `the registry does not know version ${note.version}, which made that epoch`, {
      code: 'version_not_found',
      remedy: 'Upload and deploy that version again, then repeat the call.',
    })
  }
  const { tenant, domain } = product
  for (const [table, location] of Object.entries(note.tables))
    await lake.movePointer(registryCatalog(tx), { warehouse: tenant, namespace: domain, table }, location)
  await adoptEpoch(tx, product, {
    epoch: note.epoch,
    committedAt: new Date(note.committed_at),
    version: note.version,
    digest: note.digest,
    snapshots: note.snapshots,
    maskedColumns: note.masked_columns,
    masks: note.masks ?? null,
    inputs: note.inputs,
  })
  await updateProduct(tx, tenant, product.id, { currentVersion: note.version })
  for (const state of await endpointStates(tx, product.id)) await endpointPending(tx, state, { rebuild: true })
}
