/** Rows as JSON texts, for those who are sent values one by one. */
import { type Column, type Row, toJsonValue, type Value } from '@sluice/sdk'

/**
 * An object of the columns that are named, as `toJsonValue` has their values. No number of JavaScript's stands between:
 * documents keep every digit, key and space that they were written with, and a zero its sign.
 */
export function rowJson(columns: readonly Pick<Column, 'name' | 'type'>[], row: Row): string {
  const members = columns.map(
    (column, index) => `${JSON.stringify(column.name)}:${cellJson(row[index] ?? null, column)}`,
  )
  return `{${members.join(',')}}`
}

function cellJson(value: Value, { type }: Pick<Column, 'type'>): string {
  if (Object.is(value, -0)) return '-0'
  const told = toJsonValue(value, type)
  // What is no JSON stays a text, as it came.
  return type === 'json' && typeof value === 'string' && told !== value ? value : JSON.stringify(told)
}
