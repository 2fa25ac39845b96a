import type { Migration } from '../../database/migrate.ts'

/**
 * How far the numbers of products came that are deleted, by their names: one made anew under a name goes on from there. By the
 * database itself, so that it holds for what a release before this one deletes and makes beside it. A name is kept for as long as
 * its tenant; of products without an epoch, nothing.
 */
export const formerProducts: Migration = {
  id: '104_former_products',
  sql: `
create table former_products (
  tenant text not null references tenants on delete cascade,
  domain text not null,
  name text not null,
  epoch bigint not null,
  token bigint not null,
  primary key (tenant, domain, name)
);
-- Epochs are above it; 0 for a product whose name is new. The epoch itself is 0 until there is one.
alter table product_fences add column after_epoch bigint not null default 0;

create function keep_former_product() returns trigger language plpgsql as $$
begin
  -- Not of a tenant that goes with its products.
  insert into former_products as former (tenant, domain, name, epoch, token)
  select old.tenant, old.domain, old.name, greatest(f.epoch, f.after_epoch), f.token
  from product_fences f join tenants t on t.slug = old.tenant
  where f.product_id = old.id and greatest(f.epoch, f.after_epoch) > 0
  for no key update of f
  on conflict (tenant, domain, name) do update
    set epoch = greatest(former.epoch, excluded.epoch), token = greatest(former.token, excluded.token);
  return old;
end $$;
create trigger products_former before delete on products for each row execute function keep_former_product();

create function follow_former_product() returns trigger language plpgsql as $$
declare
  former former_products;
begin
  select f.* into former from products p join former_products f using (tenant, domain, name) where p.id = new.product_id;
  if found then
    new.after_epoch := greatest(new.after_epoch, former.epoch);
    new.token := greatest(new.token, former.token);
  end if;
  return new;
end $$;
create trigger product_fences_former before insert on product_fences
  for each row execute function follow_former_product();
`,
}
