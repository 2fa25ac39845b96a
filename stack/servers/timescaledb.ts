/**
 * TimescaleDB is in no package registry: a container has it, and else a server is used where `SLUICE_TEST_TIMESCALE_URL`
 * names one.
 */
import type { ServerKind } from '../server.ts'
import { postgresContainer } from './postgres.ts'

const VARIABLE = 'SLUICE_TEST_TIMESCALE_URL'

export const timescaledb: ServerKind = {
  name: 'TimescaleDB',
  variable: VARIABLE,
  container: postgresContainer(VARIABLE, 'timescaledb'),
  start: async () => ({ env: {}, async stop() {} }),
}

export default timescaledb
