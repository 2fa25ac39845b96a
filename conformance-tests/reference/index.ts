/** The reference store as a plugin: the suite's oracle, and a first example for authors. */
import { defineServingPlugin, SDK_VERSION, SluiceError } from '@sluice/sdk'
import { capabilities, checkConfig, configSchema, type ReferenceConfig } from './config.ts'
import { selects } from './containing.ts'
import { ReferenceMemory } from './memory.ts'
import { openReferenceStore } from './store.ts'

export interface ReferenceSettings {
  /** What the stores opened on it share, and what outlives them. */
  readonly memory: ReferenceMemory
  /** A login that the walls between tenants do not bind: only the probe tells. */
  readonly privileged?: boolean
}

export default defineServingPlugin<ReferenceSettings, ReferenceConfig>({
  type: 'reference',
  name: 'memory',
  version: SDK_VERSION,
  description: 'Every capability of the contract on a Map; for tests.',
  settingsSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['memory'],
    properties: {
      memory: { type: 'object', description: 'A ReferenceMemory: what outlives the stores that are opened on it.' },
      privileged: { type: 'boolean', description: 'Whether the login could pass by the walls between tenants.' },
    },
  },
  configSchema,
  capabilities,
  checkConfig,
  selects,
  async open(settings, host) {
    checkSettings(settings)
    const { memory, privileged = false } = settings
    if (memory.isReachable) return openReferenceStore(memory, host, privileged)
    throw new SluiceError('TRANSIENT', 'nobody answers for this memory', { code: 'store_unavailable' })
  },
})

/** Everything that is wrong would be named by a store with more settings; here the first is enough. */
function checkSettings(settings: ReferenceSettings): void {
  if (typeof settings !== 'object' || settings === null) throw invalidSettings('')
  const known = ['memory', 'privileged']
  const unknown = Object.keys(settings).find((name) => !known.includes(name))
  if (unknown !== undefined) throw invalidSettings(`/${unknown}`)
  if (!(settings.memory instanceof ReferenceMemory)) throw invalidSettings('/memory')
  if (typeof (settings.privileged ?? false) !== 'boolean') throw invalidSettings('/privileged')
}

function invalidSettings(pointer: string): SluiceError {
  return new SluiceError('CONFIG', 'the reference store needs a memory to work on', {
    code: 'invalid_settings',
    remedy: 'Pass {memory: new ReferenceMemory()}.',
    details: { pointer },
  })
}

export type { ReferenceConfig } from './config.ts'
export { ReferenceMemory } from './memory.ts'
