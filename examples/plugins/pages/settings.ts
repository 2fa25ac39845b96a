import type { JsonSchema } from '@sluice/sdk'

export interface PagesSettings {
  readonly folder: string
  readonly renew_seconds: number
  readonly rows: number
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['folder'],
  properties: {
    folder: {
      type: 'string',
      pattern: '^/',
      description: 'Of this machine, from the root. The pages are in `pages` below it; what is beside them is secret.',
    },
    renew_seconds: {
      type: 'integer',
      minimum: 1,
      maximum: 86_400,
      default: 300,
      description: 'How often pages are written anew whose product says nothing of it.',
    },
    rows: { type: 'integer', minimum: 1, maximum: 10_000, default: 100, description: 'Of a table, the most.' },
  },
}
