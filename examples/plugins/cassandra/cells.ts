/** A row as one JSON text, by number of column; a value's type tells how to read it back. */
import { type LogicalType, type Row, type TableSchema, typeName, type Value } from '@sluice/sdk'

export function rowText(row: Row): string {
  return JSON.stringify(row.map(cellOf))
}

/** A row that was written before a column came holds null there. */
export function rowFrom(text: string, schema: TableSchema): Row {
  const cells = JSON.parse(text) as readonly (string | boolean | null)[]
  return schema.columns.map(({ type }, index) => valueOf(cells[index] ?? null, type))
}

/** The key's values as one text; JSON keeps the parts apart, whatever they hold. */
export function keyText(key: readonly Value[]): string {
  return JSON.stringify(key.map(cellOf))
}

function cellOf(value: Value): string | boolean | null {
  if (value === null || typeof value === 'boolean') return value
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  return Object.is(value, -0) ? '-0' : String(value)
}

function valueOf(cell: string | boolean | null, type: LogicalType): Value {
  if (cell === null || typeof cell === 'boolean') return cell
  switch (typeName(type)) {
    case 'integer':
    case 'float':
    case 'double':
      return Number(cell)
    case 'long':
      return BigInt(cell)
    case 'binary':
      return new Uint8Array(Buffer.from(cell, 'base64'))
    default:
      return cell
  }
}
