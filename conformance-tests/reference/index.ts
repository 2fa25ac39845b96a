/** The reference store as a plugin: the suite's oracle, and a first example for authors. */
import { defineServingPlugin, SDK_VERSION, SluiceError } from '@sluice/sdk'
import { capabilities, checkConfig, configSchema, type ReferenceConfig } from './config.ts'
import { ReferenceMemory } from './memory.ts'
import { openReferenceStore } from './store.ts'

export interface ReferenceSettings {
  /** What the stores opened on it share, and what outlives them. */
  readonly memory: ReferenceMemory
}

export default defineServingPlugin<ReferenceSettings, ReferenceConfig>({
  type: 'reference',
  name: 'memory',
  version: SDK_VERSION,
  description: 'Every capability of the contract on a Map; for tests.',
  settingsSchema: { type: 'object', required: ['memory'] },
  configSchema,
  capabilities,
  checkConfig,
  async open(settings, host) {
    if (settings.memory instanceof ReferenceMemory) return openReferenceStore(settings.memory, host)
    throw new SluiceError('CONFIG', 'the reference store needs a memory to work on', {
      code: 'invalid_settings',
      remedy: 'Pass {memory: new ReferenceMemory()}.',
      details: { pointer: '/memory' },
    })
  },
})

export type { ReferenceConfig } from './config.ts'
export { ReferenceMemory } from './memory.ts'
