/** The engine's JSON cells back as values. */
import { type Row, typeName, type Value } from '@sluice/sdk'
import type { SelectedColumn } from '../scan/scan-sql.ts'

/** A row of the engine's, whose floats and documents were selected as text. */
export function rowOf(cells: readonly unknown[], selected: readonly SelectedColumn[]): Row {
  return selected.map((column, index) => valueOf(cells[index] ?? null, column))
}

function valueOf(cell: unknown, { type }: SelectedColumn): Value {
  if (cell === null) return null
  switch (typeName(type)) {
    case 'long':
      return BigInt(cell as string | number)
    case 'float':
      return Math.fround(numberOf(String(cell)))
    case 'double':
      return numberOf(String(cell))
    case 'binary':
      return Uint8Array.from(Buffer.from(String(cell), 'base64'))
    default:
      return cell as Value
  }
}

const NOT_FINITE: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  '-inf': Number.NEGATIVE_INFINITY,
}

function numberOf(text: string): number {
  return NOT_FINITE[text] ?? Number(text)
}
