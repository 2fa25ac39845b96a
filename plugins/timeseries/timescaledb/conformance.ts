/** What the conformance suite needs to run against this store: a server that `SLUICE_TEST_TIMESCALE_URL` names. */
import { type PostgresFixture, startPostgres } from '@sluice/lookup/row-secured-postgresql/fixture'

export async function start(): Promise<PostgresFixture> {
  const url = process.env.SLUICE_TEST_TIMESCALE_URL
  if (url === undefined) throw new Error('SLUICE_TEST_TIMESCALE_URL names no server')
  const fixture = await startPostgres({}, url)
  await fixture.admin('create extension timescaledb')
  const [found] = await fixture.admin(`select extversion from pg_extension where extname = 'timescaledb'`)
  return { ...fixture, server: `TimescaleDB ${found?.['extversion']} on ${fixture.server}` }
}
