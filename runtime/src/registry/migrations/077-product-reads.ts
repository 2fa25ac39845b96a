import type { Migration } from '../../database/migrate.ts'

/** Who has read a product is looked up by the product: a tenant's log holds much else. */
export const productReads: Migration = {
  id: '077_product_reads',
  sql: `create index audit_log_product_reads on audit_log (tenant, object_id, at desc)
    where object_type = 'product' and action like 'read.%';`,
}
