/**
 * Whoever locks something of a tenant locks the tenant's row before it, and so does who removes the tenant. Rows that are inserted
 * later in the transaction refer to the tenant, or to what goes with it: each would wait for the other.
 */
import { maybeOne, type Transaction } from './sql.ts'

/**
 * For the statement that locks: `kept` has a row where the tenant is there and stays until the transaction ends.
 * @param slug an expression
 */
export const withTenant = (slug: string): string =>
  `with kept as materialized (select slug from tenants where slug = ${slug} for key share)`

/** Nobody else has anything of the tenant locked from here on. The first step of removing it; without effect where it is gone. */
export async function lockForRemoval(tx: Transaction, slug: string): Promise<void> {
  await maybeOne(tx, 'removing the tenant', 'select from tenants where slug = $1 for update', [slug])
}
