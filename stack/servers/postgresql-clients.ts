/** Python with the clients of PostgreSQL that most tools are built on: the tests of the wire read products by them. */
import { join } from 'node:path'
import { installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
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
  prepare: environment,
  version: () => machineVersion('python3'),
  async start() {
    const python = join(await environment(), 'bin/python')
    return { env: { SLUICE_TEST_POSTGRESQL_CLIENTS_PYTHON: python }, stop: async () => {} }
  },
}

function environment(): Promise<string> {
  return installed('postgresql-clients-psycopg-3.3.9-adbc-1.13.0', async (folder, signal) => {
    await runTool('python3', ['-m', 'venv', folder])
    await runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...PACKAGES], { signal })
  })
}

export default postgresqlClients
