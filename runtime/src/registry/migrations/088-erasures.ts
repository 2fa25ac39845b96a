import type { Migration } from '../../database/migrate.ts'

/**
 * Rows of sources that were asked to be erased. The key is sealed, and only there until the run has ended; what stays says by a
 * digest of a key of the tenant whether it was this one.
 */
export const erasures: Migration = {
  id: '088_erasures',
  sql: `
create table erasures (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  connection_id text not null references connections on delete cascade,
  table_name text not null,
  key_columns text[] not null,
  key_digest bytea not null,
  sealed bytea,
  run_id text not null,
  state text not null default 'open' check (state in ('open', 'succeeded', 'failed', 'cancelled')),
  -- What was to be removed when it began, and what was found at its end.
  found jsonb,
  proof jsonb,
  created_by jsonb not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  finished_at timestamptz(3)
);
create index erasures_newest on erasures (connection_id, created_at desc, id desc);
create index erasures_of_run on erasures (run_id);
`,
}
