import type { Migration } from '../../database/migrate.ts'

/**
 * The products that a schedule waits for, with the epoch that each had when the schedule was last seen to; and when reads
 * of source tables began, which is how old their rows are.
 */
export const productSchedules: Migration = {
  id: '052_product_schedules',
  sql: `
create table schedule_follows (
  schedule_id text not null references schedules on delete cascade,
  -- namespace.product, as the schedule says it; the id is null once that product is gone.
  name text not null,
  product_id text references products on delete set null,
  seen_epoch bigint not null default 0,
  primary key (schedule_id, name)
);
create index schedule_follows_product on schedule_follows (product_id) where product_id is not null;
alter table run_tables add column read_at timestamptz(3);
`,
}
