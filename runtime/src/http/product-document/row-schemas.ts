/** Rows of a product as JSON Schema 2020-12, of columns as the caller is shown them. */
import { type LogicalType, typeName } from '@sluice/sdk'
import { type TSchema, Type } from 'typebox'
import type { ProductWords } from '../../operations/products/product-schema.ts'
import { columnWords } from '../../operations/products/product-words.ts'
import type { ShownColumn } from '../../operations/products/readings.ts'
import { describingText } from './describing-text.ts'

type Json = Readonly<Record<string, unknown>>

const MAX_NUMBER = Number.MAX_SAFE_INTEGER
const DATE = '\\d{4}-\\d\\d-\\d\\d'
const TIME = '\\d\\d:\\d\\d:\\d\\d\\.\\d{6}'
const DOUBLE = { anyOf: [{ type: 'number' }, { enum: ['NaN', 'Infinity', '-Infinity'] }] }

/** By `docs/guides/how-values-are-told.md`, each with a value of it. */
const TOLD = new Map<string, { readonly schema: Json; readonly example: unknown }>(
  Object.entries({
    string: { schema: { type: 'string' }, example: 'text' },
    boolean: { schema: { type: 'boolean' }, example: true },
    integer: { schema: { type: 'integer', minimum: -(2 ** 31), maximum: 2 ** 31 - 1 }, example: 7 },
    long: {
      schema: {
        anyOf: [
          { type: 'integer', minimum: -MAX_NUMBER, maximum: MAX_NUMBER },
          { type: 'string', pattern: '^-?[0-9]{16,19}$', description: 'Beyond ±(2^53−1).' },
        ],
      },
      example: 7,
    },
    float: { schema: DOUBLE, example: 0.5 },
    double: { schema: DOUBLE, example: 0.5 },
    date: { schema: { type: 'string', format: 'date', pattern: `^${DATE}$` }, example: '2026-01-08' },
    timestamp: { schema: { type: 'string', pattern: `^${DATE}T${TIME}$` }, example: '2026-01-08T12:00:00.000000' },
    timestamptz: {
      schema: { type: 'string', format: 'date-time', pattern: `^${DATE}T${TIME}Z$` },
      example: '2026-01-08T12:00:00.000000Z',
    },
    uuid: { schema: { type: 'string', format: 'uuid' }, example: '6ba7b810-9dad-11d1-80b4-00c04fd430c8' },
    binary: { schema: { type: 'string', contentEncoding: 'base64' }, example: 'AAEC' },
    json: { schema: {}, example: { any: 'JSON' } },
  }),
)

function toldOf(type: string): { readonly schema: Json; readonly example: unknown } {
  const scale = /^decimal\(\d+,\s*(\d+)\)$/.exec(type)?.[1]
  if (scale !== undefined) {
    const digits = Number(scale)
    const fraction = digits === 0 ? '' : `\\.[0-9]{${digits}}`
    const example = digits === 0 ? '12' : `12.${'50'.padEnd(digits, '0').slice(0, digits)}`
    return { schema: { type: 'string', pattern: `^-?[0-9]+${fraction}$` }, example }
  }
  return TOLD.get(typeName(type as LogicalType)) ?? { schema: {}, example: 'any' }
}

export function valueSchema({ type, nulls }: Pick<ShownColumn, 'type' | 'nulls'>): Json {
  if (nulls === 'only') return { type: 'null' }
  const { schema } = toldOf(type)
  if (nulls === 'none' || Object.keys(schema).length === 0) return schema
  return { anyOf: [...((schema['anyOf'] as readonly Json[] | undefined) ?? [schema]), { type: 'null' }] }
}

const MASKED_EXAMPLES: ReadonlyMap<string, unknown> = new Map(
  Object.entries({
    hash: 'fcd07ad601e1779a2f44e6a7ab105041',
    redact: '[redacted]',
    partial: '******text',
  }),
)

export function exampleValue({ type, nulls, mask }: ShownColumn): unknown {
  if (nulls === 'only') return null
  const isText = typeName(type as LogicalType) === 'string'
  return isText && mask !== null ? (MASKED_EXAMPLES.get(mask) ?? 'text') : toldOf(type).example
}

/** A row of more would hide the document behind its examples. */
const MOST_IN_EXAMPLE = 50

/** Tools that look for references do so in examples, too: a value called so would be taken for one. */
export function exampleRow(columns: readonly ShownColumn[]): Json {
  const shown = columns.filter(({ name }) => name !== '$ref').slice(0, MOST_IN_EXAMPLE)
  return Object.fromEntries(shown.map((column) => [column.name, exampleValue(column)]))
}

/** @param id name of the component */
export function rowSchema(id: string, columns: readonly ShownColumn[], words: ProductWords): TSchema {
  return Type.Unsafe({
    $id: id,
    type: 'object',
    required: columns.map(({ name }) => name),
    properties: propertiesOf(columns, words),
  })
}

/** Where the request names columns. */
export function partSchema(id: string, columns: readonly ShownColumn[], words: ProductWords): TSchema {
  return Type.Unsafe({
    $id: id,
    type: 'object',
    description: 'Of the columns that were asked for.',
    properties: propertiesOf(columns, words),
  })
}

function propertiesOf(columns: readonly ShownColumn[], words: ProductWords): Json {
  return Object.fromEntries(
    columns.map((column) => {
      return [column.name, { ...valueSchema(column), description: describingText(columnWords(column, words)) }]
    }),
  )
}
