/** A folder of files as a source: every `name.csv` and `name.jsonl` with a `name.schema.json` beside it is a table. */
import { isAbsolute } from 'node:path'
import { defineConnector, SluiceError } from '@sluice/sdk'
import { openConnector } from './connector.ts'

export interface Settings {
  readonly folder: string
}

export default defineConnector<Settings>({
  type: 'folder',
  name: 'folder',
  version: '1.0.0',
  description: 'A folder of CSV and JSON-lines files.',
  settingsSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['folder'],
    properties: {
      folder: {
        type: 'string',
        pattern: '^/',
        description: 'Where the files are, from the root.',
        examples: ['/data'],
        'x-folder': true,
      },
    },
    examples: [{ folder: '/data' }],
  },
  // Files do not tell which of their rows are new.
  capabilities: { modes: ['full'] },
  async open({ folder, ...others }) {
    if (typeof folder === 'string' && isAbsolute(folder) && Object.keys(others).length === 0)
      return openConnector(folder)
    throw new SluiceError('CONFIG', 'the settings of a folder are not valid', {
      code: 'settings_invalid',
      remedy: 'Give the folder by its path from the root, and nothing else.',
    })
  },
})
