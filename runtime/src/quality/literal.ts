import { quoteText, sqlType } from '@sluice/engine'
import { type LogicalType, typeName, type Value } from '@sluice/sdk'

/**
 * A value as DuckDB SQL that has exactly that value and that type, whatever the text holds. Everything but true and
 * false is a quoted text inside a CAST, so there is one rule for quoting and none for numbers. Throws a plain Error
 * for text that SQL cannot hold (null bytes, halves of surrogate pairs): manifests are checked before they come here.
 */
export function literal(value: Value, type: LogicalType): string {
  if (value === null) return `CAST(NULL AS ${sqlType(type)})`
  if (typeof value === 'boolean') return `CAST(${value} AS ${sqlType(type)})`
  return `CAST(${quoteText(textOf(value, type))} AS ${sqlType(type)})`
}

function textOf(value: Exclude<Value, null | boolean>, type: LogicalType): string {
  if (value instanceof Uint8Array) return [...value].map(escapedByte).join('')
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'number') return numberText(value)
  if (value.includes('\0') || !value.isWellFormed()) throw new Error('SQL text cannot hold this value')
  return typeName(type) === 'binary' ? [...Buffer.from(value)].map(escapedByte).join('') : value
}

/** How DuckDB writes bytes in a text that becomes a BLOB. */
function escapedByte(byte: number): string {
  return `\\x${byte.toString(16).padStart(2, '0').toUpperCase()}`
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  return Object.is(value, -0) ? '-0.0' : String(value)
}
