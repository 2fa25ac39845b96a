/** What the conformance suite needs to run against this store. */
export { startPostgres as start } from '@sluice/lookup/row-secured-postgresql/fixture'
