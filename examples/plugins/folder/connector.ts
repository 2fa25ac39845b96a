/** What the runtime asks of a folder. */
import {
  batchFromRows,
  type CheckReport,
  type Connector,
  type DiscoveredTable,
  type DiscoverPage,
  isSluiceError,
  type ReadEvent,
  type ReadRequest,
  type Row,
  SluiceError,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import { valueOf } from './cells.ts'
import { type FileRecord, recordsOf } from './records.ts'
import { openTable, schemaOf, type TableFile, tablesIn } from './tables.ts'

const SCHEMA = 'files'
const BATCH_ROWS = 1000
const MAX_RAW_CHARACTERS = 1000

export function openConnector(folder: string): Connector {
  return {
    check: (signal) => checked(folder, signal),
    discover: (page, signal) => listed(folder, page, signal),
    read: (request) => read(folder, request),
    // A file waits for nobody.
    async ack() {},
    async close() {},
  }
}

async function checked(folder: string, signal: AbortSignal): Promise<CheckReport> {
  stopIfAborted(signal)
  const startedMs = Date.now()
  const step = await tablesIn(folder).then(
    (tables) =>
      tables.length > 0
        ? { ok: true, message: `the folder has ${tables.length} tables` }
        : { ok: false, message: 'the folder has no table', remedy: 'Put name.csv and name.schema.json there.' },
    () => ({ ok: false, message: 'the folder cannot be read', remedy: 'Name one that is there, and let us read it.' }),
  )
  stopIfAborted(signal)
  return { ok: step.ok, steps: [{ name: 'privileges', ...step }], latencyMs: Date.now() - startedMs }
}

async function listed(
  folder: string,
  { after, limit }: { readonly after: string | null; readonly limit: number },
  signal: AbortSignal,
): Promise<DiscoverPage> {
  stopIfAborted(signal)
  if (after !== null && !after.startsWith('after:')) throw invalid('the position in the list is none of this connector')
  const all = await tablesOf(folder)
  const rest = all.filter(({ name }) => after === null || name > after.slice('after:'.length))
  const tables: DiscoveredTable[] = []
  for (const table of rest.slice(0, limit)) {
    stopIfAborted(signal)
    tables.push(described(table, await schemaOf(table)))
  }
  return { tables, next: rest.length > tables.length ? `after:${tables.at(-1)?.name}` : null }
}

function described({ name, format }: TableFile, { columns, primaryKey }: TableSchema): DiscoveredTable {
  return {
    ...{ schema: SCHEMA, name, kind: 'table', estimatedRows: null, primaryKey, suggestedCursor: null },
    columns: columns.map((column) => ({ ...column, sourceType: `${format} ${column.type}` })),
  }
}

/** Of the file that is there when the read begins: one that takes its place meanwhile is another file. */
async function* read(folder: string, request: ReadRequest): AsyncGenerator<ReadEvent> {
  const { mode, signal } = request
  stopIfAborted(signal)
  if (mode !== 'full') throw new SluiceError('UNSUPPORTED', 'files are read in full alone', { code: 'unsupported' })
  const table = (await tablesOf(folder)).find(({ name }) => request.schema === SCHEMA && name === request.table)
  if (table === undefined) throw invalid('there is no such table')
  const { file, schema: whole } = await openTable(table)
  try {
    const { indexes, schema } = projection(whole, request)
    yield { kind: 'schema', schema }
    let rows: Row[] = []
    let count = 0
    for await (const record of recordsOf(file, table.format, whole)) {
      stopIfAborted(signal)
      const row = rowOf(record, whole)
      if (!Array.isArray(row)) yield { kind: 'reject', raw: record.raw.slice(0, MAX_RAW_CHARACTERS), ...row }
      else if (rows.push(indexes.map((index) => row[index] ?? null)) === BATCH_ROWS) {
        count += rows.length
        yield { kind: 'batch', batch: batchFromRows(rows, indexes.length) }
        rows = []
      }
    }
    if (rows.length > 0) yield { kind: 'batch', batch: batchFromRows(rows, indexes.length) }
    stopIfAborted(signal)
    yield { kind: 'state', state: { version: 1, value: { read: 'in full' } }, rows: count + rows.length }
  } finally {
    await file.close()
  }
}

/** The row's values, or why it cannot be carried. */
function rowOf({ cells }: FileRecord, { columns }: TableSchema): Value[] | { reason: string; column: string } {
  const row: Value[] = []
  for (const [index, { name, type, nullable }] of columns.entries()) {
    const text = cells[index] ?? null
    const value = text === null ? null : valueOf(type, text)
    if (value === undefined) return { reason: `it is no ${type}`, column: name }
    if (value === null && !nullable) return { reason: 'it is missing', column: name }
    row.push(value)
  }
  return row
}

function projection({ columns, primaryKey }: TableSchema, { columns: wanted, ...request }: ReadRequest) {
  const names = wanted.length > 0 ? wanted : columns.map(({ name }) => name)
  const indexes = names.map((name) => columns.findIndex((column) => column.name === name))
  if (indexes.includes(-1)) throw invalid('a column that was asked for is not there')
  if (request.primaryKey.some((name) => !names.includes(name))) throw invalid('the key names a column that is not read')
  const key = request.primaryKey.length > 0 ? request.primaryKey : primaryKey
  return {
    indexes,
    schema: {
      columns: indexes.flatMap((index) => columns[index] ?? []),
      primaryKey: key.filter((name) => names.includes(name)),
    },
  }
}

async function tablesOf(folder: string): Promise<readonly TableFile[]> {
  try {
    return await tablesIn(folder)
  } catch (error) {
    if (isSluiceError(error)) throw error
    throw new SluiceError('TRANSIENT', 'the folder cannot be read', {
      code: 'source_unreachable',
      remedy: 'Name a folder that is there, and let the runtime read it.',
      cause: error,
    })
  }
}

function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the caller has left', { code: 'aborted' })
}

function invalid(message: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'source_request_invalid', remedy: 'Discover again.' })
}
