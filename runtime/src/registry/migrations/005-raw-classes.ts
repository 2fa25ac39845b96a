import type { Migration } from '../../database/migrate.ts'

/** Which class each product in service gives to what it makes of a raw column: other products inherit it. */
export const rawClassesTable: Migration = {
  id: '005_raw_classes',
  sql: `
create table raw_column_classes (
  product_id text not null references products on delete cascade,
  tenant text not null,
  -- Connection, table and column, as a JSON array.
  raw_column text not null,
  class text not null,
  primary key (product_id, raw_column)
);
create index raw_column_classes_by_tenant on raw_column_classes (tenant, raw_column)`,
}
