import type { Migration } from '../../database/migrate.ts'

/**
 * Rows that the checks of a product's newest materialization found bad, by variant, sealed with a key of the tenant. Runs
 * are asked which materializations were theirs.
 */
export const violatingRowsTable: Migration = {
  id: '025_violating_rows',
  sql: `
create table violating_rows (
  product_id text not null references products on delete cascade,
  variant text not null,
  materialization_id text not null references materializations on delete cascade,
  sealed bytea not null,
  primary key (product_id, variant)
);
create index violating_rows_of_materialization on violating_rows (materialization_id);
create index materializations_of_run on materializations (run_id) where run_id is not null;
`,
}
