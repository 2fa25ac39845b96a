import type { MigrationList } from '../database/migrate.ts'

/** Which products have, or should have, dashboards. A line outlives its product until the dashboards are gone. */
export const DASHBOARD_MIGRATIONS: MigrationList = {
  name: 'dashboards',
  migrations: [
    {
      id: '001_product_dashboards',
      sql: `
create table product_dashboards (
  product_id text primary key,
  tenant text not null,
  state text not null default 'pending' check (state in ('pending', 'ok', 'failed')),
  -- What was last brought there in full; null: nothing, or not for certain.
  digest text,
  -- The variants that may be there, each with the roles that may read it.
  applied jsonb not null default '[]',
  policy_version bigint not null default 0,
  error jsonb,
  attempts int not null default 0,
  -- Rises with every wish, so that work on an older one does not end a newer one.
  wish bigint not null default 1,
  next_retry_at timestamptz(3) not null default now(),
  lease_until timestamptz(3),
  updated_at timestamptz(3) not null default now()
);
create index product_dashboards_due on product_dashboards (next_retry_at) where state <> 'ok'`,
    },
  ],
}
