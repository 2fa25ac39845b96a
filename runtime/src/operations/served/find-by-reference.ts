/** Which product a request names. */
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { findProduct, findProductsByName, type Product } from '../../registry/products.ts'
import { NO_PRODUCT } from './served-product.ts'

/** By id, name or `namespace.name`. Throws `product_not_found`, or CONFLICT `ambiguous_product` with the candidates. */
export async function findByReference(
  pool: pg.Pool,
  tenant: string,
  reference: string,
  domain?: string,
): Promise<Product> {
  const byId = await findProduct(pool, tenant, reference)
  if (byId) return byId
  const dot = reference.indexOf('.')
  const [inDomain, name] = dot < 0 ? [domain, reference] : [reference.slice(0, dot), reference.slice(dot + 1)]
  const found = await findProductsByName(pool, tenant, name, inDomain ?? null)
  if (found.length === 1) return found[0] as Product
  if (found.length === 0) {
    throw new SluiceError('INVALID_DATA', NO_PRODUCT.message, NO_PRODUCT)
  }
  throw new SluiceError('CONFLICT', 'products of that name exist in several namespaces', {
    code: 'ambiguous_product',
    remedy: 'Write namespace.name, or add ?namespace=.',
    details: { candidates: found.map((product) => `${product.domain}.${product.name}`) },
  })
}
