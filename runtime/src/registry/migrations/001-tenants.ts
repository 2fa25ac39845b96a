import type { Migration } from '../../database/migrate.ts'

/**
 * A slug outlives its tenant: `tenant_slugs` keeps every one ever given, so none is given twice, and the tenant's keys
 * hang on it, so that they can be destroyed after everything else.
 */
export const tenants: Migration = {
  id: '001_tenants',
  sql: `
create table tenant_slugs (
  slug text primary key,
  taken_at timestamptz(3) not null default now(),
  released_at timestamptz(3)
);

create table tenants (
  slug text primary key references tenant_slugs,
  display_name text not null,
  tier text not null check (tier in ('free', 'standard', 'enterprise')),
  status text not null default 'provisioning'
    check (status in ('provisioning', 'active', 'failed', 'deprovisioning')),
  resources jsonb not null default '{}',
  provisioned_in_ms integer,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
create index tenants_newest on tenants (created_at desc, slug desc);

create table tenant_keys (
  tenant text not null references tenant_slugs,
  purpose text not null check (purpose in ('secret', 'mask')),
  version integer not null check (version > 0),
  master_key_id text not null,
  wrapped bytea not null,
  created_at timestamptz(3) not null default now(),
  primary key (tenant, purpose, version)
);

-- One row a tenant, apart from the tenant's own row, which longer transactions hold.
create table policy_versions (
  tenant text primary key references tenants on delete cascade,
  version bigint not null default 1
);

create function raise_policy_version(changed text) returns void language sql as $$
  insert into policy_versions (tenant) select slug from tenants where slug = changed
    on conflict (tenant) do update set version = policy_versions.version + 1;
  select pg_notify('sluice_policy', changed);
$$;

create function policy_changed() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' then perform raise_policy_version(old.tenant); end if;
  if tg_op <> 'DELETE' and (tg_op = 'INSERT' or new.tenant <> old.tenant) then
    perform raise_policy_version(new.tenant);
  end if;
  return null;
end $$;

create table connections (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  name text not null,
  connector_type text not null,
  config jsonb not null,
  status text not null default 'untested' check (status in ('untested', 'ok', 'failed')),
  last_tested_at timestamptz(3),
  created_by jsonb not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (tenant, name)
);
create index connections_newest on connections (tenant, created_at desc, id desc);

create table connection_secrets (
  connection_id text not null references connections on delete cascade,
  field text not null,
  key_version integer not null,
  sealed bytea not null,
  primary key (connection_id, field)
);
`,
}
