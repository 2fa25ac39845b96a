import type { Migration } from '../../database/migrate.ts'

/**
 * What a running run has a place for, where that is not its kind: `materialization` for an ingestion that has come to its
 * transforms, `none` while it waits for that.
 */
export const runPlaces: Migration = {
  id: '027_run_places',
  sql: `alter table runs add column place text check (place in ('none', 'materialization'))`,
}
