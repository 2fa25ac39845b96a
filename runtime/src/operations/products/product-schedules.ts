/** When products are made by themselves, as it is told of them. */
import { readAtOf } from '../../registry/data-ages.ts'
import type { Materialization } from '../../registry/materializations.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { listProducts, type Product, type ProductFilter } from '../../registry/products.ts'
import { type Scheduled, scheduledOf } from '../../registry/schedules.ts'
import type { Queryable } from '../../registry/sql.ts'
import type { ProductsDeps } from './deps.ts'

/** @param newest for who may know how old the rows are; null: nobody who may, or there are none */
export async function productSchedule(
  db: Queryable,
  productId: string,
  newest: Materialization | null,
): Promise<Scheduled> {
  const scheduled = (await scheduledOf(db, 'product', [productId])).get(productId) as Scheduled
  const { row } = scheduled
  return row === null ? scheduled : { ...scheduled, row: { ...row, readAt: newest && readAtOf(newest) } }
}

export interface ScheduledProduct {
  readonly product: Product
  readonly scheduled: Scheduled
}

/** Newest first, without how old their rows are. */
export async function scheduledProducts(
  { pool }: Pick<ProductsDeps, 'pool'>,
  tenant: string,
  page: PageRequest,
  filter: ProductFilter,
): Promise<Page<ScheduledProduct>> {
  const { items, next } = await listProducts(pool, tenant, page, filter)
  const ids = items.map(({ id }) => id)
  const schedules = await scheduledOf(pool, 'product', ids)
  return { items: items.map((product) => ({ product, scheduled: schedules.get(product.id) as Scheduled })), next }
}
