/** Values under rendered keys in LMDB, embedded: one process, one folder, reads without waiting. */
import { join } from 'node:path'
import { defineServingPlugin, SDK_VERSION } from '@sluice/sdk'
import {
  capabilities,
  checkConfig,
  configSchema,
  type LmdbSettings,
  type RealtimeConfig,
  settingsSchema,
} from './config.ts'
import { openEnvironment } from './environment.ts'
import { openStore } from './store.ts'

export default defineServingPlugin<LmdbSettings, RealtimeConfig>({
  type: 'realtime',
  name: 'lmdb',
  version: SDK_VERSION,
  description: 'Values by key, expiring together after the newest epoch, in an embedded LMDB.',
  settingsSchema,
  configSchema,
  capabilities,
  checkConfig,
  async open(settings, host) {
    const folder = settings.path ?? join(host.stateDirectory, 'lmdb')
    return openStore(await openEnvironment(folder), host)
  },
})
