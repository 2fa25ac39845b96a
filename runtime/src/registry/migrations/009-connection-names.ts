import type { Migration } from '../../database/migrate.ts'

/**
 * A tenant has no two connections whose names differ in case alone. Where there are such already, all but the oldest are
 * left out of the index for as long as they are called as they are: other names would part them from the products and the
 * rows in the lake that go by these, and a runtime that refuses to start would stop every tenant for the names of one.
 */
export const connectionNames: Migration = {
  id: '009_connection_names',
  sql: `
do $$
declare
  kept text;
begin
  select string_agg(format('(%L, %L)', id, name), ', ') into kept from (
    select id, name, row_number() over (partition by tenant, lower(name) order by created_at, id) as place
    from connections) numbered
  where place > 1;
  execute 'create unique index connections_name_in_any_case on connections (tenant, lower(name))'
    || coalesce(' where (id, name) not in (' || kept || ')', '');
end $$`,
}
