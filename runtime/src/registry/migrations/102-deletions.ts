import type { Migration } from '../../database/migrate.ts'

/** Until when a product counts as one that is being deleted: nothing new is begun for it meanwhile. Null: it is not. */
export const deletions: Migration = {
  id: '102_deletions',
  sql: 'alter table products add column deletion_until timestamptz;',
}
