import type { Migration } from '../../database/migrate.ts'

/**
 * Logs of sources: how far each was read, which tables it tells, and what the source keeps for us; and captures that are
 * to be given up at sources whose connections have gone or lead elsewhere, with the sealed settings to get there.
 */
export const captures: Migration = {
  id: '068_captures',
  sql: `
create table captures (
  connection_id text primary key references connections on delete cascade,
  tenant text not null references tenants on delete cascade,
  name text not null,
  -- One more each time when all tables are read anew.
  generation integer not null default 1,
  -- Both null: the log is to be begun anew.
  lineage text,
  position text,
  -- Of the last transaction that was applied, by the source's clock.
  source_time timestamptz,
  positioned_at timestamptz(3),
  -- Why it was begun anew last.
  lost_reason text,
  lost_at timestamptz(3),
  health text check (health in ('ok', 'at_risk', 'lost', 'unreachable', 'released')),
  retained_bytes bigint,
  limit_bytes bigint,
  health_message text,
  health_remedy text,
  checked_at timestamptz(3),
  created_at timestamptz(3) not null default clock_timestamp()
);
create index captures_checked on captures (checked_at);

create table capture_streams (
  connection_id text not null references captures on delete cascade,
  table_name text not null,
  primary_key jsonb not null,
  -- Which table of that name was read, in the words of the connector; null: it has none.
  incarnation text,
  -- Where the log stood that is to be applied to the rows that were read.
  lineage text not null,
  position text not null,
  -- The log has passed all that the read has seen.
  settled boolean not null default false,
  read_at timestamptz(3) not null default clock_timestamp(),
  primary key (connection_id, table_name)
);

create table capture_releases (
  name text primary key,
  tenant text not null references tenants on delete cascade,
  connection_name text not null,
  connector_type text not null,
  sealed bytea not null,
  attempts integer not null default 0,
  error_code text,
  created_at timestamptz(3) not null default clock_timestamp()
);
`,
}
