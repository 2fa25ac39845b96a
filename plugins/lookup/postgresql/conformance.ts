/** What the conformance suite needs to run against this store. */
export { startPostgres as start } from '../row-secured-postgresql/fixture.ts'
