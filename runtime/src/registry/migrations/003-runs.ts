import type { Migration } from '../../database/migrate.ts'

/**
 * The unique indexes are the last word on "one run a connection, one run a product": whatever the claim's query
 * overlooked, a second run cannot become `running`.
 */
export const runs: Migration = {
  id: '003_runs',
  sql: `
create table runs (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  kind text not null check (kind in ('ingestion', 'materialization')),
  connection_id text references connections on delete cascade,
  product_id text references products on delete cascade,
  parent_id text references runs on delete cascade,
  trigger text not null check (trigger in ('manual', 'ingestion', 'deploy', 'rollback', 'retry', 'schedule')),
  state text not null default 'queued' check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  input jsonb not null default '{}',
  result jsonb,
  error jsonb,
  attempt integer not null default 0,
  max_attempts integer not null default 5 check (max_attempts > 0),
  available_at timestamptz(3) not null default now(),
  token bigint not null default 0,
  -- The product's fence token as the claim raised it.
  product_token bigint,
  worker_id text,
  lease_until timestamptz(3),
  cancel_requested boolean not null default false,
  created_by jsonb not null,
  created_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  check ((kind = 'ingestion') = (connection_id is not null)),
  check ((kind = 'materialization') = (product_id is not null)),
  check ((state = 'running') = (worker_id is not null)),
  check ((state = 'running') = (lease_until is not null))
);
create index runs_newest on runs (tenant, created_at desc, id desc);
create index runs_queued on runs (available_at, id) where state = 'queued';
create index runs_running on runs (tenant, lease_until) where state = 'running';
create index runs_children on runs (parent_id) where parent_id is not null;
create unique index runs_one_per_connection on runs (connection_id) where state = 'running';
create unique index runs_one_per_product on runs (product_id) where state = 'running';

create table run_tables (
  run_id text not null references runs on delete cascade,
  name text not null,
  position integer not null,
  mode text not null check (mode in ('full', 'incremental', 'cdc')),
  state text not null check (state in ('pending', 'running', 'succeeded', 'failed')),
  rows_read bigint not null default 0,
  rows_written bigint not null default 0,
  bytes bigint not null default 0,
  cursor text,
  error jsonb,
  updated_at timestamptz(3) not null default now(),
  primary key (run_id, name)
);

create table run_log (
  run_id text not null references runs on delete cascade,
  line bigint generated always as identity,
  at timestamptz(3) not null default clock_timestamp(),
  level text not null check (level in ('info', 'warn', 'error')),
  message text not null,
  primary key (run_id, line)
);

create table connector_states (
  connection_id text not null references connections on delete cascade,
  table_name text not null,
  state jsonb not null,
  run_id text not null,
  updated_at timestamptz(3) not null default now(),
  primary key (connection_id, table_name)
);
`,
}
