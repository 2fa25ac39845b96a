/** What a version is made of, at the moment in which it is committed: nothing of it has gone, or is going, since it was judged. */
import { SluiceError } from '@sluice/sdk'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { findConnectionByName } from '../../registry/connections.ts'
import { beingDeleted, productsStaying } from '../../registry/deletions.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import type { Transaction } from '../../registry/sql.ts'

/**
 * After `lockClasses`, which deletions of products and connections take as well. Throws CONFLICT `plan_changed` where an input
 * is gone, and `product_being_deleted`.
 */
export async function requireSources(
  tx: Transaction,
  tenant: string,
  { inputs }: Pick<ManifestSet, 'inputs'>,
): Promise<void> {
  for (const name of new Set(inputs.map(({ connection }) => connection))) {
    if (name === PRODUCTS || name === SANDBOX) continue
    if ((await findConnectionByName(tx, tenant, name)) === null) throw gone(`the connection ${name}`)
  }
  const products = inputs.filter(({ connection }) => connection === PRODUCTS).map(({ table }) => table)
  if (products.length === 0) return
  const staying = await productsStaying(tx, tenant, products)
  for (const name of products) {
    const found = staying.get(name)
    if (found === undefined) throw gone(`the product ${name}`)
    if (found.isLeaving) throw beingDeleted(`the product ${name}, an input of it,`)
  }
}

function gone(what: string): SluiceError {
  return new SluiceError('CONFLICT', `${what} was deleted meanwhile`, {
    code: 'plan_changed',
    remedy: 'Plan again, and deploy what still holds.',
  })
}
