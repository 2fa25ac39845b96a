/** Values under rendered keys in Redis or Valkey, on one server or a cluster, shared by any number of processes. */
import { defineServingPlugin, SDK_VERSION } from '@sluice/sdk'
import { checkConfig, configSchema, type RealtimeConfig } from '../keyed-values/endpoint.ts'
import { capabilities, type RedisSettings, settingsSchema } from './config.ts'
import { openConnections } from './connections.ts'
import { openStore } from './store.ts'

export default defineServingPlugin<RedisSettings, RealtimeConfig>({
  type: 'realtime',
  name: 'redis',
  version: SDK_VERSION,
  description: 'Values by key, expiring together after the newest epoch, in Redis or Valkey.',
  settingsSchema,
  configSchema,
  capabilities,
  checkConfig,
  async open(settings, host) {
    return openStore(await openConnections(settings), host)
  },
})
