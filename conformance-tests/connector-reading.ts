/** A connector's events, gathered: its rows as values, whichever way they came. */
import {
  type ConnectorState,
  type LogicalType,
  type ReadEvent,
  type Row,
  rowsOf,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'
import { CheckFailure } from './check.ts'
import { expectWholeBatch } from './whole-batch.ts'

export interface GivenState {
  readonly state: ConnectorState
  /** As the event counts. */
  readonly rows: number
  /** As they came since the former state. */
  readonly counted: number
  /** All rows before it. */
  readonly rowsBefore: number
}

export interface Gathered {
  readonly schema: TableSchema
  /** Whether the read has said that it brings every row of the table. */
  readonly whole: boolean
  readonly rows: readonly Row[]
  /** Of each row, where the read has said that it gives them: the names of the columns that it is marked to lack. */
  readonly marks: readonly (readonly string[])[] | null
  readonly rejects: number
  /** Of those, values whose row came. */
  readonly carried: number
  readonly states: readonly GivenState[]
  /** The last state. */
  readonly state: ConnectorState
  readonly kinds: readonly ReadEvent['kind'][]
  /** Rows of the largest batch, bytes of the largest chunk. */
  readonly largest: { readonly rows: number; readonly bytes: number }
}

/** Reads to the end. Throws a CheckFailure where there is no schema or no state. */
export async function gather(events: AsyncIterable<ReadEvent>): Promise<Gathered> {
  const kinds: ReadEvent['kind'][] = []
  const rows: Row[] = []
  const states: GivenState[] = []
  const largest = { rows: 0, bytes: 0 }
  let schema: TableSchema | null = null
  let csv = ''
  let whole = false
  let marks = false
  let carried = 0
  let rejects = 0
  let counted = 0
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for await (const event of events) {
    kinds.push(event.kind)
    if (event.kind === 'schema') {
      schema = event.schema
      whole = event.whole === true
      marks = event.marks === true
    }
    if (event.kind === 'reject') rejects += 1
    if (event.kind === 'reject' && event.carried === true) carried += 1
    if (event.kind === 'batch') {
      expectWholeBatch(
        event.batch,
        schema === null ? null : schema.columns.length + (marks ? 1 : 0),
        'connector.read, a batch',
      )
      rows.push(...rowsOf(event.batch))
      largest.rows = Math.max(largest.rows, event.batch.rowCount)
    }
    if (event.kind === 'csv') {
      largest.bytes = Math.max(largest.bytes, event.chunk.byteLength)
      csv += decoder.decode(event.chunk, { stream: true })
    }
    if (event.kind === 'state') {
      rows.push(...csvRows(csv, schema))
      csv = ''
      states.push({ state: event.state, rows: event.rows, counted: rows.length - counted, rowsBefore: rows.length })
      counted = rows.length
    }
  }
  const last = states.at(-1)
  if (schema === null || !last || csv !== '' || kinds[0] !== 'schema' || kinds.at(-1) !== 'state')
    throw malformed(kinds)
  const width = schema.columns.length
  return {
    ...{ schema, whole, rejects, carried, states, state: last.state, kinds, largest },
    rows: marks ? rows.map((row) => row.slice(0, width)) : rows,
    marks: marks ? rows.map((row) => markOf(row, width)) : null,
  }
}

function markOf(row: Row, width: number): readonly string[] {
  const mark = row[width] ?? null
  if (mark === null) return []
  try {
    const names: unknown = JSON.parse(String(mark))
    if (Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === 'string')) return names
  } catch {
    // Below.
  }
  throw new CheckFailure({
    what: 'the mark of a row is no JSON array of names of columns',
    where: 'the last cell of a row of connector.read',
    why: 'products that use one of these columns are made without the row',
    remedy: 'Give JSON.stringify of the names, and null for a row that lacks nothing.',
  })
}

function malformed(kinds: readonly string[]): CheckFailure {
  return new CheckFailure({
    what: 'the events of a read do not stand in their order',
    expected: 'schema, then rows, then state',
    came:
      kinds.length > 8
        ? `${kinds.slice(0, 4).join(', ')} … ${kinds.slice(-3).join(', ')}`
        : kinds.join(', ') || 'nothing',
    where: 'connector.read',
    why: 'a read begins with its schema and ends with the state from which the next one goes on',
    remedy: 'Yield the schema first, then rows, and a state last; also where there is nothing to read.',
  })
}

/** RFC 4180 as the contract narrows it: every value quoted, null empty, a line feed after every row. */
export function csvRows(text: string, schema: TableSchema | null): readonly Row[] {
  const rows: Row[] = []
  const cell = /(?:"((?:[^"]|"")*)")?([,\n])/y
  let row: Value[] = []
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex
    const match = cell.exec(text)
    if (!match) throw new CheckFailure({ ...NO_CSV, where: `character ${at} of a read's CSV` })
    const type = schema?.columns[row.length]?.type ?? 'string'
    row.push(match[1] === undefined ? null : valueOf(type, match[1].replaceAll('""', '"')))
    if (match[2] !== '\n') continue
    rows.push(row)
    row = []
  }
  return rows
}

const NO_CSV = {
  what: 'a chunk holds something other than the contract’s CSV',
  why: 'the lake’s engine reads it as it comes',
  remedy: 'Quote every value, double quotes within, leave null empty, end every row with a line feed.',
}

export function valueOf(type: LogicalType, text: string): Value {
  switch (typeName(type)) {
    case 'boolean':
      return text === 't'
    case 'integer':
    case 'float':
    case 'double':
      return Number(text)
    case 'long':
      return BigInt(text)
    case 'timestamp':
      return instantOf(text)
    case 'timestamptz':
      return `${instantOf(text.replace(/(\+00(:00)?|Z)$/, ''))}Z`
    case 'binary':
      return Buffer.from(text.slice(2), 'hex')
    default:
      return text
  }
}

/** ISO with a T and microseconds. */
function instantOf(text: string): string {
  const [whole = '', fraction = ''] = text.replace(' ', 'T').split('.')
  return `${whole}.${fraction.padEnd(6, '0')}`
}
