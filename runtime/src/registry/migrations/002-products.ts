import type { Migration } from '../../database/migrate.ts'

export const products: Migration = {
  id: '002_products',
  sql: `
create table products (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  domain text not null,
  name text not null,
  archetype text not null check (archetype in ('source_aligned', 'aggregate', 'consumer_aligned')),
  description text not null default '',
  classification text not null default 'internal'
    check (classification in ('public', 'internal', 'confidential', 'restricted')),
  status text not null default 'draft' check (status in ('draft', 'ready', 'deployed', 'degraded', 'retired')),
  current_version text,
  created_by jsonb not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (tenant, domain, name)
);
create index products_newest on products (tenant, created_at desc, id desc);
create index products_by_name on products (tenant, name);

create trigger products_policy after insert or delete on products for each row execute function policy_changed();
create trigger products_policy_change after update on products for each row
  when ((old.domain, old.name, old.classification, old.status, old.current_version)
    is distinct from (new.domain, new.name, new.classification, new.status, new.current_version))
  execute function policy_changed();

-- manifests: the six texts as uploaded; normalised: what they mean, every default filled in.
create table product_drafts (
  product_id text primary key references products on delete cascade,
  manifests jsonb not null,
  normalised jsonb not null,
  digest text not null,
  warnings jsonb not null default '[]',
  uploaded_by jsonb not null,
  uploaded_at timestamptz(3) not null default now()
);

create table product_versions (
  product_id text not null references products on delete cascade,
  version text not null,
  manifests jsonb not null,
  normalised jsonb not null,
  digest text not null,
  deployed_by jsonb not null,
  deployed_at timestamptz(3) not null default now(),
  primary key (product_id, version)
);

create table deployments (
  id text primary key,
  tenant text not null,
  product_id text not null references products on delete cascade,
  kind text not null check (kind in ('deploy', 'rollback')),
  version text not null,
  digest text not null,
  state text not null default 'running' check (state in ('running', 'succeeded', 'failed')),
  fence bigint not null,
  plan jsonb not null default '{}',
  error jsonb,
  created_by jsonb not null,
  created_at timestamptz(3) not null default now(),
  finished_at timestamptz(3)
);
create index deployments_newest on deployments (product_id, created_at desc, id desc);

-- The lock of a product: whoever changes its lake tables, its version or its epoch holds this row.
create table product_fences (
  product_id text primary key references products on delete cascade,
  token bigint not null default 0,
  epoch bigint not null default 0,
  epoch_committed_at timestamptz(3)
);

create table materializations (
  id text primary key,
  tenant text not null,
  product_id text not null references products on delete cascade,
  -- Null where nothing was published: the quality checks or the store of the lake said no.
  epoch bigint,
  kind text not null check (kind in ('materialize', 'rollback')),
  state text not null check (state in ('committed', 'blocked')),
  run_id text,
  version text not null,
  digest text not null,
  -- By variant: the lake's snapshot id (text, it has 63 bits) and the masked columns.
  snapshots jsonb not null default '{}',
  masked_columns jsonb not null default '{}',
  -- By input: what was read, for the next incremental run and for rollback.
  inputs jsonb not null default '{}',
  counts jsonb not null default '{}',
  quality jsonb,
  quality_score double precision,
  committed_at timestamptz(3) not null,
  unique (product_id, epoch),
  check ((epoch is not null) = (state = 'committed'))
);
create index materializations_newest on materializations (product_id, committed_at desc, id desc);

create table endpoint_states (
  product_id text not null references products on delete cascade,
  endpoint text not null,
  variant text not null,
  applied_epoch bigint,
  state text not null check (state in ('ok', 'failed', 'pending')),
  error jsonb,
  attempts integer not null default 0,
  next_retry_at timestamptz(3),
  updated_at timestamptz(3) not null default now(),
  primary key (product_id, endpoint, variant)
);
create index endpoint_states_due on endpoint_states (next_retry_at) where state <> 'ok';
`,
}
