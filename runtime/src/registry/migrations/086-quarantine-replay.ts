import type { Migration } from '../../database/migrate.ts'

/**
 * Rows that were put aside as a whole can be tried again. `place`: in the order of the read that refused them. `lost`: why a row
 * cannot be tried again; of rows of before, and of older releases, nothing is known. `rows_superseded` of a run that tried rows
 * again, null of any other.
 */
export const quarantineReplay: Migration = {
  id: '086_quarantine_replay',
  sql: `
alter table quarantined_rows add column replayable boolean not null default false;
alter table quarantined_rows add column lost text;
alter table quarantined_rows add column place integer not null default 0;
alter table run_tables add column rows_superseded bigint;
`,
}
