import { defineConnector } from '@sluice/sdk'
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
    properties: { source: { type: 'string', minLength: 1, examples: ['main'] } },
    examples: [{ source: 'main' }],
  },
  capabilities: { modes: ['full', 'incremental'] },
  open: async ({ source }) => openConnector(sourceNamed(source)),
})
