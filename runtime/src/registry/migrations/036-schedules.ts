import type { Migration } from '../../database/migrate.ts'

/**
 * When runs of connections and products begin by themselves: one row for each that has a schedule, under its own id. When
 * it is looked at next is a row of `jobs` with the same key.
 */
export const schedules: Migration = {
  id: '036_schedules',
  sql: `
create table schedules (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  connection_id text references connections on delete cascade,
  product_id text references products on delete cascade,
  schedule jsonb not null,
  created_by jsonb not null,
  -- What the newest token of whoever set it says, and when that was issued: without the right to sync it begins no run.
  may_sync boolean not null default true,
  token_issued_at timestamptz not null,
  -- Since when it is this schedule.
  since timestamptz(3) not null,
  -- The newest tick that was seen to; before the first one, when the schedule was set.
  ticked_at timestamptz(3) not null,
  next_run_at timestamptz(3) not null,
  -- The newest tick that began no run, and why.
  skipped_at timestamptz(3),
  skipped_reason text,
  check (num_nonnulls(connection_id, product_id) = 1 and id = coalesce(connection_id, product_id))
);
create index schedules_setter on schedules (tenant, (created_by->>'subject'));
create index runs_newest_of_connection on runs (connection_id, created_at desc, id desc) where connection_id is not null;
create index runs_newest_of_product on runs (product_id, created_at desc, id desc) where product_id is not null;
`,
}
