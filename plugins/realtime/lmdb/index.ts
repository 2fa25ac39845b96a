/** Values under rendered keys in LMDB, embedded: one process, one folder, reads without waiting. */
import { join } from 'node:path'
import { defineServingPlugin, SDK_VERSION } from '@sluice/sdk'
import { checkConfig, configSchema, type RealtimeConfig } from '../keyed-values/endpoint.ts'
import { checkSettings } from '../keyed-values/settings.ts'
import { capabilities, type LmdbSettings, settingsSchema } from './config.ts'
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
    checkSettings(settingsSchema, settings)
    const folder = settings.path ?? join(host.stateDirectory, 'lmdb')
    const onBroken = () =>
      host.logger.warn('the file of the realtime store cannot be read; it is made anew', { folder })
    return openStore(await openEnvironment(folder, onBroken), host)
  },
})
