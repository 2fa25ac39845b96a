/** Whether rows that were put aside can be carried by the columns of today, and how they are written then. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Column, type LogicalType, type TableSchema, type ValueReader, valueReader } from '@sluice/sdk'
import type { WholeRow } from '../../registry/quarantine.ts'
import type { ReplayableRow, StillRefused } from '../../registry/quarantine-replay.ts'

export interface JudgedRows {
  /** CSV: what `OWN_COLUMNS` name, then a cell for each column of the table. */
  readonly csv: string
  /** By the places of the rows. */
  readonly rows: readonly ReplayableRow[]
  /** Of those that were chosen. */
  readonly refused: readonly StillRefused[]
}

/** Before the columns of the table; no source has columns of these names. */
export const OWN_COLUMNS = { place: '  place  ', chosen: '  chosen  ', lacks: '  lacks  ' } as const

interface ReadColumn {
  readonly name: string
  readonly type: LogicalType
  readonly isKey: boolean
  readonly reader: ValueReader
}

/**
 * Read as connectors read them, by the reader of the column's type. A column that the row has none of is null, one that the
 * table has no more is left out. Others have their turn between two rows: what they hold is a source's.
 */
export async function judgeRows(
  rows: readonly ReplayableRow[],
  { columns, primaryKey }: TableSchema,
  signal: AbortSignal,
): Promise<JudgedRows> {
  const read = columns.map((column) => readColumn(column, primaryKey))
  const able: ReplayableRow[] = []
  const lines: string[] = []
  const refused: StillRefused[] = []
  for (const row of rows) {
    await nextTurn()
    signal.throwIfAborted()
    const found = judge(row, read)
    if (typeof found === 'string') {
      const own = [able.push(row) - 1, row.isChosen, row.carried ? JSON.stringify(row.whole.lacks) : null]
      lines.push(`${own.map(quoted).join(',')},${found}\n`)
    } else if (row.isChosen) refused.push({ id: row.id, ...found })
  }
  return { csv: lines.join(''), rows: able, refused }
}

const readColumn = ({ name, type }: Column, primaryKey: readonly string[]): ReadColumn => ({
  ...{ name, type, isKey: primaryKey.includes(name), reader: valueReader(type) },
})

/** Of several faults its own is told, where it is one still: each value that was put aside is listed by itself. */
function judge({ whole, column }: ReplayableRow, columns: readonly ReadColumn[]): string | Omit<StillRefused, 'id'> {
  const cells: string[] = []
  const faults: Omit<StillRefused, 'id'>[] = []
  for (const { name, type, isKey, reader } of columns) {
    const text = textIn(whole, name)
    const cell = text === null ? null : reader(text)
    if (text === null && isKey) faults.push({ column: name, reason: 'it is missing' })
    else if (text !== null && (type === 'json') !== whole.json.includes(name))
      faults.push({ column: name, reason: OTHERWISE_WRITTEN })
    else if (text !== null && cell === null) faults.push({ column: name, reason: `it is no ${type}` })
    else cells.push(quoted(cell))
  }
  return faults.find((fault) => fault.column === column) ?? faults[0] ?? cells.join(',')
}

const textIn = ({ texts }: WholeRow, name: string): string | null =>
  Object.hasOwn(texts, name) ? (texts[name] ?? null) : null

const quoted = (value: string | number | boolean | null): string =>
  value === null ? '' : `"${String(value).replaceAll('"', '""')}"`

const OTHERWISE_WRITTEN = 'the column is json now and was not, or was and is not: how its source wrote it is not kept'
