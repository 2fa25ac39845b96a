import type { Migration } from '../../database/migrate.ts'

/**
 * A version beside the one in service is a product of its own, which says whose preview it is. It is restricted and nobody holds
 * grants on it, so that a release which knows nothing of previews shows it to administrators alone.
 */
export const previews: Migration = {
  id: '092_previews',
  sql: `
alter table products add column preview_of text, add column preview_ends_at timestamptz(3);
create index products_previews on products (preview_of) where preview_of is not null;
create index products_previews_due on products (preview_ends_at) where preview_of is not null;
`,
}
