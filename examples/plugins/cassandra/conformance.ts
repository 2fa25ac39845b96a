import { randomBytes } from 'node:crypto'
import type { Fixture } from '@sluice/conformance'
import cassandra from 'cassandra-driver'
import type { Settings } from './settings.ts'

/** `SLUICE_TEST_CASSANDRA_URL` names a cluster that tests may use: `cassandra://127.0.0.1:9042/datacenter1`. */
export async function start(): Promise<Fixture> {
  const address = process.env['SLUICE_TEST_CASSANDRA_URL']
  if (address === undefined) throw new Error('SLUICE_TEST_CASSANDRA_URL is not set: it names a cluster for tests')
  const { hostname, port, pathname } = new URL(address)
  const keyspace = `conformance_${randomBytes(6).toString('hex')}`
  const settings: Settings = {
    contact_points: [hostname],
    port: Number(port),
    local_data_center: pathname.slice(1),
    keyspace,
  }
  return {
    settings,
    server: await withClient(settings, async (client) => {
      const { rows } = await client.execute('SELECT release_version FROM system.local')
      return `Cassandra ${rows[0]?.['release_version']}`
    }),
    unreachable: { ...settings, port: 9 },
    // The cluster is shared, so nothing restarts it; what a client kept is gone with the store that was closed.
    async restart() {},
    stop: () => dropKeyspace(settings),
  }
}

async function dropKeyspace(settings: Settings): Promise<void> {
  await withClient(settings, (client) => client.execute(`DROP KEYSPACE IF EXISTS ${settings.keyspace}`))
}

async function withClient<T>(
  { contact_points, port = 9042, local_data_center }: Settings,
  run: (client: cassandra.Client) => Promise<T>,
): Promise<T> {
  const client = new cassandra.Client({
    contactPoints: [...contact_points],
    localDataCenter: local_data_center,
    protocolOptions: { port },
  })
  try {
    await client.connect()
    return await run(client)
  } finally {
    await client.shutdown()
  }
}
