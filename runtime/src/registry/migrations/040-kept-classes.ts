import type { Migration } from '../../database/migrate.ts'

/**
 * Classes of raw columns that no product gives any more, and that nobody took away who may: they hide as before. They end
 * with the connection, or where its owner names a column that has the values unchanged.
 */
export const keptClasses: Migration = {
  id: '040_kept_classes',
  sql: `
create table kept_raw_classes (
  tenant text not null references tenants on delete cascade,
  connection_id text not null references connections on delete cascade,
  -- As in raw_column_classes.
  raw_column text not null,
  class text not null,
  primary key (tenant, raw_column, class, connection_id)
)`,
}
