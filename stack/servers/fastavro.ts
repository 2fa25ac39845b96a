/** Python with fastavro: what is written and read by it is compared with what is read by us. */
import { join } from 'node:path'
import { installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '1.12.2'

const fastavro: ServerKind = {
  name: 'fastavro',
  variable: 'SLUICE_TEST_FASTAVRO_PYTHON',
  prepare: environment,
  version: () => machineVersion('python3'),
  async start() {
    return { env: { SLUICE_TEST_FASTAVRO_PYTHON: join(await environment(), 'bin/python') }, stop: async () => {} }
  },
}

function environment(): Promise<string> {
  return installed(`fastavro-${VERSION}`, async (folder, signal) => {
    await runTool('python3', ['-m', 'venv', folder])
    const packages = [`fastavro==${VERSION}`]
    await runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...packages], { signal })
  })
}

export default fastavro
