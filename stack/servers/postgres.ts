/** PostgreSQL without durability, reached over TCP by its superuser; tests make databases of their own in it. */
import pg from 'pg'
import { formatAddress } from '../../runtime/src/database/address.ts'
import { startThrowawayServer } from '../../runtime/src/database/testing.ts'
import type { ContainerSpec } from '../containers.ts'
import type { ServerKind } from '../server.ts'

const PASSWORD = 'for-tests-alone'
const VARIABLE = 'SLUICE_TEST_POSTGRES_URL'

export const postgres: ServerKind = {
  name: 'PostgreSQL',
  variable: VARIABLE,
  container: postgresContainer(VARIABLE),
  async start() {
    const server = await startThrowawayServer({ keepsProcessAlive: true })
    const { host, port } = server.tcpAddress
    const env = { [VARIABLE]: formatAddress({ ...server.address, host, port }) }
    return { env, stop: () => server.stop() }
  },
}

/**
 * The deployed image. Of its own it puts TimescaleDB into every database, where tests expect nothing; loaded, that also
 * connects to databases by itself, and one that somebody is connected to cannot be copied.
 */
export function postgresContainer(variable: string, preloaded = ''): ContainerSpec {
  const login = { database: 'postgres', user: 'postgres', password: PASSWORD, tls: 'disable' } as const
  const settings = ['max_connections=400', 'fsync=off', `shared_preload_libraries=${preloaded}`]
  const start = ['docker-entrypoint.sh', 'postgres', ...settings.flatMap((setting) => ['-c', setting])]
  return {
    service: 'postgres',
    command: ['sh', '-c', 'rm /docker-entrypoint-initdb.d/* && exec "$@"', 'sh', ...start],
    env: { POSTGRES_PASSWORD: PASSWORD },
    port: 5432,
    address: (host, port) => ({ [variable]: formatAddress({ ...login, host, port }) }),
    ready: (address) => answers(address[variable] ?? ''),
  }
}

async function answers(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString })
  try {
    await client.connect()
    return (await client.query('select 1')).rowCount === 1
  } finally {
    // A server that is not up closes nothing.
    await client.end().catch(() => undefined)
  }
}

export default postgres
