import {
  batchFromRows,
  type Connector,
  type ConnectorState,
  compareAs,
  type DiscoveredTable,
  type ReadEvent,
  type ReadRequest,
  type Row,
  SluiceError,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import type { Source, SourceTable } from './source.ts'

/** The one schema that tables stand in. */
const SCHEMA = 'main'
const BATCH_ROWS = 1000

export function openConnector(source: Source): Connector {
  return {
    async check() {
      return { ok: true, steps: [{ name: 'privileges', ok: true, message: 'the source can be read' }], latencyMs: 0 }
    },

    async discover({ after, limit }) {
      const names = source.names().filter((name) => after === null || name > after)
      const tables = names.slice(0, limit).map((name) => described(name, tableOf(source, name)))
      return { tables, next: names.length > limit ? (names[limit - 1] ?? null) : null }
    },

    read: (request) => read(tableOf(source, request.table), request),

    // Nothing at the source waits for being told.
    async ack() {},

    async close() {},
  }
}

function described(name: string, { schema, rows }: SourceTable): DiscoveredTable {
  const columns = schema.columns.map((column) => ({ ...column, sourceType: column.type }))
  const { primaryKey } = schema
  return { schema: SCHEMA, name, kind: 'table', estimatedRows: rows.length, primaryKey, columns, suggestedCursor: null }
}

async function* read({ schema, rows }: SourceTable, request: ReadRequest): AsyncGenerator<ReadEvent> {
  const projected = projection(schema, request.columns)
  yield { kind: 'schema', schema: projected }
  const found = request.mode === 'full' ? rows : newRows(schema, rows, request)
  for (let from = 0; from < found.length; from += BATCH_ROWS) {
    if (request.signal.aborted)
      throw new SluiceError('TRANSIENT', 'the read was ended by its caller', { code: 'aborted' })
    const page = found
      .slice(from, from + BATCH_ROWS)
      .map((row) => projected.columns.map(({ name }) => cellOf(schema, row, name)))
    yield { kind: 'batch', batch: batchFromRows(page, projected.columns.length) }
  }
  yield { kind: 'state', state: stateAfter(schema, found, request), rows: found.length }
}

function projection(schema: TableSchema, names: readonly string[]): TableSchema {
  if (names.length === 0) return schema
  const columns = names.map((name) => schema.columns.find((column) => column.name === name))
  if (columns.includes(undefined)) throw invalidColumn()
  return { columns: columns.filter((column) => column !== undefined), primaryKey: schema.primaryKey }
}

/** Rows whose cursor is above the state's. A row with no cursor can never be found again, so it comes every time. */
function newRows(schema: TableSchema, rows: readonly Row[], { cursorColumn, state }: ReadRequest): readonly Row[] {
  const column = schema.columns.find(({ name }) => name === cursorColumn)
  if (column === undefined) throw invalidColumn()
  const last = state?.value['cursor']
  if (typeof last !== 'string') return rows
  const from = column.type === 'long' ? BigInt(last) : column.type === 'integer' ? Number(last) : last
  return rows.filter((row) => {
    const cell = cellOf(schema, row, column.name)
    return cell === null || compareAs(column.type, cell, from) > 0
  })
}

/** The same state where nothing new was found: a state never goes back, and never becomes empty. */
function stateAfter(schema: TableSchema, found: readonly Row[], request: ReadRequest): ConnectorState {
  const column = schema.columns.find(({ name }) => name === request.cursorColumn)
  if (request.mode === 'full' || column === undefined) return { version: 1, value: {} }
  const cells = found.map((row) => cellOf(schema, row, column.name)).filter((cell) => cell !== null)
  const highest = cells.reduce<Value>(
    (high, cell) => (high === null || compareAs(column.type, cell, high) > 0 ? cell : high),
    null,
  )
  return highest === null
    ? (request.state ?? { version: 1, value: {} })
    : { version: 1, value: { cursor: String(highest) } }
}

function cellOf(schema: TableSchema, row: Row, name: string): Value {
  return row[schema.columns.findIndex((column) => column.name === name)] ?? null
}

function tableOf(source: Source, name: string): SourceTable {
  const table = source.table(name)
  if (table) return table
  throw new SluiceError('CONFIG', 'there is no such table', { code: 'table_not_found', remedy: 'Discover again.' })
}

function invalidColumn(): SluiceError {
  return new SluiceError('CONFIG', 'a column that was asked for is not there', {
    code: 'source_column_missing',
    remedy: 'Discover again.',
  })
}
