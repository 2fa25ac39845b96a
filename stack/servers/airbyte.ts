/** Connectors of Airbyte's protocol from PyPI, as an operator installs them: each version of its package with all that it needs. */
import { join } from 'node:path'
import { exists, installed, runTool } from '../cache.ts'
import { machineVersion } from '../machine-version.ts'
import type { ServerKind } from '../server.ts'

const FAKER = '7.2.1'
/** It is what manifests are read by; the connector brings it along, and this is the version that was tried with it. */
const CDK = '6.61.6'
/** One that every user may run: those of version managers often lie in a home. */
const SYSTEM_PYTHON = '/usr/bin/python3'

const airbyte: ServerKind = {
  name: 'airbyte',
  variable: 'SLUICE_TEST_AIRBYTE_DIR',
  prepare: environment,
  version: () => machineVersion('python3'),
  async start() {
    return { env: { SLUICE_TEST_AIRBYTE_DIR: await environment() }, stop: async () => {} }
  },
}

function environment(): Promise<string> {
  return installed(`airbyte-faker-${FAKER}-cdk-${CDK}`, async (folder, signal) => {
    const python = (await exists(SYSTEM_PYTHON)) ? SYSTEM_PYTHON : 'python3'
    await runTool(python, ['-m', 'venv', folder])
    const packages = [`airbyte-source-faker==${FAKER}`, `airbyte-cdk==${CDK}`]
    await runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...packages], { signal })
  })
}

export default airbyte
