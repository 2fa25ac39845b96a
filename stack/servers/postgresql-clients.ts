/** Python with the clients of PostgreSQL that most tools are built on, and the driver of those in Java: the tests of the wire read products by them. */
import { join } from 'node:path'
import { installed, runTool } from '../cache.ts'
import { javaCommand, javaVersion } from '../java.ts'
import { machineVersion } from '../machine-version.ts'
import { mavenFile } from '../maven.ts'
import type { ServerKind } from '../server.ts'

const PACKAGES = [
  'psycopg[binary]==3.3.9',
  'psycopg2-binary==2.9.13',
  'asyncpg==0.32.0',
  'SQLAlchemy==2.1.9',
  'adbc-driver-postgresql==1.13.0',
  'adbc-driver-manager==1.13.0',
  'connectorx==0.4.6',
  'pyarrow==26.0.1',
  'pandas==3.1.1',
  'polars==2.1.0',
]

const postgresqlClients: ServerKind = {
  name: 'clients of PostgreSQL',
  variable: 'SLUICE_TEST_POSTGRESQL_CLIENTS_PYTHON',
  prepare: () => Promise.all([environment(), driver()]),
  version: async () => `${await machineVersion('python3')} ${await javaVersion(MIN_JAVA)}`,
  async start() {
    const [folder, jar, java] = await Promise.all([environment(), driver(), javaCommand(MIN_JAVA)])
    const env = {
      SLUICE_TEST_POSTGRESQL_CLIENTS_PYTHON: join(folder, 'bin/python'),
      SLUICE_TEST_POSTGRESQL_CLIENTS_JDBC: jar,
      SLUICE_TEST_POSTGRESQL_CLIENTS_JAVA: java,
    }
    return { env, stop: async () => {} }
  },
}

const JDBC = '42.7.8'
/** Runs a program from its source. */
const MIN_JAVA = 17

async function driver(): Promise<string> {
  const folder = await installed(`pgjdbc-${JDBC}`, async (own, signal) => {
    await mavenFile(`org.postgresql:postgresql:${JDBC}`, own, signal)
  })
  return join(folder, `postgresql-${JDBC}.jar`)
}

function environment(): Promise<string> {
  return installed('postgresql-clients-psycopg-3.3.9-adbc-1.13.0', async (folder, signal) => {
    await runTool('python3', ['-m', 'venv', folder])
    await runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...PACKAGES], { signal })
  })
}

export default postgresqlClients
