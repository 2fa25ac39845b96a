import type { Migration } from '../../database/migrate.ts'

/** What a deployment whose first rows are compared with those that are served has to settle, or to go back to. */
export const comparedDeployments: Migration = {
  id: '095_compared_deployments',
  sql: `
alter table deployments add column comparison jsonb;
create index deployments_compared on deployments (product_id) where state = 'running' and comparison is not null;
`,
}
