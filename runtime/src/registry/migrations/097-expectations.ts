import type { Migration } from '../../database/migrate.ts'

/** Each epoch asks who expects something of it: of most tenants nobody does. */
export const expectations: Migration = {
  id: '097_expectations',
  sql: `
create index product_versions_expecting on product_versions (product_id)
  where normalised #> '{quality,expectations}' is not null;
`,
}
