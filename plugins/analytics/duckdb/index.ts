/** SQL and scans over the lake's own files, by the runtime's guarded DuckDB; no data moves. */
import { join } from 'node:path'
import { defineServingPlugin, SDK_VERSION } from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { Registrations } from './registrations.ts'
import { openStore } from './store.ts'

const NO_FIELDS = { type: 'object', additionalProperties: false, properties: {} } as const

export default defineServingPlugin({
  type: 'analytics',
  name: 'duckdb',
  version: SDK_VERSION,
  description: 'Scans and SQL over the files of the lake, in the runtime’s guarded engine.',
  settingsSchema: NO_FIELDS,
  configSchema: NO_FIELDS,
  capabilities,
  async open(_settings, host) {
    return openStore(new Registrations(join(host.stateDirectory, 'registrations')), host)
  },
})
