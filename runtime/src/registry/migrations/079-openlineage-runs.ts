import type { Migration } from '../../database/migrate.ts'

/**
 * What is to be told as OpenLineage: a row for each run and product, until its end is told. No foreign key leads to either:
 * runs are pruned and products deleted, and what has begun ends all the same.
 */
export const openLineageRuns: Migration = {
  id: '079_openlineage_runs',
  sql: `
create table openlineage_runs (
  position bigint generated always as identity,
  tenant text not null references tenants on delete cascade,
  run_id text not null,
  product_id text not null,
  -- NAMESPACE.NAME: a product that is deleted has runs whose ends are to be told.
  product text not null,
  -- Of the manifests; null: the run failed before that was known.
  version text,
  begun_at timestamptz(3) not null default clock_timestamp(),
  begin_told_at timestamptz(3),
  ended text check (ended in ('COMPLETE', 'FAIL', 'ABORT')),
  ended_at timestamptz(3),
  error jsonb,
  -- How often the endpoint has said of the event that waits that it is not valid.
  refusals integer not null default 0,
  primary key (run_id, product_id)
);
create index openlineage_runs_waiting on openlineage_runs (tenant, position) where begin_told_at is null or ended is not null;
create index openlineage_runs_open on openlineage_runs (tenant) where ended is null;
`,
}
