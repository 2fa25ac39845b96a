import type { Migration } from '../../database/migrate.ts'

/** How each masked column was masked, by variant: a later policy may ask for a stricter mask than rows have. Null of epochs before. */
export const masksOfEpochs: Migration = {
  id: '105_masks_of_epochs',
  sql: `
alter table materializations add column masks jsonb;
`,
}
