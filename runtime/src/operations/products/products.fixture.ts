/** Products as a server might answer, with names and words of somebody who means ill. */
import { LOGICAL_TYPE_NAMES } from '@sluice/sdk'
import fc from 'fast-check'
import type { ProductAnswer } from './product-schema.ts'

type ColumnAnswer = ProductAnswer['schema'][number]

export const column = (name: string, type: string, more: Partial<ColumnAnswer> = {}): ColumnAnswer => ({
  ...{ name, type, role: null, classification: 'public', nullable: true, description: null, mask: null },
  ...more,
})

export const key = (name: string, type: string, more: Partial<ColumnAnswer> = {}): ColumnAnswer =>
  column(name, type, { role: 'identity', nullable: false, ...more })

export const product = (
  full: string,
  schema: readonly ColumnAnswer[],
  endpoints: ProductAnswer['endpoints'] = [],
): ProductAnswer => ({
  ...{ namespace: full.split('.')[0] ?? '', name: full.split('.').slice(1).join('.'), description: '' },
  ...{ current_version: '1.0.0', readable: true, schema, endpoints },
})

export const TYPES = LOGICAL_TYPE_NAMES.map((name) => (name === 'decimal' ? 'decimal(12,2)' : name))

/** What ends a literal, a comment or a line somewhere, is a word of a language, is not seen, or is no text at all. */
export const PIECES = [
  ...['"', "'", '`', '\\', '\\\\', '\n', '\r\n', '\u2028', '\u2029', '\u0085', '\0', '\t', '\u001b[2J', '\u007f'],
  ...[
    '*/',
    '/*',
    '//',
    '/**',
    '*',
    '/',
    '#',
    '"""',
    "'''",
    `$${'{x}'}`,
    `$${'{'}`,
    '}',
    '{',
    '<!--',
    '-->',
    '</script>',
    ';',
  ],
  ...['@ts-ignore', '@ts-expect-error', '@ts-nocheck', '@deprecated', 'type: ignore', 'coding: utf-7', 'noqa'],
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'class', 'None', 'def', 'lambda', 'self'],
  ...['import', 'await', 'yield', 'never', 'any', 'Long', 'Row', 'Sluice', 'Products', 'Lookup', 'Optional', 'Literal'],
  ...[
    'é',
    'e\u0301',
    'ö',
    '😀',
    '\u202e',
    '\u200b',
    '\ufeff',
    '\ud800',
    '\udc00',
    '𝒳',
    'ﬁ',
    '१',
    '0',
    '9',
    '_',
    '-',
    ' ',
  ],
  ...['a', 'B', 'a.b', 'a_b', 'a:b', 'a,b', 'x'.repeat(300)],
] as const

const piece = fc.constantFrom(...PIECES)
export const hostileText = fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join(''))
const MASKS = [null, null, null, 'hash', 'redact', 'partial', 'null', 'omit', 'toString'] as const

const hostileColumn = fc
  .record({
    name: hostileText,
    type: fc.constantFrom(...TYPES, ...TYPES, 'toString', 'geometry', '__proto__'),
    role: fc.constantFrom(null, 'identity', 'measure'),
    classification: fc.oneof(fc.constantFrom('public', 'pii.email'), hostileText),
    nullable: fc.boolean(),
    description: fc.option(hostileText),
    mask: fc.constantFrom(...MASKS),
  })
  .map((one) => ({ ...one, nullable: one.nullable && one.role !== 'identity' }))

export const hostileProduct: fc.Arbitrary<ProductAnswer> = fc
  .record({
    namespace: hostileText,
    name: hostileText,
    description: hostileText,
    current_version: hostileText,
    readable: fc.constant(true),
    schema: fc.uniqueArray(hostileColumn, { selector: ({ name }) => name, maxLength: 8 }),
    history: fc.constantFrom('current', 'type_2', 'type_3'),
    interval: hostileText,
  })
  .map(({ history, interval, ...rest }) => {
    const names = rest.schema.map(({ name }) => name)
    const tracked = rest.schema.filter(({ role }) => role !== 'identity').map(({ name }) => name)
    return {
      ...rest,
      endpoints: [
        { type: 'lookup', config: { index_columns: names, history_mode: history, tracked_columns: tracked } },
        { type: 'realtime', config: { key_template: 'k:{id}', include_columns: names.slice(1) } },
        { type: 'timeseries', config: { continuous_aggregates: [{ interval, columns: [] }] } },
      ],
    }
  })

/** Of these each has a name of its own, whatever it is made of. */
export const hostileProducts = (count: number): readonly ProductAnswer[] => {
  const some = fc.sample(hostileProduct, { numRuns: count, seed: 20_261 })
  return [...new Map(some.map((one) => [`${one.namespace}.${one.name}`, one])).values()]
}
