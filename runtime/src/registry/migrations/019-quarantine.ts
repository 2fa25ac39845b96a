import type { Migration } from '../../database/migrate.ts'

/**
 * Rows that could not be carried, and how many an endpoint cannot serve. `sealed` holds key and value under a key of the
 * tenant's own, null where the connector gave neither; `key_digest` is equal for one row of a table, and tells nothing else.
 */
export const quarantine: Migration = {
  id: '019_quarantine',
  sql: `
create table quarantined_rows (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  connection_id text not null references connections on delete cascade,
  table_name text not null,
  run_id text not null,
  column_name text,
  reason text not null,
  sealed bytea,
  key_digest bytea,
  created_at timestamptz(3) not null default now()
);
create index quarantined_rows_newest on quarantined_rows (connection_id, created_at desc, id desc);
create index quarantined_rows_of_table on quarantined_rows (connection_id, table_name, created_at desc, id desc);
create index quarantined_rows_age on quarantined_rows (created_at);
alter table endpoint_states add column rows_left_out bigint`,
}
