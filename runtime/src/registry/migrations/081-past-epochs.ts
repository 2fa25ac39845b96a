import type { Migration } from '../../database/migrate.ts'

/**
 * For checks that learn from epochs: which epoch a rollback brought back, and how the values of columns lay, sealed with a key of
 * the tenant. They go with their epochs.
 */
export const pastEpochsTables: Migration = {
  id: '081_past_epochs',
  sql: `
alter table materializations add column restored_epoch bigint;
create table column_profiles (
  product_id text not null references products on delete cascade,
  materialization_id text not null references materializations on delete cascade,
  column_name text not null,
  sealed bytea not null,
  primary key (materialization_id, column_name)
);
create index column_profiles_of_product on column_profiles (product_id);
`,
}
