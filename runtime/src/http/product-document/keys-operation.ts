/** `POST /read` of one product: rows by many keys. */
import { type TSchema, Type } from 'typebox'
import type { ShownColumn } from '../../operations/products/readings.ts'
import { MAX_ITEMS, MAX_KEYS } from '../../operations/reads/read-keys.ts'
import type { Route } from '../route.ts'
import { ReadKeysResult } from '../routes/answers/reads.ts'
import { ReadKeysRequest } from '../routes/requests/reads.ts'
import { lookupRows, realtimeRows } from './endpoint-operations.ts'
import { type About, metaExample, type NarrowedOperation, type Rows } from './narrowed-operation.ts'
import { exampleRow, exampleValue, valueSchema } from './row-schemas.ts'

type KeyedStore = 'lookup' | 'realtime'

export function keysOperation(route: Route, about: About): NarrowedOperation | null {
  const { lookup, realtime } = about.readings
  const stores = [
    ...(lookup === null || lookup.key === null ? [] : [itemsOf('lookup', lookup.key, lookupRows(about), about)]),
    ...(realtime === null ? [] : [itemsOf('realtime', realtime.key, realtimeRows(about), about)]),
  ]
  const [first] = stores
  if (first === undefined) return null
  const { items: _, ...rest } = ReadKeysRequest.properties
  const items = Type.Array(Type.Unsafe({ oneOf: stores.map(({ item }) => item) }), { minItems: 1, maxItems: MAX_ITEMS })
  const { meta } = ReadKeysResult.properties
  const data = Type.Array(Type.Unsafe({ anyOf: stores.map(({ answer }) => answer) }))
  const responses = {
    200: { ...route.responses[200], description: 'The items in their order.', schema: Type.Object({ data, meta }) },
  }
  return {
    route: { ...route, body: Type.Object({ items, ...rest }, { additionalProperties: false }), responses },
    example: {
      ...(first.example.item === null ? {} : { body: { items: [first.example.item] } }),
      answers: { 200: { data: [first.example.answer], meta: { consistent: true } } },
    },
  }
}

interface Items {
  readonly item: TSchema
  readonly answer: TSchema
  /** Null: it would have a value that is called as references are. */
  readonly example: { readonly item: unknown; readonly answer: unknown }
}

function itemsOf(store: KeyedStore, key: readonly ShownColumn[], { schema, shown }: Rows, about: About): Items {
  const names = shown.map(({ name }) => name)
  const item = Type.Object(
    {
      product: Type.Literal(about.full),
      store: Type.Literal(store),
      keys: Type.Array(keySchema(key, store), { minItems: 1, maxItems: MAX_KEYS }),
      columns: Type.Optional(Type.Unsafe({ type: 'array', minItems: 1, items: { enum: names } })),
    },
    { additionalProperties: false },
  )
  const { meta, error } = ReadKeysResult.properties.data.items.properties
  const answer = Type.Object({
    product: Type.Literal(about.full),
    store: Type.Literal(store),
    rows: Type.Optional(
      Type.Array(Type.Unsafe({ anyOf: [schema, { type: 'null' }] }), { description: 'In the order of the keys.' }),
    ),
    meta,
    error,
  })
  const at = { product: about.full, store }
  const asked = Object.fromEntries(key.map((column) => [column.name, exampleValue(column)]))
  const isReference = Object.hasOwn(asked, '$ref')
  const told = metaExample(about, store === 'lookup' ? 'lookup:postgresql' : 'realtime:lmdb')
  return {
    item,
    answer,
    example: {
      item: isReference ? null : { ...at, keys: [asked] },
      answer: { ...at, rows: [exampleRow(shown)], meta: told },
    },
  }
}

/** An object with the key’s values. Of a lookup by one column its value may stand for it. */
function keySchema(key: readonly ShownColumn[], store: KeyedStore): TSchema {
  const whole = {
    type: 'object',
    required: key.map(({ name }) => name),
    properties: Object.fromEntries(key.map((column) => [column.name, valueSchema(column)])),
    additionalProperties: false,
  }
  const [only] = key.length === 1 && store === 'lookup' ? key : []
  return Type.Unsafe(only === undefined ? whole : { anyOf: [valueSchema(only), whole] })
}
