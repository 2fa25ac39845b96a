import { defineConnector, SluiceError } from '@sluice/sdk'
import { openConnector } from './connector.ts'
import { sourceNamed } from './source.ts'

/** Of a connection, as the tenant gives it. Mark passwords with `'x-secret': true`. */
export interface Settings {
  readonly source: string
}

export default defineConnector<Settings>({
  type: 'my-connector',
  name: 'my-connector',
  version: '0.1.0',
  description: 'Tables in memory.',
  settingsSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['source'],
    properties: { source: { type: 'string', minLength: 1, description: 'Its name.', examples: ['main'] } },
    examples: [{ source: 'main' }],
  },
  capabilities: { modes: ['full', 'incremental'] },
  async open({ source, ...others }) {
    if (typeof source !== 'string' || source === '' || Object.keys(others).length > 0) {
      throw new SluiceError('CONFIG', 'the settings are not valid', {
        code: 'settings_invalid',
        remedy: 'Give the name of a source, and nothing else.',
      })
    }
    return openConnector(sourceNamed(source))
  },
})
