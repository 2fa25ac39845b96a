import type { Migration } from '../../database/migrate.ts'

/** Rows that came all the same, without the value that could not be carried: no product uses its column. */
export const valuesLeftOut: Migration = {
  id: '028_values_left_out',
  sql: 'alter table quarantined_rows add column carried boolean not null default false;',
}
