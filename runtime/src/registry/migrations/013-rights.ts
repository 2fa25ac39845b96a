import type { Migration } from '../../database/migrate.ts'

/**
 * What of a grant may be granted on, and since when a connection leads to the source that it leads to now. Grants from
 * before may not be granted on.
 */
export const rights: Migration = {
  id: '013_rights',
  sql: `
alter table product_grants add column grantable text[] not null default '{}';
alter table raw_table_grants add column grantable boolean not null default false;
alter table connections add column source_since timestamptz(3)`,
}
