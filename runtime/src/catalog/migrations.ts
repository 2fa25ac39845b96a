import type { MigrationList } from '../database/migrate.ts'

/**
 * Logins of engines that read the SQL catalog itself. Needs the lists `registry` and `lake` before it.
 *
 * A login stands for no person: it is told of what any member of the tenant may read without a grant, by the strictest
 * policy that any snapshot of the table's history was made under or is under today, because a pointer leads to all of
 * them. The runtime's own role owns the tables, so the policies are not about it.
 */
export const CATALOG_MIGRATIONS: MigrationList = {
  name: 'catalog',
  migrations: [
    {
      id: '001_catalog_logins',
      sql: `
create table catalog_logins (
  tenant text primary key references tenants on delete cascade,
  role_name name not null unique,
  created_at timestamptz(3) not null default now(),
  rotated_at timestamptz(3) not null default now()
);

-- Classes that the configuration masks besides pii.*, as the runtime that started last has them.
create table catalog_masking (
  only_row boolean primary key default true check (only_row),
  sensitive text[] not null
);
insert into catalog_masking (sensitive) values ('{}');

create function catalog_sensitive_columns(product text, version text) returns text[]
language sql stable set search_path = pg_catalog, public as $$
  select coalesce(array_agg(c ->> 'name'), '{}')
  from public.product_versions v, jsonb_array_elements(v.normalised #> '{output,columns}') c
  where v.product_id = $1 and v.version = $2 and (
    c ->> 'classification' like 'pii.%'
    or c ->> 'classification' = any ((select sensitive from public.catalog_masking)::text[])
  )
$$;

-- Whether every snapshot of that variant of the product may be read by members of the tenant without a grant.
create function catalog_is_open(product text, variant text) returns boolean
language sql stable set search_path = pg_catalog, public as $$
  select p.classification in ('public', 'internal') and exists (
    select from public.materializations m where m.product_id = p.id and m.epoch is not null and m.snapshots ? $2
  ) and not exists (
    select from public.materializations m
    left join public.product_versions v on v.product_id = p.id and v.version = m.version
    where m.product_id = p.id and m.epoch is not null and m.snapshots ? $2 and not (
      coalesce(v.normalised #>> '{product,classification}', '') in ('public', 'internal')
      and (public.catalog_sensitive_columns(p.id, m.version) || public.catalog_sensitive_columns(p.id, p.current_version))
        <@ array(select jsonb_array_elements_text(coalesce(m.masked_columns -> $2, '[]')))
    )
  )
  from public.products p
  where p.id = $1 and p.current_version is not null and p.status <> 'retired'
$$;

-- Of the session's login. Only these two run with their owner's rights; neither tells anything of another login.
create function catalog_login_catalog() returns text
language sql stable security definer set search_path = pg_catalog, public as $$
  select 'lakehouse_' || tenant from public.catalog_logins where role_name = session_user
$$;

create function catalog_login_sees(catalog text, namespace text, name text) returns boolean
language sql stable security definer set search_path = pg_catalog, public as $$
  select exists (
    select from public.catalog_logins l where l.role_name = session_user and 'lakehouse_' || l.tenant = $1 and (
      $2 = 'sandbox' or exists (
        select from public.products p
        where p.tenant = l.tenant and p.domain = $2 and (
          (p.name = $3 and public.catalog_is_open(p.id, 'clear'))
          or (p.name || '__masked' = $3 and public.catalog_is_open(p.id, 'masked'))
        )
      )
    )
  )
$$;
revoke execute on function catalog_sensitive_columns(text, text), catalog_is_open(text, text) from public;

alter table iceberg_tables enable row level security;
create policy catalog_logins on iceberg_tables for select using (
  catalog_name = catalog_login_catalog() and catalog_login_sees(catalog_name, table_namespace, table_name)
);
alter table iceberg_namespace_properties enable row level security;
create policy catalog_logins on iceberg_namespace_properties for select using (
  catalog_name = catalog_login_catalog() and (namespace = 'sandbox' or exists (
    select from iceberg_tables t
    where t.catalog_name = iceberg_namespace_properties.catalog_name and t.table_namespace = namespace
  ))
)`,
    },
    {
      id: '002_engine_login',
      sql: `
-- An engine of the platform's own, which runs transforms for all tenants: it is told where every table lies.
create policy engine_login on iceberg_tables for select using (session_user = 'sluice_lake');
create policy engine_login on iceberg_namespace_properties for select using (session_user = 'sluice_lake')`,
    },
    {
      id: '003_strict_masks',
      sql: `
-- How values of a class are masked, as the runtime that started last has it: redact where none is named.
alter table catalog_masking add column strategies jsonb not null default '{}';

-- Columns of that version that are masked, with each class that hides them: their own, and those that their source was given since.
create function catalog_masked_classes(product text, version text) returns table (name text, class text)
language sql stable set search_path = pg_catalog, public as $$
  select c.name, c.class
  from public.product_versions v, lateral (
    select c ->> 'name' as name, c ->> 'classification' as class
    from jsonb_array_elements(v.normalised #> '{output,columns}') c
    union
    select r.column_name, r.class from public.raised_columns r
    where r.product_id = v.product_id and r.digest = v.digest and r.blocks
  ) c
  where v.product_id = $1 and v.version = $2 and (
    c.class like 'pii.%' or c.class = any ((select sensitive from public.catalog_masking)::text[])
  )
$$;

create or replace function catalog_sensitive_columns(product text, version text) returns text[]
language sql stable set search_path = pg_catalog, public as $$
  select coalesce(array_agg(distinct c.name), '{}') from public.catalog_masked_classes($1, $2) c
$$;

-- Of these, the columns of which rows with such masks show more than a class lets anybody see.
create function catalog_shown_columns(product text, version text, masks jsonb) returns text[]
language sql stable set search_path = pg_catalog, public as $$
  select coalesce(array_agg(c.name), '{}')
  from public.catalog_masked_classes($1, $2) c, public.catalog_masking rules
  where $3 ->> c.name in ('hash', 'partial') and $3 ->> c.name <> coalesce(rules.strategies ->> c.class, 'redact')
$$;

create or replace function catalog_is_open(product text, variant text) returns boolean
language sql stable set search_path = pg_catalog, public as $$
  select p.classification in ('public', 'internal') and exists (
    select from public.materializations m where m.product_id = p.id and m.epoch is not null and m.snapshots ? $2
  ) and not exists (
    select from public.materializations m
    left join public.product_versions v on v.product_id = p.id and v.version = m.version
    where m.product_id = p.id and m.epoch is not null and m.snapshots ? $2 and not (
      coalesce(v.normalised #>> '{product,classification}', '') in ('public', 'internal')
      and (public.catalog_sensitive_columns(p.id, m.version) || public.catalog_sensitive_columns(p.id, p.current_version))
        <@ array(select jsonb_array_elements_text(coalesce(m.masked_columns -> $2, '[]')))
      and cardinality(public.catalog_shown_columns(p.id, m.version, m.masks -> $2)
        || public.catalog_shown_columns(p.id, p.current_version, m.masks -> $2)) = 0
    )
  )
  from public.products p
  where p.id = $1 and p.current_version is not null and p.status <> 'retired' and p.preview_of is null
$$;
revoke execute on function catalog_masked_classes(text, text), catalog_shown_columns(text, text, jsonb) from public`,
    },
    {
      id: '004_unknown_masks',
      sql: `
-- As before, and those of which nobody knows how they are masked; but none of rows that there are no more.
create or replace function catalog_shown_columns(product text, version text, masks jsonb) returns text[]
language sql stable set search_path = pg_catalog, public as $$
  select coalesce(array_agg(c.name), '{}')
  from public.catalog_masked_classes($1, $2) c, public.catalog_masking rules
  where coalesce($3 ->> c.name, 'unknown') not in ('redact', 'null', 'omit', 'gone')
    and coalesce($3 ->> c.name, 'unknown') <> coalesce(rules.strategies ->> c.class, 'redact')
$$`,
    },
  ],
}
