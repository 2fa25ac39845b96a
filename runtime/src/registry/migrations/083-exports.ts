import type { Migration } from '../../database/migrate.ts'

/**
 * Files of rows that somebody asked for. The files lie sealed in the tenant's bucket, as parts under the export's id and the
 * number of the attempt that wrote them; a row that has succeeded names the one attempt whose parts are the file.
 */
export const exportsTable: Migration = {
  id: '083_exports',
  sql: `
create table exports (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  -- As the token said when it was asked for: issuer, subject, groups, clearance.
  principal jsonb not null,
  request jsonb not null,
  state text not null check (state in ('queued', 'running', 'succeeded', 'failed', 'gone')),
  attempt bigint not null default 0,
  rows bigint,
  bytes bigint not null default 0,
  parts integer not null default 0,
  columns jsonb,
  -- What its rows were read from, and as what: each is judged again at every download.
  tables jsonb not null default '[]',
  product_ids text[] not null default '{}',
  error jsonb,
  created_at timestamptz(3) not null default clock_timestamp(),
  finished_at timestamptz(3),
  expires_at timestamptz(3) not null
);
create index exports_of_tenant on exports (tenant, created_at) where state <> 'gone';
create index exports_to_sweep on exports (expires_at);
`,
}
