import type { Row, Value } from '@sluice/sdk'

/** A row as the contract's CSV: see `CsvChunk`. */
export function csvLine(row: Row): string {
  return `${row.map(csvCell).join(',')}\n`
}

function csvCell(value: Value): string {
  return value === null ? '' : `"${csvText(value).replaceAll('"', '""')}"`
}

/** As PostgreSQL reads it. */
export function csvText(value: NonNullable<Value>): string {
  if (typeof value === 'boolean') return value ? 't' : 'f'
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  if (Object.is(value, -0)) return '-0'
  return String(value)
}
