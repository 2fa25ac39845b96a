/** What is told of a product beside its rows: how many there are, how good they are, when they came. */
import { isSluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { Product } from '../../registry/products.ts'
import { readsSources } from '../rights/grant-rights.ts'
import { accessTo } from '../served/served-product.ts'
import type { ProductsDeps } from './deps.ts'
import { productOrPreview } from './products.ts'

/** For its readers, and for developers who may read every table that it is made of. Throws PERMISSION `product_forbidden`. */
export async function requireReader(platform: ProductsDeps, call: TenantCall, product: Product): Promise<void> {
  const served = await platform.served.find(call.tenant, product.id)
  try {
    accessTo(served, call.principal, platform.rules, () => true)
  } catch (error) {
    if (!isSluiceError(error, 'PERMISSION') || !(await readsSources(platform, call.principal, product))) throw error
  }
}

export async function isReader(platform: ProductsDeps, call: TenantCall, product: Product): Promise<boolean> {
  try {
    await requireReader(platform, call, product)
    return true
  } catch (error) {
    if (isSluiceError(error, 'PERMISSION')) return false
    throw error
  }
}

/** The product, for its readers: `requireReader`. Throws `product_not_found` too. */
export async function readableProduct(platform: ProductsDeps, call: TenantCall, reference: string): Promise<Product> {
  const product = await productOrPreview(platform, call, reference)
  await requireReader(platform, call, product)
  return product
}

/** Why something failed, for who may not read the product that it was about. */
export const UNTOLD = {
  code: 'product_forbidden',
  message: 'a product that you may not read could not be made',
  remedy: 'Ask its owner, or for a grant to read it.',
} as const

/** `isReader` of many products by their ids: each is looked at once. Of one that is gone, administrators alone are told. */
export function productReader(platform: ProductsDeps, call: TenantCall): (productId: string) => Promise<boolean> {
  const known = new Map<string, Promise<boolean>>()
  const load = async (id: string): Promise<boolean> => {
    try {
      return await isReader(platform, call, await productOrPreview(platform, call, id))
    } catch (error) {
      if (isSluiceError(error) && error.code === 'product_not_found') return false
      throw error
    }
  }
  return async (id) => {
    if (call.principal.isAdmin) return true
    const loading = known.get(id) ?? load(id)
    known.set(id, loading)
    return loading
  }
}

/** Whether the caller is told of what happened to that product. Of one that is gone, everybody hears that it is. */
export async function hearsOf(
  platform: ProductsDeps,
  call: TenantCall,
  productId: string,
  type: string,
): Promise<boolean> {
  try {
    return await isReader(platform, call, await productOrPreview(platform, call, productId))
  } catch (error) {
    if (isSluiceError(error) && error.code === 'product_not_found') return type === 'sluice.deployment.deleted'
    throw error
  }
}
