import type { Migration } from '../../database/migrate.ts'

/**
 * By input, the columns that its table had when the version was deployed, which a contract holds it to; null of versions from before
 * there were contracts, which take those of their next epoch. Rows that a contract puts aside are of a product: the raw table has them.
 */
export const schemaContracts: Migration = {
  id: '094_schema_contracts',
  sql: `
alter table product_versions add column held_shapes jsonb;
alter table quarantined_rows add column product_id text references products on delete cascade;
create index quarantined_rows_of_product on quarantined_rows (product_id) where product_id is not null;
`,
}
