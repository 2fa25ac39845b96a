import type { Migration } from '../../database/migrate.ts'

/**
 * How old the rows of each deployed product are, and may be: what the watch over objectives looks at, without a look at
 * each product's epochs and manifests.
 */
export const productFreshness: Migration = {
  id: '053_product_freshness',
  sql: `
create table product_freshness (
  product_id text primary key references products on delete cascade,
  tenant text not null references tenants on delete cascade,
  -- Of the newest epoch; before the first one, when the product was deployed.
  read_at timestamptz(3) not null,
  objective_ms bigint,
  -- When the rows will be older than the objective; null: there is none.
  due_at timestamptz(3),
  -- Told, and not over.
  missed_since timestamptz(3)
);
create index product_freshness_due on product_freshness (due_at) where missed_since is null and due_at is not null;
create index product_freshness_missed on product_freshness (product_id) where missed_since is not null;
insert into product_freshness (product_id, tenant, read_at, objective_ms, due_at)
select id, tenant, read_at, objective_ms, read_at + make_interval(secs => objective_ms / 1000.0)
from (
  select p.id, p.tenant, coalesce(f.epoch_committed_at, v.deployed_at) as read_at,
    (v.normalised #>> '{product,slo,freshnessMs}')::bigint as objective_ms
  from products p join product_versions v on v.product_id = p.id and v.version = p.current_version
    join product_fences f on f.product_id = p.id
) deployed;
`,
}
