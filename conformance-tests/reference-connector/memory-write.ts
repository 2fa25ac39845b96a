/** What one statement makes of a table, and what the log tells of it. */
import type { Row } from '@sluice/sdk'
import { keyText } from '../compare.ts'
import type { SourceWrite } from '../log-fixture.ts'
import type { LogEntry } from './memory-log.ts'
import type { StoredRow, StoredTable } from './memory-source.ts'

/** Texts from this length on stand in the log only where they are written. */
export const LEFT_OUT_CHARACTERS = 1000

export interface Written {
  readonly table: StoredTable
  readonly entries: readonly LogEntry[]
}

export function written(of: StoredTable, write: SourceWrite, number: number): Written {
  const rows = new Map(of.rows)
  const entries = entriesOf(of, rows, write, number)
  return { table: { ...of, rows }, entries }
}

function entriesOf(
  of: StoredTable,
  rows: Map<string, StoredRow>,
  write: SourceWrite,
  number: number,
): readonly LogEntry[] {
  const { table } = of
  const put = (row: Row): void => {
    if (rows.has(keyText(table, row))) throw new Error(`${table.name} has a row of this key`)
    rows.set(keyText(table, row), { row, written: number })
  }
  const take = (row: Row): Row => {
    const there = rows.get(keyText(table, row))
    if (there === undefined) throw new Error(`${table.name} has no row of this key`)
    rows.delete(keyText(table, row))
    return there.row
  }
  const gone = (row: Row): LogEntry => ({ kind: 'row', op: 'd', of, row, unchanged: [], from: null })
  switch (write.kind) {
    case 'insert':
      for (const row of write.rows) put(row)
      return write.rows.map((row) => ({ kind: 'row', op: 'u', of, row, unchanged: [], from: null }))
    case 'remove':
      return [gone(take(write.row))]
    case 'truncate':
      rows.clear()
      return [{ kind: 'truncate', of }]
    case 'update': {
      const former = take(write.row)
      const row = table.columns.map(({ name }, index) =>
        Object.hasOwn(write.cells, name) ? (write.cells[name] ?? null) : (former[index] ?? null),
      )
      put(row)
      const unchanged = table.columns.flatMap(({ name }, index) => {
        const isLarge = String(row[index] ?? '').length >= LEFT_OUT_CHARACTERS
        return isLarge && !Object.hasOwn(write.cells, name) ? [name] : []
      })
      if (keyText(table, former) === keyText(table, row)) {
        return [{ kind: 'row', op: 'u', of, row, unchanged, from: null }]
      }
      return [gone(former), { kind: 'row', op: 'u', of, row, unchanged, from: former }]
    }
  }
}
