import { defineServingPlugin } from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { spaceNamed } from './memory.ts'
import { openStore } from './store.ts'

/** Of the store: where it is and how to log in. Mark passwords with `'x-secret': true`. */
export interface Settings {
  readonly space: string
}

/** Of an endpoint, as serving.yaml gives it. */
export interface Config {
  readonly index_columns?: readonly string[]
}

export default defineServingPlugin<Settings, Config>({
  type: 'lookup',
  name: 'my-store',
  version: '0.1.0',
  description: 'Rows by key, in memory.',
  settingsSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['space'],
    properties: { space: { type: 'string', minLength: 1, examples: ['main'] } },
    examples: [{ space: 'main' }],
  },
  configSchema: {
    type: 'object',
    additionalProperties: false,
    properties: {
      index_columns: {
        type: 'array',
        description: 'Columns that readers filter by.',
        items: { type: 'string' },
        uniqueItems: true,
        minItems: 1,
      },
    },
    examples: [{}, { index_columns: ['name'] }],
  },
  capabilities,
  checkConfig({ index_columns: names = [] }, schema) {
    return names.flatMap((name, index) =>
      schema.columns.some((column) => column.name === name)
        ? []
        : [{ pointer: `/index_columns/${index}`, message: `there is no column ${name}` }],
    )
  },
  open: async ({ space }, host) => openStore(spaceNamed(space), host),
})
