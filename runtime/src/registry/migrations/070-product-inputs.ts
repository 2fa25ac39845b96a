import type { Migration } from '../../database/migrate.ts'

/** By input that is a product: which one it was when the version was deployed, and as whom it is read. */
export const productInputs: Migration = {
  id: '070_product_inputs',
  sql: 'alter table product_versions add column upstreams jsonb;',
}
