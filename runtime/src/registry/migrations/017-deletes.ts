import type { Migration } from '../../database/migrate.ts'

/** How a table was read, and how rows that are gone from it were found. Null: of a run from before this was said. */
export const deletes: Migration = {
  id: '017_deletes',
  sql: `
alter table run_tables add column mode_reason text;
alter table run_tables add column deletes text check (deletes in ('implied', 'key_sweep', 'unseen'));
alter table run_tables add column deletes_reason text;
alter table run_tables add column rows_removed bigint;
create index runs_of_connection on runs (connection_id) where connection_id is not null`,
}
