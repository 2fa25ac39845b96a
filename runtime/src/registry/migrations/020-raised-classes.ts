import type { Migration } from '../../database/migrate.ts'

/**
 * Columns that were made of raw columns whose class was raised afterwards, and by which rules a version was judged. Null:
 * it was put in service before what its columns depend on was asked for.
 */
export const raisedClasses: Migration = {
  id: '020_raised_classes',
  sql: `
alter table product_versions add column judged_by text;
alter table product_versions add column origins jsonb;

-- Of all versions with that digest. blocks: whether who raised it could hide what others have made.
create table raised_columns (
  product_id text not null references products on delete cascade,
  tenant text not null,
  digest text not null,
  column_name text not null,
  class text not null,
  raw_columns text[] not null,
  blocks boolean not null,
  -- The product whose deployment raised it; no foreign key: what was raised stays raised when that is gone.
  raised_in text not null,
  raised_by jsonb not null,
  raised_at timestamptz(3) not null default now(),
  primary key (product_id, digest, column_name, class)
);
create index raised_columns_of_tenant on raised_columns (tenant);
create trigger raised_columns_policy after insert or update or delete on raised_columns
  for each row execute function policy_changed()`,
}
