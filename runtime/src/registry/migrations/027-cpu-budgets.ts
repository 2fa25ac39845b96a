import type { Migration } from '../../database/migrate.ts'

/**
 * What each tenant has used of the processors: at `counted_at`, and draining since by its tier's limit. `spent_until`:
 * when it will be below the limit again, as whoever counted last has found; null where it is.
 */
export const cpuBudgets: Migration = {
  id: '027_cpu_budgets',
  sql: `
create table cpu_budgets (
  tenant text primary key references tenants on delete cascade,
  used_s double precision not null,
  counted_at timestamptz not null,
  spent_until timestamptz
);
`,
}
