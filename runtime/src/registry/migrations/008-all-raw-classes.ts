import type { Migration } from '../../database/migrate.ts'

/** Of one raw column a product may make several, each with a class of its own: all of them count. */
export const allRawClasses: Migration = {
  id: '008_all_raw_classes',
  sql: `
alter table raw_column_classes drop constraint raw_column_classes_pkey;
alter table raw_column_classes add primary key (product_id, raw_column, class)`,
}
