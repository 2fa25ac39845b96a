import type { Migration } from '../../database/migrate.ts'

/**
 * What fails and goes on failing is one incident for each cause, however often; who is told when it opens and when it
 * closes; and what is to be told them. Where a target is, with what it proves us by, is sealed as secrets of connections are.
 */
export const notifications: Migration = {
  id: '054_notifications',
  sql: `
create table notification_targets (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  kind text not null check (kind in ('webhook', 'slack')),
  name text not null,
  host text not null,
  key_version integer not null,
  sealed bytea not null,
  created_by jsonb not null,
  -- Told of all of the tenant, and not only of what is its maker's.
  of_all boolean not null,
  -- What the newest token of its maker says, and when that was issued.
  may_hear boolean not null default true,
  token_issued_at timestamptz(3) not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  delivered_at timestamptz(3),
  error_code text
);
create index notification_targets_newest on notification_targets (tenant, created_at desc, id desc);

create table incidents (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  connection_id text references connections on delete cascade,
  product_id text references products on delete cascade,
  cause text not null,
  times bigint not null default 1,
  run_id text,
  opened_at timestamptz(3) not null default clock_timestamp(),
  last_at timestamptz(3) not null default clock_timestamp(),
  closed_at timestamptz(3),
  check (num_nonnulls(connection_id, product_id) = 1)
);
create unique index incidents_open on incidents (coalesce(connection_id, product_id), cause) where closed_at is null;
create index incidents_closed on incidents (closed_at) where closed_at is not null;

create table notifications (
  position bigint generated always as identity,
  target_id text not null references notification_targets on delete cascade,
  incident_id text not null references incidents on delete cascade,
  what text not null check (what in ('opened', 'closed')),
  created_at timestamptz(3) not null default clock_timestamp(),
  -- When it was delivered, or given up.
  done_at timestamptz(3),
  primary key (target_id, incident_id, what)
);
create index notifications_incident on notifications (incident_id);
create index notifications_waiting on notifications (target_id, position) where done_at is null;
`,
}
