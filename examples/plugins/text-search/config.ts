/** The config of an endpoint: what is searched, and how text becomes words. */
import type { ConfigProblem, JsonSchema, TableSchema } from '@sluice/sdk'

export interface Config {
  readonly text_columns: readonly string[]
  /** By column; 1 where none is given. */
  readonly weights?: Readonly<Record<string, number>>
  readonly tokenizer?: keyof typeof TOKENIZERS
  readonly accents?: 'ignored' | 'kept'
}

const MAX_TEXT_COLUMNS = 8

/** FTS5's own, with what stands before and after its option for accents: https://www.sqlite.org/fts5.html#tokenizers */
const TOKENIZERS = {
  words: { name: 'unicode61', ignored: 2 },
  english: { name: 'porter unicode61', ignored: 2 },
  trigrams: { name: 'trigram', ignored: 1 },
} as const

export const configSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['text_columns'],
  properties: {
    text_columns: {
      type: 'array',
      description: 'Columns of type string that are searched.',
      items: { type: 'string', minLength: 1 },
      uniqueItems: true,
      minItems: 1,
      maxItems: MAX_TEXT_COLUMNS,
    },
    weights: {
      type: 'object',
      description: 'How much a match in a column counts, where it is not 1.',
      additionalProperties: { type: 'number', minimum: 0.01, maximum: 100 },
    },
    tokenizer: {
      type: 'string',
      enum: Object.keys(TOKENIZERS),
      default: 'words',
      description:
        'words: as they are written. english: by their stems, so that "teas" finds "tea". trigrams: any three letters in a row, for languages without spaces.',
    },
    accents: {
      type: 'string',
      enum: ['ignored', 'kept'],
      default: 'ignored',
      description: 'Whether "cafe" finds "café".',
    },
  },
  examples: [{ text_columns: ['title', 'body'], weights: { title: 4 } }],
}

export function configProblems(config: Config, schema: TableSchema): readonly ConfigProblem[] {
  const columns = new Map(schema.columns.map((column) => [column.name, column.type]))
  const unsearchable = config.text_columns.flatMap((name, index): ConfigProblem[] => {
    const pointer = `/text_columns/${index}`
    if (!columns.has(name)) return [{ pointer, message: `there is no column ${name}` }]
    if (columns.get(name) === 'string') return []
    return [{ pointer, message: `the column ${name} holds no text`, hint: 'Name columns of type string.' }]
  })
  const idle = Object.keys(config.weights ?? {}).filter((name) => !config.text_columns.includes(name))
  return [
    ...unsearchable,
    ...idle.map((name) => ({
      pointer: `/weights/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
      message: `the column ${name} is not searched`,
      hint: 'Name it under text_columns, too.',
    })),
  ]
}

/** What CREATE VIRTUAL TABLE is told: of these words alone, none of a tenant's. */
export function tokenizerOf({ tokenizer = 'words', accents = 'ignored' }: Config): string {
  const { name, ignored } = TOKENIZERS[tokenizer]
  return `${name} remove_diacritics ${accents === 'ignored' ? ignored : 0}`
}

/** Own keys alone: a column may be called `constructor`. */
export function weightOf({ weights = {} }: Config, name: string): number {
  return Object.hasOwn(weights, name) ? (weights[name] ?? 1) : 1
}
