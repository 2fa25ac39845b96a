/** Of which columns a reader may know anything that depends on single values, such as how many there are of a kind. */
import type { TenantCall } from '../../flow.ts'
import { decideRead, stricter } from '../../policy/classification.ts'
import { masksFor } from '../../policy/masking.ts'
import type { ProductsDeps } from './deps.ts'
import { sightOf } from './visible-quality.ts'

/**
 * By the policies of today; columns that the product has had, too. Who may read all tables that it is made of may know of every
 * column; else, of a product that may not be read, of none.
 */
export async function clearColumns(
  platform: ProductsDeps,
  call: TenantCall,
  productId: string,
): Promise<(column: string) => boolean> {
  const { clear, columns, rules } = await sightOf(platform, call, productId)
  if (clear === 'all') return () => true
  const product = await platform.served.find(call.tenant, productId)
  const classification = stricter(product.classification, product.snapshotClassification)
  if (!decideRead(call.principal, { ...product, classification }, product.grants).allowed) return () => false
  const masked = new Set(masksFor(columns, clear, rules).map(({ column }) => column))
  return (column) => !masked.has(column)
}
