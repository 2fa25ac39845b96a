/** Of which columns a reader may know anything that depends on single values, such as how many there are of a kind. */
import type { TenantCall } from '../../flow.ts'
import { decideRead, stricter } from '../../policy/classification.ts'
import { masksFor } from '../../policy/masking.ts'
import type { Platform } from '../platform.ts'

/** By the policies of today; columns that the product has had, too. Of a product that may not be read, none. */
export async function clearColumns(
  platform: Platform,
  call: TenantCall,
  productId: string,
): Promise<(column: string) => boolean> {
  const product = await platform.served.find(call.tenant, productId)
  const classification = stricter(product.classification, product.snapshotClassification)
  const decision = decideRead(call.principal, { id: product.id, classification }, product.grants)
  if (!decision.allowed) return () => false
  const columns = [...product.columns, ...product.formerColumns]
  const masked = new Set(masksFor(columns, decision.clearClasses, platform.rules).map(({ column }) => column))
  return (column) => !masked.has(column)
}
