import type { Migration } from '../../database/migrate.ts'

/** Where the file of an export was written to beside its own place, where it was asked for: destination and address. */
export const exportPlaces: Migration = {
  id: '101_export_places',
  sql: 'alter table exports add column place jsonb;',
}
