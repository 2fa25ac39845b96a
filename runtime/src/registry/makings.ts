/** How long it takes to make products: of each one figure, to which the last making counts half, the one before a quarter, and so on. */
import { change, many, type Queryable } from './sql.ts'

/** Of a making that ended, well or not. A product that is gone has none. */
export async function noteMaking(db: Queryable, productId: string, tookMs: number): Promise<void> {
  await change(
    db,
    'noting how long a product took',
    `insert into product_makings as m (product_id, took_ms) select id, $2::bigint from products where id = $1
     on conflict (product_id) do update set took_ms = (m.took_ms + excluded.took_ms) / 2`,
    [productId, Math.round(tookMs)],
  )
}

/** In milliseconds, by id; none of products of which nobody has noted it. */
export async function makingTimes(db: Queryable, productIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await many<{ readonly id: string; readonly tookMs: number }>(
    db,
    'reading how long products take',
    'select product_id as id, took_ms as "tookMs" from product_makings where product_id = any ($1)',
    [productIds],
  )
  return new Map(rows.map(({ id, tookMs }) => [id, Number(tookMs)]))
}
