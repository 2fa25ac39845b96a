/** Who a row is, as a text that sorts as its primary key does. */
import { createHash } from 'node:crypto'
import {
  escapeKeyPart,
  type KeyTemplate,
  type LogicalType,
  parseDecimal,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'

const MAX_IDENTITY_BYTES = 500

/** Whether the key names exactly one row, so that a delete, which brings the primary key alone, can find it. */
export function isKeyedByIdentity(template: KeyTemplate, schema: TableSchema): boolean {
  const named = new Set(template.parts.map((part) => part.column))
  return (
    schema.primaryKey.length > 0 &&
    named.size === schema.primaryKey.length &&
    schema.primaryKey.every((name) => named.has(name))
  )
}

/** The identity of a row as one text that sorts as the primary key does, but for its last bytes where it is long. */
export function identityText(schema: TableSchema, cells: readonly Value[]): string {
  const text = cells
    .map((cell, index) => {
      const name = schema.primaryKey[index]
      const type = schema.columns.find((column) => column.name === name)?.type ?? 'string'
      return cell === null ? '' : `v${escapeKeyPart(sortableText(cell, type))}`
    })
    .join(':')
  return Buffer.byteLength(text) <= MAX_IDENTITY_BYTES ? text : shortened(text, MAX_IDENTITY_BYTES)
}

/**
 * The beginning of a long text, and a hash of the whole; `%#` occurs in no other key, since every `%` of a value is
 * followed by two digits and templates hold none.
 */
export function shortened(text: string, maxBytes: number): string {
  const hash = createHash('sha256').update(text).digest('hex')
  const head = Buffer.from(text).subarray(0, maxBytes - hash.length - 6)
  return `${head.toString('utf8').replace(/\ufffd+$/, '')}%#${hash}`
}

/** The identity of a row that has no primary key: its content. */
export function contentIdentity(json: string): string {
  return `v${createHash('sha256').update(json).digest('hex')}`
}

/** Text whose order is the order of the values. */
function sortableText(value: NonNullable<Value>, type: LogicalType): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (typeof value === 'bigint') return (value + 2n ** 63n).toString().padStart(20, '0')
  if (typeof value === 'number') return sortableNumber(value)
  if (typeName(type) === 'decimal') return sortableDecimal(String(value), type)
  return String(value)
}

/** The bits of an IEEE double sort as the numbers do, once the sign is turned around. */
function sortableNumber(value: number): string {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(Object.is(value, -0) ? 0 : value)
  const bits = bytes.readBigUInt64BE()
  const sortable = bits >> 63n === 0n ? bits | (1n << 63n) : ~bits & 0xffffffffffffffffn
  return sortable.toString(16).padStart(16, '0')
}

function sortableDecimal(value: string, type: LogicalType): string {
  const precision = parseDecimal(type)?.precision ?? 38
  return (BigInt(value.replace('.', '')) + 10n ** BigInt(precision)).toString().padStart(precision + 1, '0')
}
