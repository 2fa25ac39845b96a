/** A runtime, and the Superset that it keeps dashboards in. Its login that makes roles may do no more than that. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import pg from 'pg'
import { formatAddress } from '../../runtime/src/database/address.ts'
import type { EmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { clientConfig } from '../../runtime/src/database/pools.ts'
import { ROLE_NAMES } from '../../runtime/src/database/roles.ts'
import { machineVersion } from '../machine-version.ts'
import type { ServerKind } from '../server.ts'
import { startRuntimeOnPostgres } from './runtime.ts'
import { preparedMetadata, startSuperset } from './superset.ts'

const LOGIN_MAKER = 'sluice_logins'
/** So that a test of a server that hangs needs no patience. */
const TIMEOUT_MS = '5000'

export const dashboards: ServerKind = {
  name: 'a runtime and its Superset',
  variable: 'SLUICE_TEST_SUPERSET_URL',
  prepare: preparedMetadata,
  version: () => machineVersion('python3'),
  async start(folder) {
    const superset = await startSuperset(join(folder, 'superset'))
    const { url, username, password, pid } = superset
    try {
      const runtime = await startRuntimeOnPostgres(join(folder, 'runtime'), async (platform) => ({
        SLUICE_DASHBOARDS__URL: url,
        SLUICE_DASHBOARDS__USERNAME: username,
        SLUICE_DASHBOARDS__PASSWORD: password,
        SLUICE_DASHBOARDS__DATABASE_ADMIN_URL: await loginMaker(platform),
        SLUICE_DASHBOARDS__TIMEOUT_MS: TIMEOUT_MS,
      }))
      return {
        env: {
          ...runtime.env,
          SLUICE_TEST_SUPERSET_URL: url,
          SLUICE_TEST_SUPERSET_LOGIN: `${username}:${password}`,
          SLUICE_TEST_SUPERSET_GROUP: String(pid),
        },
        async stop() {
          await runtime.stop()
          await superset.stop()
        },
      }
    } catch (error) {
      await superset.stop()
      throw error
    }
  },
}

async function loginMaker(platform: EmbeddedServer): Promise<string> {
  const login = { user: LOGIN_MAKER, password: randomBytes(24).toString('base64url') }
  const client = new pg.Client(clientConfig(platform.address, { applicationName: 'sluice-stack' }))
  await client.connect()
  try {
    await client.query(`create role ${LOGIN_MAKER} login createrole password '${login.password}'`)
    await client.query(`grant connect on database ${ROLE_NAMES.servingDatabase} to ${LOGIN_MAKER}`)
  } finally {
    await client.end()
  }
  return formatAddress({ ...platform.tcpAddress, ...login, database: ROLE_NAMES.servingDatabase })
}

export default dashboards
