/** SQL and scans over the lake's own files, by the runtime's guarded DuckDB; no data moves. */
import { join } from 'node:path'
import { defineServingPlugin, type JsonSchema, SDK_VERSION } from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { Registrations } from './registrations.ts'
import { openStore } from './store.ts'

export interface DuckdbSettings {
  /** Default: the plugin's own state folder. */
  readonly path?: string
}

const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    path: {
      type: 'string',
      minLength: 1,
      description: 'Folder that says which files are served; one for all runtimes on a registry. Default: its own.',
    },
  },
}

const NO_FIELDS = { type: 'object', additionalProperties: false, properties: {} } as const

export default defineServingPlugin<DuckdbSettings, Record<string, never>>({
  type: 'analytics',
  name: 'duckdb',
  version: SDK_VERSION,
  description: 'Scans and SQL over the files of the lake, in the runtime’s guarded engine.',
  settingsSchema,
  configSchema: NO_FIELDS,
  capabilities,
  async open(settings, host) {
    const folder = settings?.path ?? host.stateDirectory
    return openStore(new Registrations(join(folder, 'registrations')), host)
  },
})
