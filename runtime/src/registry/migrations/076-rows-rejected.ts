import type { Migration } from '../../database/migrate.ts'

/** How many rows of a table could not be carried. Null: an older release did not say. */
export const rowsRejected: Migration = {
  id: '076_rows_rejected',
  sql: 'alter table run_tables add column rows_rejected bigint;',
}
