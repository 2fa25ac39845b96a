/**
 * TimescaleDB is in no package registry: a container has it, and else a server is used where `SLUICE_TEST_TIMESCALE_URL`
 * names one.
 */
import pg from 'pg'
import type { ServerKind } from '../server.ts'

const PASSWORD = 'for-tests-alone'
const VARIABLE = 'SLUICE_TEST_TIMESCALE_URL'

export const timescaledb: ServerKind = {
  name: 'TimescaleDB',
  variable: VARIABLE,
  container: {
    service: 'postgres',
    command: ['postgres', '-c', 'max_connections=400', '-c', 'fsync=off'],
    env: { POSTGRES_PASSWORD: PASSWORD },
    port: 5432,
    address: (host, port) => ({ [VARIABLE]: `postgresql://postgres:${PASSWORD}@${host}:${port}/postgres` }),
    ready: (address) => answers(address[VARIABLE] ?? ''),
  },
  start: async () => ({ env: {}, async stop() {} }),
}

async function answers(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString })
  try {
    await client.connect()
    return (await client.query('select 1')).rowCount === 1
  } finally {
    await client.end().catch(() => undefined)
  }
}
