/** Whether rows that were put aside can be carried by the columns of today, and how they are written then. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Column, type LogicalType, type TableSchema, type ValueReader, valueReader } from '@sluice/sdk'
import type { ReplayableRow, StillRefused } from '../../registry/quarantine-replay.ts'

export interface JudgedRows {
  /** CSV: the row's place in `ids`, then a cell for each column. */
  readonly csv: string
  /** In the order of the rows. */
  readonly ids: readonly string[]
  readonly refused: readonly StillRefused[]
}

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
  const ids: string[] = []
  const lines: string[] = []
  const refused: StillRefused[] = []
  for (const row of rows) {
    await nextTurn()
    signal.throwIfAborted()
    const found = judge(row, read)
    if (typeof found === 'string') lines.push(`"${ids.push(row.id) - 1}",${found}\n`)
    else refused.push({ id: row.id, ...found })
  }
  return { csv: lines.join(''), ids, refused }
}

const readColumn = ({ name, type }: Column, primaryKey: readonly string[]): ReadColumn => ({
  ...{ name, type, isKey: primaryKey.includes(name), reader: valueReader(type) },
})

function judge({ whole }: ReplayableRow, columns: readonly ReadColumn[]): string | Omit<StillRefused, 'id'> {
  const cells: string[] = []
  for (const { name, type, isKey, reader } of columns) {
    const text = Object.hasOwn(whole.texts, name) ? (whole.texts[name] ?? null) : null
    if (text === null) {
      if (isKey) return { column: name, reason: 'it is missing' }
      cells.push('')
      continue
    }
    if ((type === 'json') !== whole.json.includes(name)) return { column: name, reason: OTHERWISE_WRITTEN }
    const cell = reader(text)
    if (cell === null) return { column: name, reason: `it is no ${type}` }
    cells.push(`"${cell.replaceAll('"', '""')}"`)
  }
  return cells.join(',')
}

const OTHERWISE_WRITTEN = 'the column is json now and was not, or was and is not: how its source wrote it is not kept'
