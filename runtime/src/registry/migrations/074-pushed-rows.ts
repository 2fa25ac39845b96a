import type { Migration } from '../../database/migrate.ts'

/**
 * Rows that were pushed, until a run has committed them to the lake: one row here for each request, in the order in which
 * they were answered. What writes to the spool of a connection locks its row of `push_spools` first.
 */
export const pushedRows: Migration = {
  id: '074_pushed_rows',
  sql: `
create table push_spools (
  connection_id text primary key references connections on delete cascade,
  tenant text not null references tenants on delete cascade,
  -- Of the newest request.
  sequence bigint not null default 0,
  rows bigint not null default 0,
  bytes bigint not null default 0,
  keys bigint not null default 0
);

create table push_events (
  connection_id text not null references push_spools on delete cascade,
  sequence bigint not null,
  table_name text not null,
  rows integer not null,
  bytes integer not null,
  -- Columns and changes, sealed: the registry holds no values of rows in clear.
  sealed bytea not null,
  received_at timestamptz(3) not null default clock_timestamp(),
  primary key (connection_id, sequence)
);
create index push_events_of_table on push_events (connection_id, table_name, sequence);

-- What was answered under which key, so that a request that is sent again is done once.
create table push_keys (
  connection_id text not null references push_spools on delete cascade,
  key_hash bytea not null,
  request_hash bytea not null,
  answer jsonb not null,
  expires_at timestamptz(3) not null,
  primary key (connection_id, key_hash)
);
create index push_keys_expired on push_keys (expires_at);
`,
}
