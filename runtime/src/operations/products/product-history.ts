/** What became of a product: its deployments and its epochs, newest first. */
import type { TenantCall } from '../../flow.ts'
import { type Deployment, listDeployments } from '../../registry/deployments.ts'
import { listMaterializations, type Materialization } from '../../registry/materializations.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import type { Product } from '../../registry/products.ts'
import type { ProductsDeps } from './deps.ts'
import { isReader, UNTOLD } from './readable-product.ts'

/** Why one of a version in service failed is told its readers alone. */
export async function deploymentsOf(
  platform: ProductsDeps,
  call: TenantCall,
  product: Product,
  page: PageRequest,
): Promise<Page<Deployment>> {
  const isTold = product.currentVersion === null || (await isReader(platform, call, product))
  const { items, next } = await listDeployments(platform.pool, product.id, page)
  const told = items.map((one) => ({ ...one, error: one.error === null || isTold ? one.error : UNTOLD }))
  return { items: told, next }
}

/** `committed`: none of those that were made and not published. */
export function epochsOf(
  { pool }: Pick<ProductsDeps, 'pool'>,
  { id }: Pick<Product, 'id'>,
  page: PageRequest,
  only: 'committed' | null,
): Promise<Page<Materialization>> {
  return listMaterializations(pool, id, page, only)
}
