import type { Migration } from '../../database/migrate.ts'

/**
 * A grant of a person names the person's issuer. Rows from before are not looked at here: which issuers are trusted stands
 * in the configuration, by which `bindGrants` mends them at the same start.
 */
export const grantsNameIssuers: Migration = {
  id: '010_grants_name_issuers',
  sql: `
alter table product_grants add constraint product_grants_issuer
  check ((subject_type = 'user') = (issuer is not null)) not valid;
alter table raw_table_grants add constraint raw_table_grants_issuer
  check ((subject_type = 'user') = (issuer is not null)) not valid`,
}
