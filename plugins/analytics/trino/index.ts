/** Scans of the lake's tables by Trino, in a catalog for each tenant; no data moves. */
import { join } from 'node:path'
import { defineServingPlugin, SDK_VERSION } from '@sluice/sdk'
import { Registrations } from '../duckdb/registrations.ts'
import { capabilities } from './capabilities.ts'
import { TrinoClient } from './client.ts'
import { settingsSchema, type TrinoSettings } from './settings.ts'
import { openStore } from './store.ts'

/** A server that has just started compiles its first statement for as long as a busy machine takes. */
const OPEN_MS = 60_000

export default defineServingPlugin<TrinoSettings, Record<string, never>>({
  type: 'analytics',
  name: 'trino',
  version: SDK_VERSION,
  description: 'Scans of the lake’s tables by Trino, in a catalog for each tenant.',
  settingsSchema,
  configSchema: { type: 'object', additionalProperties: false, properties: {} },
  capabilities,
  async open(settings, host) {
    const client = new TrinoClient(settings)
    await client.rows({ sql: 'SELECT 1', maxRows: 1, timeoutMs: OPEN_MS })
    const folder = settings.path ?? host.stateDirectory
    return openStore({ client, settings, registrations: new Registrations(join(folder, 'registrations')), host })
  },
})
