/** How old the rows of products are, noted with each epoch. */
import { change, type Transaction } from './sql.ts'

/** Of the epoch that is the newest from now on. */
export async function noteReadAt(tx: Transaction, productId: string, readAt: Date): Promise<void> {
  const noted = await change(
    tx,
    'noting how old rows are',
    `update product_freshness set read_at = $2, due_at = $2::timestamptz + make_interval(secs => objective_ms / 1000.0)
     where product_id = $1`,
    [productId, readAt],
  )
  if (noted > 0) return
  // Deployed by a release that knows nothing of this. Previews keep no objective: nothing makes them anew.
  await change(
    tx,
    'noting how old rows are',
    `insert into product_freshness (product_id, tenant, read_at, objective_ms, due_at)
     select id, tenant, $2, ms, $2::timestamptz + make_interval(secs => ms / 1000.0) from (
       select p.id, p.tenant, (v.normalised #>> '{product,slo,freshnessMs}')::bigint as ms
       from products p join product_versions v on v.product_id = p.id and v.version = p.current_version
       where p.id = $1 and p.preview_of is null) deployed`,
    [productId, readAt],
  )
}
