/**
 * Products that are being deleted. The mark is set in the transaction that decides the deletion, before the first copy is
 * dropped; whatever is begun for a product asks for it in its own transaction. It ends by itself where a deletion died.
 */
import { SluiceError } from '@sluice/sdk'
import { LEAVING_S } from './endpoint-states.ts'
import { change, many, maybeOne, type Queryable, type Transaction } from './sql.ts'
import { withTenant } from './tenant-first.ts'

/** Of one deletion: another one of the same product has another. */
export type DeletionMark = string

/** By its fence, as commits of its rows do it first of all. False where it is gone. */
export async function lockProduct(tx: Transaction, productId: string): Promise<boolean> {
  const statement = `${withTenant('(select tenant from products where id = $1)')}
    select product_id from product_fences where product_id = $1 and exists (select from kept) for no key update`
  return (await maybeOne(tx, 'locking the product', statement, [productId])) !== null
}

/** Locks the product until the transaction ends. Null where it is gone. */
export async function beginDeletion(tx: Transaction, productId: string): Promise<DeletionMark | null> {
  if (!(await lockProduct(tx, productId))) return null
  const marked = await maybeOne<{ readonly mark: DeletionMark }>(
    tx,
    'beginning the deletion',
    `update products set deletion_until = clock_timestamp() + make_interval(secs => $2)
     where id = $1 returning deletion_until::text as mark`,
    [productId, LEAVING_S],
  )
  return marked?.mark ?? null
}

/** It came to nothing: what was dropped is brought back at once. Not where another deletion has begun since. */
export async function giveUpDeletion(db: Queryable, productId: string, mark: DeletionMark): Promise<void> {
  await change(
    db,
    'giving the deletion up',
    `with kept as (
       update products set deletion_until = null where id = $1 and deletion_until = $2::timestamptz returning id)
     update endpoint_states s set next_retry_at = clock_timestamp() from kept
     where s.product_id = kept.id and s.state = 'pending'`,
    [productId, mark],
  )
}

const IS_LEAVING = 'coalesce(deletion_until > clock_timestamp(), false)'

/**
 * Keeps the product, and that it is not being deleted, until the transaction ends. Throws INVALID_DATA `product_not_found` and
 * CONFLICT `product_being_deleted`.
 */
export async function requireStays(tx: Transaction, productId: string): Promise<void> {
  const isThere = await lockProduct(tx, productId)
  const found = await maybeOne<{ readonly isLeaving: boolean }>(
    tx,
    'reading the product',
    `select ${IS_LEAVING} as "isLeaving" from products where id = $1`,
    [productId],
  )
  if (!isThere || found === null) {
    throw new SluiceError('INVALID_DATA', 'there is no such product', { code: 'product_not_found' })
  }
  if (found.isLeaving) throw beingDeleted('the product')
}

/** Of these (`namespace.name`) those that there are, and whether they are being deleted. */
export async function productsStaying(
  db: Queryable,
  tenant: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, { readonly isLeaving: boolean }>> {
  const found = await many<{ readonly full: string; readonly isLeaving: boolean }>(
    db,
    'reading products',
    `select domain || '.' || name as "full", ${IS_LEAVING} as "isLeaving" from products
     where tenant = $1 and domain || '.' || name = any($2)`,
    [tenant, names],
  )
  return new Map(found.map(({ full, isLeaving }) => [full, { isLeaving }]))
}

/** @param what is being deleted, as a sentence names it */
export function beingDeleted(what: string): SluiceError {
  return new SluiceError('CONFLICT', `${what} is being deleted`, {
    code: 'product_being_deleted',
    remedy: 'Wait until it is gone. Where the deletion failed, delete it again, or repeat this in ten minutes.',
  })
}
