import { type ColumnBatch, rowsOf, type Value } from '@sluice/sdk'

/** The batch's rows as the CSV of the contract (see `CsvChunk`). */
export function encodeBatch(batch: ColumnBatch): Uint8Array {
  const lines: string[] = []
  for (const row of rowsOf(batch)) lines.push(row.map(encodeCell).join(','))
  return Buffer.from(lines.length > 0 ? `${lines.join('\n')}\n` : '')
}

function encodeCell(value: Value): string {
  if (value === null) return ''
  if (typeof value === 'boolean') return value ? '"t"' : '"f"'
  if (value instanceof Uint8Array) return `"\\x${Buffer.from(value).toString('hex')}"`
  return `"${String(value).replaceAll('"', '""')}"`
}
