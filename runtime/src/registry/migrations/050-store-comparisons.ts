import type { Migration } from '../../database/migrate.ts'

/**
 * What the last comparison of a store's copy with the lake has found: one row for each copy that was ever compared. Its
 * digest was taken of content that equals the lake's, so that the same digest tells the same later.
 */
export const storeComparisons: Migration = {
  id: '050_store_comparisons',
  sql: `
create table store_comparisons (
  product_id text not null references products on delete cascade,
  endpoint text not null,
  variant text not null,
  -- What was in order last: the epoch, a hash of all that the digest depends on beside the rows, and the digest itself.
  epoch bigint,
  basis text,
  digest text,
  row_count bigint,
  -- By what that is known: every row was read, or the rows were counted.
  depth text check (depth in ('rows', 'count')),
  in_order_at timestamptz(3),
  compared_at timestamptz(3),
  due_at timestamptz(3) not null,
  -- The newest drift: when it was found, at which epoch, by what, and how often since the copy was last in order.
  drifted_at timestamptz(3),
  drift_epoch bigint,
  drift text check (drift in ('rows', 'count', 'digest')),
  drifts_in_a_row integer not null default 0,
  primary key (product_id, endpoint, variant)
);
create index store_comparisons_drifted on store_comparisons (product_id) where drifted_at is not null;
`,
}
