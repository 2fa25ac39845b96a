/** One table, whole or from a state on, in one snapshot. */
import {
  batchFromRows,
  type ConnectorHost,
  type ConnectorState,
  type ReadEvent,
  type ReadRequest,
  type Row,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'
import type { SourceTable } from '../connector-fixture.ts'
import type { StoredRow } from './memory-source.ts'
import { stopIfAborted, visibleTables, within } from './session.ts'
import type { SourceSettings } from './settings.ts'

const VERSION = 1
const BATCH_ROWS = 5
/** Rows whose time lies so little before the last one may have come late. */
const OVERLAP_MS = 60_000

interface Position {
  readonly table: string
  readonly shape: number
  /** Of the last transaction that is wholly read. */
  readonly upTo: number
  readonly cursor: string | null
  /** By cursor: the time from which on to read. */
  readonly from: string | null
}

export function readTable(
  settings: SourceSettings,
  host: ConnectorHost,
  request: ReadRequest,
): AsyncGenerator<ReadEvent> {
  return within(settings, host, request.signal, () => stream(settings, host, request))
}

async function* stream(settings: SourceSettings, host: ConnectorHost, request: ReadRequest): AsyncGenerator<ReadEvent> {
  const table = tableOf(settings, request)
  const indexes = indexesOf(table, request)
  const columns = indexes.flatMap((index) => table.columns[index] ?? [])
  const stored = settings.source.table(table.name)
  const rows = [...(stored?.rows.values() ?? [])]
  const { horizon } = settings.source
  const shape = stored?.shape ?? 0
  const former = request.mode === 'full' ? null : positionOf(request.state, table.name, shape, request.cursorColumn)
  const position: Position = { table: table.name, shape, upTo: horizon, cursor: request.cursorColumn, from: null }
  // What it was to go on from is of another table or another shape: rows of before may be gone.
  const isWhole = request.mode === 'incremental' && request.state !== null && former === null
  const schema = { columns, primaryKey: keyOf(table, request) }
  const marks = request.marked !== undefined
  yield { kind: 'schema', schema, ...(isWhole ? { whole: true } : {}), ...(marks ? { marks } : {}) }
  const { wanted, next } = selected(rows, table, former, position, host.clock.nowMs())
  yield { kind: 'estimate', rows: wanted.length }
  const unfit = former === null ? (stored?.unfit ?? 0) : 0
  await host.faultPoint('reference.after-snapshot')
  let counted = 0
  for (let from = 0; from < wanted.length; from += BATCH_ROWS) {
    stopIfAborted(request.signal)
    const part = wanted.slice(from, from + BATCH_ROWS).map((stored) => carried(stored, schema, table, request))
    const rows = part.flatMap(({ row }) => (row === null ? [] : [row]))
    counted += rows.length
    yield { kind: 'batch', batch: batchFromRows(rows, indexes.length + (marks ? 1 : 0)) }
    for (const { reject } of part) if (reject !== null) yield reject
    await host.faultPoint('reference.after-batch')
    const done = stateWithin(request, position, wanted, from + BATCH_ROWS)
    if (done) yield { kind: 'state', state: done, rows: counted }
    if (done) counted = 0
  }
  for (let count = 0; count < unfit; count += 1)
    yield { kind: 'reject', reason: 'the value fits no type', column: columns[0]?.name ?? null }
  const isNothingNew = request.state !== null && former !== null && wanted.length === 0
  yield { kind: 'state', state: isNothingNew ? request.state : stateOf(next), rows: counted }
}

type Reject = Extract<ReadEvent, { kind: 'reject' }>

/** The row as it comes, null where it cannot, with what is said of its value that cannot be carried. */
function carried(
  { row: values, unfit }: StoredRow,
  { columns, primaryKey }: TableSchema,
  table: SourceTable,
  { marked }: ReadRequest,
): { readonly row: Row | null; readonly reject: Reject | null } {
  const valueOf = (name: string) => values[table.columns.findIndex((column) => column.name === name)] ?? null
  const isUnfit = columns.some(({ name }) => name === unfit)
  const row = columns.map(({ name }) => (name === unfit ? null : valueOf(name)))
  const mark = isUnfit ? JSON.stringify([unfit]) : null
  const comes = !isUnfit || marked?.includes(unfit as string) === true
  const key = Object.fromEntries(primaryKey.map((name) => [name, String(valueOf(name))]))
  const about = { reason: 'the value fits no type', column: unfit ?? null, key, ...(comes ? { carried: true } : {}) }
  return {
    row: comes ? [...row, ...(marked === undefined ? [] : [mark])] : null,
    reject: isUnfit ? { kind: 'reject', ...about } : null,
  }
}

/** What is read by the numbers of transactions can be gone on with from any of them that is wholly read. */
function stateWithin(
  request: ReadRequest,
  position: Position,
  wanted: readonly StoredRow[],
  upTo: number,
): ConnectorState | null {
  if (request.mode === 'full' || position.cursor !== null || upTo >= wanted.length) return null
  return stateOf({ ...position, upTo: Math.min(position.upTo, (wanted[upTo]?.written ?? 0) - 1) })
}

function selected(
  rows: readonly StoredRow[],
  table: SourceTable,
  former: Position | null,
  position: Position,
  nowMs: number,
) {
  if (position.cursor === null) {
    const wanted = former === null ? rows : rows.filter(({ written }) => written > former.upTo)
    return { wanted: wanted.toSorted((left, right) => left.written - right.written), next: position }
  }
  const index = table.columns.findIndex(({ name }) => name === position.cursor)
  const timeOf = ({ row }: StoredRow) => row[index] ?? null
  const wanted = rows.filter(
    (row) => former?.from == null || timeOf(row) === null || String(timeOf(row)) >= former.from,
  )
  const last = wanted
    .map(timeOf)
    .filter((time) => time !== null)
    .map(String)
    .sort()
    .at(-1)
  // A time ahead of the clock counts as now, lest one row hide all that follow.
  const lastMs = last === undefined ? null : Math.min(Date.parse(last), nowMs)
  const from =
    lastMs === null ? (former?.from ?? null) : new Date(lastMs - OVERLAP_MS).toISOString().replace('Z', '000Z')
  return { wanted, next: { ...position, from } }
}

function stateOf(position: Position): ConnectorState {
  return { version: VERSION, value: { ...position } }
}

/** Null where everything has to be read anew. Throws CONFIG `source_state_unknown` for what this version has not written. */
function positionOf(
  state: ConnectorState | null,
  table: string,
  shape: number,
  cursor: string | null,
): Position | null {
  if (state === null) return null
  const position = state.value as unknown as Position
  if (state.version !== VERSION || typeof position?.upTo !== 'number' || typeof position.table !== 'string') {
    throw new SluiceError('CONFIG', 'the saved position was not written by this version', {
      code: 'source_state_unknown',
      remedy: 'Read the table once in full.',
    })
  }
  return position.table === table && position.shape === shape && position.cursor === cursor ? position : null
}

function tableOf(settings: SourceSettings, { mode, schema, table: name }: ReadRequest): SourceTable {
  if (mode !== 'full' && mode !== 'incremental') {
    throw new SluiceError('UNSUPPORTED', 'this connector does not read by that mode', { code: 'unsupported' })
  }
  const table = schema === 'memory' ? visibleTables(settings).find((one) => one.name === name) : undefined
  if (table) return table
  throw invalid('source_table_missing', 'there is no such table', 'Discover the tables again.')
}

function indexesOf(table: SourceTable, { columns, cursorColumn }: ReadRequest): readonly number[] {
  const names = columns.length > 0 ? columns : table.columns.map(({ name }) => name)
  const all = [...names, ...(cursorColumn === null ? [] : [cursorColumn])]
  if (all.every((name) => table.columns.some((column) => column.name === name))) {
    return names.map((name) => table.columns.findIndex((column) => column.name === name))
  }
  throw invalid('source_column_missing', 'the table does not have all of these columns', 'Discover the table again.')
}

function keyOf(table: SourceTable, { primaryKey, columns }: ReadRequest): readonly string[] {
  const read = columns.length > 0 ? columns : table.columns.map(({ name }) => name)
  if (primaryKey.every((name) => read.includes(name))) return primaryKey.length > 0 ? primaryKey : table.primaryKey
  throw invalid('source_key_not_read', 'the key names a column that is not read', 'Read the key, or name another.')
}

function invalid(code: string, message: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code, remedy })
}
