/** The key of a row that a connector has refused, as reads tell it: by that text it is looked for. */
import { type LogicalType, type TableSchema, toJsonValue, typeName } from '@sluice/sdk'
import { typedValue } from '../manifest/scalar-values.ts'
import type { RefusedRow } from '../registry/quarantine.ts'

/** Texts of the shared CSV in; one that is none of its type stays as the source wrote it. */
export function toldKey(key: RefusedRow['key'], { columns }: TableSchema): RefusedRow['key'] {
  if (key === null) return null
  const told = Object.entries(key).map(([name, text]) => {
    const type = columns.find((column) => column.name === name)?.type
    return [name, text === null || type === undefined ? text : textOf(text, type)] as const
  })
  return Object.fromEntries(told)
}

const BOOLEANS: Readonly<Record<string, string>> = { t: 'true', f: 'false', true: 'true', false: 'false' }

function textOf(text: string, type: LogicalType): string {
  switch (typeName(type)) {
    case 'string':
    case 'json':
      return text
    case 'boolean':
      return BOOLEANS[text] ?? text
    case 'binary':
      return /^\\x([\da-f]{2})*$/i.test(text) ? Buffer.from(text.slice(2), 'hex').toString('base64') : text
    case 'float':
    case 'double':
      return numberText(text, type)
    case 'timestamptz':
      // PostgreSQL leaves out the minutes of a zone that has none.
      return asValue(text.replace(/([+-]\d{2})$/, '$1:00'), type) ?? text
    default:
      return asValue(text, type) ?? text
  }
}

function numberText(text: string, type: LogicalType): string {
  if (!/^(-?\d+(\.\d+)?([eE][+-]?\d+)?|NaN|-?Infinity)$/.test(text)) return text
  // The lake has no negative zero.
  const value = Number(text) + 0
  return String(toJsonValue(type === 'float' ? Math.fround(value) : value, type))
}

function asValue(text: string, type: LogicalType): string | null {
  const value = typedValue(text, type)
  return value === null ? null : String(value)
}
