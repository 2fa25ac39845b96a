import { type Capabilities, type DeclaredOperation, EXACT_TYPES } from '@sluice/sdk'

export const SCORE = 'score'

const search: DeclaredOperation = {
  summary: 'Rows whose text holds the words, the best first',
  inputSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['words'],
    properties: {
      words: {
        type: 'string',
        minLength: 1,
        maxLength: 500,
        description: 'Words parted by spaces, 32 at most. Nothing in them is syntax.',
        examples: ['green tea'],
      },
      columns: {
        type: 'array',
        description: 'Where to look. Default: all columns that the endpoint makes searchable.',
        items: { type: 'string', minLength: 1, maxLength: 200 },
        uniqueItems: true,
        minItems: 1,
        maxItems: 8,
      },
      mode: {
        type: 'string',
        enum: ['all', 'any', 'phrase'],
        default: 'all',
        description: 'Every word, in whichever of the columns; one of them; or the words side by side in one column.',
      },
      prefix: {
        type: 'boolean',
        default: false,
        description: 'Each word may be the beginning of a longer one; of a phrase, the last word.',
      },
    },
  },
  example: { words: 'green tea' },
  adds: [{ name: SCORE, type: 'double', nullable: false }],
}

export const capabilities: Capabilities = {
  commit: 'atomic',
  operations: ['get', 'scan'],
  filters: ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'],
  declared: { search },
  recover: true,
  digest: true,
  types: EXACT_TYPES,
  limits: { maxReadRows: 1000, maxRowBytes: 1 << 20 },
}
