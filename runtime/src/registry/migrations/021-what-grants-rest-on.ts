import type { Migration } from '../../database/migrate.ts'

/**
 * By which other grants a grant was given, so that it ends with them, and ids of the audit log that tell no tenant how much
 * happens in others. A grant without a row here, of a release before, rests on none.
 */
export const whatGrantsRestOn: Migration = {
  id: '021_what_grants_rest_on',
  sql: `
create table grant_bases (
  id bigint generated always as identity primary key,
  tenant text not null,
  product_grant text references product_grants on delete cascade,
  raw_grant text references raw_table_grants on delete cascade,
  -- What of the grant was given by this; of a raw grant, that it may be granted on is 'raw'.
  classes text[] not null,
  grantable text[] not null,
  granted_by jsonb not null,
  -- All of these; each by any of its grants. None: by a right of one's own.
  needs jsonb not null,
  created_at timestamptz(3) not null default now(),
  check ((product_grant is null) <> (raw_grant is null))
);
create index grant_bases_of_tenant on grant_bases (tenant);
create index grant_bases_of_product_grant on grant_bases (product_grant);
create index grant_bases_of_raw_grant on grant_bases (raw_grant);

alter table audit_log add column public_id uuid not null default gen_random_uuid()`,
}
