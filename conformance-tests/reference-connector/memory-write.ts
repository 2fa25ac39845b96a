/** What one statement makes of a table, and what the log tells of it. */
import type { Row } from '@sluice/sdk'
import { keyText } from '../compare.ts'
import type { SourceTable } from '../connector-fixture.ts'
import type { SourceWrite } from '../log-fixture.ts'
import type { LogEntry } from './memory-log.ts'
import type { StoredRow, StoredTable } from './memory-source.ts'

/** Texts from this length on stand in the log only where they are written. */
export const LEFT_OUT_CHARACTERS = 1000

export type MemoryWrite =
  | SourceWrite
  | { readonly kind: 'spoil'; readonly table: SourceTable; readonly row: Row; readonly column: string }

export interface Written {
  readonly table: StoredTable
  readonly entries: readonly LogEntry[]
}

export function written(of: StoredTable, write: MemoryWrite, number: number): Written {
  const rows = new Map(of.rows)
  const entries = entriesOf(of, rows, write, number)
  return { table: { ...of, rows }, entries }
}

function entriesOf(
  of: StoredTable,
  rows: Map<string, StoredRow>,
  write: MemoryWrite,
  number: number,
): readonly LogEntry[] {
  const { table } = of
  const put = (row: Row, unfit?: string): void => {
    if (rows.has(keyText(table, row))) throw new Error(`${table.name} has a row of this key`)
    rows.set(keyText(table, row), { row, written: number, ...(unfit === undefined ? {} : { unfit }) })
  }
  const take = (row: Row): StoredRow => {
    const there = rows.get(keyText(table, row))
    if (there === undefined) throw new Error(`${table.name} has no row of this key`)
    rows.delete(keyText(table, row))
    return there
  }
  const gone = (row: Row): LogEntry => ({ kind: 'row', op: 'd', of, row, unchanged: [], from: null })
  switch (write.kind) {
    case 'insert':
      for (const row of write.rows) put(row)
      return write.rows.map((row) => ({ kind: 'row', op: 'u', of, row, unchanged: [], from: null }))
    case 'remove':
      return [gone(take(write.row).row)]
    case 'truncate':
      rows.clear()
      return [{ kind: 'truncate', of }]
    case 'spoil': {
      const { row } = take(write.row)
      put(row, write.column)
      return [{ kind: 'row', op: 'u', of, row, unchanged: [], from: null, unfit: write.column }]
    }
    case 'update': {
      const { row: former, unfit } = take(write.row)
      const row = table.columns.map(({ name }, index) =>
        Object.hasOwn(write.cells, name) ? (write.cells[name] ?? null) : (former[index] ?? null),
      )
      const stays = unfit !== undefined && !Object.hasOwn(write.cells, unfit) ? { unfit } : {}
      put(row, stays.unfit)
      const unchanged = table.columns.flatMap(({ name }, index) => {
        const isLarge = String(row[index] ?? '').length >= LEFT_OUT_CHARACTERS
        return isLarge && !Object.hasOwn(write.cells, name) ? [name] : []
      })
      if (keyText(table, former) === keyText(table, row)) {
        return [{ kind: 'row', op: 'u', of, row, unchanged, from: null, ...stays }]
      }
      return [gone(former), { kind: 'row', op: 'u', of, row, unchanged, from: former, ...stays }]
    }
  }
}
