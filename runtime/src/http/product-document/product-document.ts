/** The OpenAPI 3.1 document of one product, of what its reader is shown of it and may do with it. */
import { productWords } from '../../operations/products/product-words.ts'
import type { ReadableWays } from '../../operations/products/readable-ways.ts'
import type { OfferedOperation } from '../../operations/reads/read-operation.ts'
import { buildOpenApi, codesOf, hoist, type Json, type OpenApiDocument, type Operation } from '../openapi.ts'
import type { Route } from '../route.ts'
import { describingText, quietJson } from './describing-text.ts'
import { lookupOperation, realtimeOperation, timeseriesOperation } from './endpoint-operations.ts'
import { keysOperation } from './keys-operation.ts'
import type { About, NarrowedOperation } from './narrowed-operation.ts'
import { changesOperation, declaredOperation, queryOperation } from './other-operations.ts'
import { rowSchema } from './row-schemas.ts'

const WAYS: Readonly<Record<string, (route: Route, about: About) => NarrowedOperation | null>> = {
  readLookup: lookupOperation,
  readTimeseries: timeseriesOperation,
  readRealtime: realtimeOperation,
  readKeys: keysOperation,
  followChanges: changesOperation,
  query: queryOperation,
}

/** An operation that a store declares, with its route. */
export interface DeclaredRoute {
  readonly route: Route
  readonly offered: OfferedOperation
}

export interface DocumentSources {
  /** Those of the interface that the caller may ask at all. */
  readonly routes: readonly Route[]
  readonly declared: readonly DeclaredRoute[]
  /** Where clients find the server. */
  readonly url: string
}

/** As JSON text. The same for all who are shown the same. */
export function productDocument(ways: ReadableWays, sources: DocumentSources): string {
  const { schema, words } = ways.described
  const about: About = { ...ways, full: `${schema.namespace}.${schema.name}` }
  const operations = operationsOf(about, sources)
  const info = { title: about.full, version: words.version, description: descriptionOf(about), url: sources.url }
  const examples = Object.fromEntries(operations.map(({ route, example }) => [route.name, example]))
  // Where the route has an example of its own, it is of another product.
  const routes = operations.map(({ route: { example: _, ...route } }) => route)
  return quietJson(finished(buildOpenApi(routes, info, examples), operations, about))
}

function operationsOf(about: About, { routes, declared }: DocumentSources): readonly NarrowedOperation[] {
  const own = Object.entries(WAYS).flatMap(([name, way]) => {
    const route = routes.find((one) => one.name === name)
    return (route && way(route, about)) ?? []
  })
  const others = declared.filter(({ offered, route }) => about.endpoints.has(offered.type) && routes.includes(route))
  const added = others.map(({ route, offered }) => declaredOperation(route, about, offered.declared.adds ?? []))
  return [...own, ...added]
}

/** Columns that are omitted for the reader are not named to him. */
function descriptionOf({ described, readings }: About): string {
  return productWords(described, { ...readings, omitted: [] })
    .map(describingText)
    .join('\n\n')
}

/** Lists that are parted by commas, data of events, and of the table of codes what these operations answer. */
function finished(
  document: OpenApiDocument,
  operations: readonly NarrowedOperation[],
  { readings, described }: About,
): Json {
  const schemas: Record<string, Json> = { ...document.components.schemas }
  // Lines of queries are such rows, too, whatever endpoints there are.
  hoist(rowSchema('Row', readings.row, described.words), schemas)
  const paths = Object.entries(document.paths).map(([path, methods]) => {
    const made = Object.entries(methods).map(([method, operation]) => {
      const events = operations.find(({ route }) => route.name === operation.operationId)?.events
      const shown = events === undefined ? {} : { 'x-events': eventsOf(events, schemas) }
      return [method, { ...withLists(operation), ...shown }] as const
    })
    return [path, Object.fromEntries(made)] as const
  })
  const codes = new Set(operations.flatMap(({ route }) => codesOf(route)) as readonly string[])
  const errors = Object.entries(document['x-error-codes']).filter(([code]) => codes.has(code))
  return {
    ...document,
    paths: Object.fromEntries(paths),
    components: { ...document.components, schemas },
    'x-error-codes': Object.fromEntries(errors),
  }
}

const eventsOf = (events: NonNullable<NarrowedOperation['events']>, schemas: Record<string, Json>): Json =>
  Object.fromEntries(Object.entries(events).map(([event, schema]) => [event, hoist(schema, schemas)]))

function withLists(operation: Operation): Operation {
  const parameters = operation.parameters.map((one) => {
    return one.name === 'columns' ? { ...one, style: 'form', explode: false } : one
  })
  return { ...operation, parameters }
}
