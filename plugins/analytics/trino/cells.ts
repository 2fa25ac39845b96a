/** Trino's texts back as values. */
import { type Row, typeName, type Value } from '@sluice/sdk'
import type { SelectedColumn } from '../scan/scan-sql.ts'

export function rowOf(cells: readonly unknown[], selected: readonly SelectedColumn[]): Row {
  return selected.map((column, index) => valueOf(cells[index] ?? null, column))
}

function valueOf(cell: unknown, { type }: SelectedColumn): Value {
  if (cell === null) return null
  const text = String(cell)
  switch (typeName(type)) {
    case 'boolean':
      return text === 'true'
    case 'float':
      return Math.fround(Number(text))
    case 'integer':
    case 'double':
      return Number(text)
    case 'long':
      return BigInt(text)
    case 'binary':
      return Uint8Array.from(Buffer.from(text, 'base64'))
    default:
      return text
  }
}
