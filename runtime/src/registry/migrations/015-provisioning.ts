import type { Migration } from '../../database/migrate.ts'

/**
 * No lease: a release that gave none made the tenant, or nobody provisions it. `provisioning_disturbed`: an owner that
 * had lost its lease was at work until now, so what undoes the tenant has to begin again.
 */
export const provisioning: Migration = {
  id: '015_provisioning',
  sql: `
alter table tenants add column provisioning_owner text, add column provisioning_until timestamptz(3),
  add column provisioning_disturbed boolean not null default false;
`,
}
