import type { Migration } from '../../database/migrate.ts'

/** Each run asks which products are made of its connection, or of a product: a tenant may have thousands that are not. */
export const inputsOfVersions: Migration = {
  id: '103_inputs_of_versions',
  sql: `
create index product_versions_inputs on product_versions using gin ((normalised -> 'inputs') jsonb_path_ops);
`,
}
