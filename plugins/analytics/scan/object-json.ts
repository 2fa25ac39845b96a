import { type Row, toJsonValue } from '@sluice/sdk'
import type { SelectedColumn } from './scan-sql.ts'

/** A JSON object; documents stand in it to the letter. */
export function objectJson(row: Row, columns: readonly SelectedColumn[]): string {
  const members = columns.map(({ name, type }, index) => {
    const value = row[index] ?? null
    const text = type === 'json' && typeof value === 'string' ? value : JSON.stringify(toJsonValue(value, type))
    return `${JSON.stringify(name)}:${text}`
  })
  return `{${members.join(',')}}`
}
