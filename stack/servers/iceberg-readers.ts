/**
 * Python with PyIceberg and with DuckDB and its signed extensions, both from wheels: engines of other people, which the
 * lake's tests let read and write our tables.
 */
import { join } from 'node:path'
import { installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import type { ServerKind } from '../server.ts'

const DUCKDB = '1.5.5'
const PACKAGES = [
  'pyiceberg[pyarrow,sql-postgres,s3fs]==0.12.0',
  `duckdb==${DUCKDB}`,
  ...['iceberg', 'avro', 'httpfs'].map((name) => `duckdb-extension-${name}==${DUCKDB}`),
]

export const icebergReaders: ServerKind = {
  name: 'PyIceberg and DuckDB',
  variable: 'SLUICE_TEST_ICEBERG_PYTHON',
  prepare: environment,
  version: () => machineVersion('python3'),
  async start() {
    return { env: { SLUICE_TEST_ICEBERG_PYTHON: join(await environment(), 'bin/python') }, stop: async () => {} }
  },
}

function environment(): Promise<string> {
  return installed(`iceberg-readers-pyiceberg-0.12.0-duckdb-${DUCKDB}`, async (folder, signal) => {
    await runTool('python3', ['-m', 'venv', folder])
    await runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...PACKAGES], { signal })
  })
}

export default icebergReaders
