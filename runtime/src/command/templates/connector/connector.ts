import {
  batchFromRows,
  type CheckReport,
  type Connector,
  type ConnectorState,
  type DiscoveredTable,
  type DiscoverPage,
  type ReadEvent,
  type ReadRequest,
  SluiceError,
} from '@sluice/sdk'
import type { Source, SourceTable } from './source.ts'

/** The one schema that tables stand in. */
const SCHEMA = 'main'
const BATCH_ROWS = 1000
const STATE_VERSION = 1

/** What a state says: which table it is of, and up to which change that was read. */
interface Position {
  readonly shape: number
  readonly upTo: number
}

export function openConnector(source: Source): Connector {
  return {
    check: async (signal) => checked(source, signal),
    discover: async (page, signal) => listed(source, page, signal),
    read: (request) => read(source, request),
    // Nothing at the source waits for being told.
    async ack() {},
    async close() {},
  }
}

/** Steps that this source does not have are left out: there is no name to resolve, and nobody to log in. */
function checked(source: Source, signal: AbortSignal): CheckReport {
  stopIfAborted(signal)
  const isThere = source.names().length > 0
  const step = isThere
    ? { name: 'privileges' as const, ok: true, message: 'there are tables to read' }
    : { name: 'privileges' as const, ok: false, message: 'there is no table', remedy: 'Name a source that has one.' }
  return { ok: isThere, steps: [step], latencyMs: 0 }
}

function listed(
  source: Source,
  { after, limit }: { readonly after: string | null; readonly limit: number },
  signal: AbortSignal,
): DiscoverPage {
  stopIfAborted(signal)
  if (after !== null && !after.startsWith('after:')) throw invalid('the position in the list is none of this connector')
  const names = source.names().filter((name) => after === null || `after:${name}` > after)
  const page = names.slice(0, limit)
  const tables = page.map((name) => described(name, tableOf(source, SCHEMA, name)))
  return { tables, next: names.length > page.length ? `after:${page.at(-1)}` : null }
}

function described(name: string, { schema, rows }: SourceTable): DiscoveredTable {
  const columns = schema.columns.map((column) => ({ ...column, sourceType: column.type }))
  const { primaryKey } = schema
  return { schema: SCHEMA, name, kind: 'table', estimatedRows: rows.length, primaryKey, columns, suggestedCursor: null }
}

/** One table as it is when the read begins. */
async function* read(source: Source, request: ReadRequest): AsyncGenerator<ReadEvent> {
  stopIfAborted(request.signal)
  if (request.mode !== 'full' && request.mode !== 'incremental') {
    throw new SluiceError('UNSUPPORTED', 'this connector does not read by that mode', { code: 'unsupported' })
  }
  const table = tableOf(source, request.schema, request.table)
  const upTo = source.change
  const former = request.mode === 'full' ? null : positionOf(request.state, table)
  const { indexes, schema } = projection(table, request)
  // Without a position to go on from every row comes, and replaces what was read before.
  const isWhole = request.mode === 'incremental' && request.state !== null && former === null
  yield { kind: 'schema', schema, ...(isWhole ? { whole: true } : {}) }
  const found = table.rows.filter(({ change }) => former === null || change > former.upTo)
  for (let from = 0; from < found.length; from += BATCH_ROWS) {
    stopIfAborted(request.signal)
    const page = found.slice(from, from + BATCH_ROWS).map(({ row }) => indexes.map((index) => row[index] ?? null))
    yield { kind: 'batch', batch: batchFromRows(page, indexes.length) }
  }
  stopIfAborted(request.signal)
  const isNothingNew = former !== null && found.length === 0 && request.state !== null
  const next: ConnectorState = { version: STATE_VERSION, value: { shape: table.shape, upTo } }
  yield { kind: 'state', state: isNothingNew ? request.state : next, rows: found.length }
}

/** Null where everything has to be read: at the first time, and where the table is another one by now. */
function positionOf(state: ConnectorState | null, { shape }: SourceTable): Position | null {
  if (state === null) return null
  const { shape: ofShape, upTo } = state.value as Partial<Position>
  if (state.version !== STATE_VERSION || typeof upTo !== 'number' || typeof ofShape !== 'number') {
    throw new SluiceError('CONFIG', 'the saved position was not written by this version', {
      code: 'source_state_unknown',
      remedy: 'Read the table once in full.',
    })
  }
  return ofShape === shape ? { shape, upTo } : null
}

function projection({ schema }: SourceTable, { columns: wanted, primaryKey, cursorColumn }: ReadRequest) {
  const names = wanted.length > 0 ? wanted : schema.columns.map(({ name }) => name)
  const isThere = (name: string) => schema.columns.some((column) => column.name === name)
  if (![...names, ...primaryKey, ...(cursorColumn === null ? [] : [cursorColumn])].every(isThere)) {
    throw invalid('a column that was asked for is not there')
  }
  const key = primaryKey.length > 0 ? primaryKey : schema.primaryKey
  if (primaryKey.some((name) => !names.includes(name))) throw invalid('the key names a column that is not read')
  const indexes = names.map((name) => schema.columns.findIndex((column) => column.name === name))
  const columns = indexes.flatMap((index) => schema.columns[index] ?? [])
  return { indexes, schema: { columns, primaryKey: key.filter((name) => names.includes(name)) } }
}

function tableOf(source: Source, schema: string, name: string): SourceTable {
  const table = schema === SCHEMA ? source.table(name) : undefined
  if (table) return table
  throw invalid('there is no such table')
}

function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the caller has left', { code: 'aborted' })
}

function invalid(message: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'source_request_invalid', remedy: 'Discover again.' })
}
