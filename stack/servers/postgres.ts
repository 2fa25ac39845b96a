/** PostgreSQL without durability, reached over TCP by its superuser; tests make databases of their own in it. */
import { formatAddress } from '../../runtime/src/database/address.ts'
import { startThrowawayServer } from '../../runtime/src/database/testing.ts'
import type { ServerKind } from '../server.ts'

export const postgres: ServerKind = {
  name: 'PostgreSQL',
  variable: 'SLUICE_TEST_POSTGRES_URL',
  async start() {
    const server = await startThrowawayServer({ keepsProcessAlive: true })
    const { host, port } = server.tcpAddress
    const env = { SLUICE_TEST_POSTGRES_URL: formatAddress({ ...server.address, host, port }) }
    return { env, stop: () => server.stop() }
  },
}
