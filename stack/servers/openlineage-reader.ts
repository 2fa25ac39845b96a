/** Python with OpenLineage's own client, whose classes say what an event is: the tests of lineage have every event read by it. */
import { join } from 'node:path'
import { installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '1.54.0'

const openLineageReader: ServerKind = {
  name: 'OpenLineage’s classes',
  variable: 'SLUICE_TEST_OPENLINEAGE_PYTHON',
  prepare: environment,
  version: () => machineVersion('python3'),
  async start() {
    return { env: { SLUICE_TEST_OPENLINEAGE_PYTHON: join(await environment(), 'bin/python') }, stop: async () => {} }
  },
}

function environment(): Promise<string> {
  return installed(`openlineage-python-${VERSION}`, async (folder, signal) => {
    await runTool('python3', ['-m', 'venv', folder])
    const packages = [`openlineage-python==${VERSION}`]
    await runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...packages], { signal })
  })
}

export default openLineageReader
