import type { Migration } from '../../database/migrate.ts'

/** What the removal of old runs asks of each of them, and finds attempts by that were not published. */
export const runRetention: Migration = {
  id: '064_run_retention',
  sql: `
create index incidents_of_run on incidents (run_id) where run_id is not null;
create index materializations_blocked on materializations (committed_at) where epoch is null;
`,
}
