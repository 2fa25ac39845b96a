import type { Migration } from '../../database/migrate.ts'

/** By input, the columns that it had when the version was judged; null of versions from before they were kept. */
export const judgedColumns: Migration = {
  id: '078_judged_columns',
  sql: 'alter table product_versions add column judged_columns jsonb;',
}
