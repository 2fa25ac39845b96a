import type { Migration } from '../../database/migrate.ts'

/** The clearance that the token claimed by which a key was made: the key never has more. Null: it claimed none. */
export const clearanceOfKeys: Migration = {
  id: '031_clearance_of_keys',
  sql: 'alter table application_keys add column clearance text',
}
