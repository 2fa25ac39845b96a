/** A route of the whole interface, narrowed to one product and to what its reader is shown of it. */
import { type TObject, type TSchema, Type } from 'typebox'
import type { ReadableWays } from '../../operations/products/readable-ways.ts'
import type { ShownColumn } from '../../operations/products/readings.ts'
import type { OperationExample } from '../example.ts'
import type { Route } from '../route.ts'
import { ReadResult } from '../routes/answers/reads.ts'
import { describingText } from './describing-text.ts'
import { exampleRow, exampleValue, partSchema, rowSchema } from './row-schemas.ts'

export interface NarrowedOperation {
  /** With the address, the parameters and the answer of the product. */
  readonly route: Route
  readonly example: OperationExample
  /** Of a stream: what the data of its events are. OpenAPI 3.1 has no words for them. */
  readonly events?: Readonly<Record<string, TSchema>>
}

/** The product that operations are narrowed to. */
export interface About extends ReadableWays {
  /** Namespace and name. */
  readonly full: string
}

/** Rows of some kind, and their columns. */
export interface Rows {
  readonly schema: TSchema
  readonly shown: readonly ShownColumn[]
}

/** Whole, or of the columns that were asked for. @param id name of the component */
export function rowsOf(id: string, shown: readonly ShownColumn[], { described: { words } }: About): Rows {
  return { schema: Type.Unsafe({ anyOf: [rowSchema(id, shown, words), partSchema(`${id}Part`, shown, words)] }), shown }
}

/** Rows of the version in service, as queries and time ranges give them. */
export const productRows = (about: About): Rows => rowsOf('Row', about.readings.row, about)

type Parameters = Readonly<Record<string, TSchema | null>>

/** At the product’s own path, with these parameters in the place of the route’s; null: without it. */
export function narrowed(route: Route, { full }: About, changed: Parameters): Route {
  const { params: _, ...rest } = route
  const end = route.path.slice(route.path.lastIndexOf('/') + 1)
  const required = requiredIn(route.query)
  const all: Parameters = { ...route.query?.properties, ...changed, namespace: null }
  const kept = Object.entries(all).flatMap(([name, one]) => {
    return one === null ? [] : [[name, required.includes(name) ? one : Type.Optional(one)] as const]
  })
  const query = Type.Object(Object.fromEntries(kept), { additionalProperties: false })
  return { ...rest, path: `/api/v1/products/${full}/${end}`, query: query as TObject }
}

const requiredIn = (object: TObject | undefined): readonly string[] => object?.required ?? []

/** The route with rows of the product in its answer. */
export function answering(route: Route, rows: TSchema): Route {
  const { data: _, ...rest } = ReadResult.properties
  const schema = Type.Object({ data: Type.Array(rows), ...rest })
  return { ...route, responses: { 200: { ...route.responses[200], description: 'Rows in data.', schema } } }
}

export function answerExample(rows: readonly ShownColumn[], about: About, store: string) {
  return { 200: { data: [exampleRow(rows)], meta: metaExample(about, store), next_cursor: null } }
}

export function metaExample({ described: { schema, words }, readings }: About, store: string) {
  const masked = readings.row.filter(({ mask }) => mask !== null)
  return {
    product: schema.name,
    namespace: schema.namespace,
    version: words.version,
    epoch: 1,
    snapshot_id: '7533507713999006',
    as_of: '2026-03-02T08:15:03.000Z',
    masked_columns: masked.map(({ name }) => name),
    store,
    freshness: { read_at: '2026-03-02T08:14:58.000Z' },
  }
}

/** The names are a list with commas, and blanks around them do not count. */
const canBeListed = ({ name }: ShownColumn): boolean => !name.includes(',') && name === name.trim()
/** The first colon ends the column, and a dot begins the operator. */
const canBeFiltered = ({ name }: ShownColumn): boolean => !/[:.]/.test(name)

export function columnsParameter(shown: readonly ShownColumn[]): TSchema | null {
  const names = shown.filter(canBeListed).map(({ name }) => name)
  if (names.length === 0) return null
  const description = 'Default: all.'
  return Type.Unsafe({ type: 'array', minItems: 1, uniqueItems: true, items: { enum: names }, description })
}

const OPERATORS = '(\\.(lt|le|gt|ge|ne|eq|in))?'

export function filterParameter(columns: readonly ShownColumn[]): TSchema | null {
  const named = columns.filter(canBeFiltered)
  if (named.length === 0) return null
  const names = named.map(({ name }) => name.replace(/[\^$\\.*+?()[\]{}|/]/g, '\\$&'))
  return Type.Unsafe({
    type: 'array',
    maxItems: 20,
    items: { type: 'string', maxLength: 2000, pattern: `^(${names.join('|')})${OPERATORS}:` },
    description: `<column>:<value>, or <column>.<operator>:<value> with lt, le, gt, ge, ne, eq, or in, whose values are comma-separated. Repeats are joined by AND. Of ${quotedNames(named)}.`,
  })
}

export function filterExample(columns: readonly ShownColumn[]): Readonly<Record<string, unknown>> {
  const [first] = columns.filter(canBeFiltered)
  return first === undefined ? {} : { filter: [`${first.name}:${exampleValue(first)}`] }
}

/** More would not be read. */
const MOST_NAMED = 30

export function quotedNames(columns: readonly ShownColumn[]): string {
  const names = columns.slice(0, MOST_NAMED).map(({ name }) => `"${describingText(name)}"`)
  return `${names.join(', ')}${columns.length > MOST_NAMED ? ` and ${columns.length - MOST_NAMED} others` : ''}`
}
