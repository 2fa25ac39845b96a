/** What the conformance suite needs to run against this store. */
import { startPostgres } from '../row-secured-postgresql/fixture.ts'

export { startPostgres as start }
