import type { MigrationList } from '../database/migrate.ts'

/**
 * `sequence` is empty until the event is numbered, after its transaction has committed: see `outbox.ts`. A topic belongs
 * to a tenant and goes with it; no foreign key leads to the registry, so that the two can be moved apart.
 */
export const eventMigrations: MigrationList = {
  name: 'events',
  migrations: [
    {
      id: '001_outbox',
      sql: `
create table event_topics (
  tenant text not null,
  kind text not null,
  name text not null unique,
  created_at timestamptz(3) not null default now(),
  primary key (tenant, kind)
);

create table event_counters (
  tenant text primary key,
  -- The number of the newest event, and of the newest that retention has removed.
  last bigint not null default 0,
  removed bigint not null default 0
);

create table events (
  position bigint generated always as identity primary key,
  id text not null unique,
  tenant text not null,
  kind text not null,
  type text not null,
  subject text,
  at timestamptz(3) not null default clock_timestamp(),
  data jsonb not null,
  sequence bigint,
  foreign key (tenant, kind) references event_topics on delete cascade,
  unique (tenant, sequence)
);
create index events_unnumbered on events (tenant, position) where sequence is null;
create index events_by_age on events (tenant, at) where sequence is not null;
`,
    },
    {
      id: '002_relays',
      sql: `
create table event_relays (
  name text primary key,
  owner text not null,
  token bigint not null,
  lease_until timestamptz not null
);

-- How far events of a tenant have been carried to a bus. What was not carried is not removed.
create table event_relay_positions (
  relay text not null,
  tenant text not null references event_counters on delete cascade,
  sequence bigint not null,
  primary key (relay, tenant)
);
create index event_relay_positions_by_tenant on event_relay_positions (tenant);
`,
    },
    {
      id: '003_numbers_of_products',
      sql: `
alter table events add column product_sequence bigint;

create table event_product_counters (
  tenant text not null references event_counters on delete cascade,
  product text not null,
  last bigint not null,
  primary key (tenant, product)
);
`,
    },
    {
      id: '004_traces',
      sql: `alter table events add column traceparent text`,
    },
  ],
}
