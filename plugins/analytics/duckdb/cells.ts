/** The engine's JSON cells back as values. */
import { type Row, typeName, type Value } from '@sluice/sdk'
import type { SelectedColumn } from '../scan/scan-sql.ts'

/** A row of the engine's, whose documents were selected as text. */
export function rowOf(cells: readonly unknown[], selected: readonly SelectedColumn[]): Row {
  return selected.map((column, index) => valueOf(cells[index] ?? null, column))
}

function valueOf(cell: unknown, { type }: SelectedColumn): Value {
  if (cell === null) return null
  switch (typeName(type)) {
    case 'long':
      return BigInt(cell as string | number)
    case 'float':
      return Math.fround(Number(cell))
    case 'double':
      // What is no number in JSON, as NaN, is the text of one.
      return Number(cell)
    case 'binary':
      return Uint8Array.from(Buffer.from(String(cell), 'base64'))
    default:
      return cell as Value
  }
}
