/** Where a row lies in LMDB. Keys are text that a person can read, and hashed where LMDB could not hold them. */
import { createHash } from 'node:crypto'
import {
  cachePrefix,
  escapeKeyPart,
  type KeyTemplate,
  type LogicalType,
  parseDecimal,
  type TableSchema,
  type Target,
  tenantOf,
  typeName,
  type Value,
} from '@sluice/sdk'

/**
 * LMDB's keys end at 1978 bytes with 4 KiB pages. Longer parts keep their beginning and end in a hash; `%#` occurs in
 * no other key, since every `%` of a value is followed by two digits and templates hold none.
 */
const MAX_PREFIX_BYTES = 600
const MAX_KEY_BYTES = 1200
const MAX_IDENTITY_BYTES = 500

/** An entry's key: the rendered key alone, or with the row's identity where several rows may share it. */
export type EntryKey = string | string[]

interface KnownPrefix {
  readonly tenant: string
  readonly domain: string
  readonly variant: string
  readonly prefix: string
}

/** Prefixes by product, for the reads; emptied when it is full, and each entry is compared before it is believed. */
const prefixes = new Map<string, KnownPrefix>()
const MAX_PREFIXES = 10_000

/** `{tenant}:{domain}:{product}:`; every key of the dataset begins with it, and no other dataset's does. */
export function prefixOf({ scope, domain, product, variant }: Target): string {
  const tenant = tenantOf(scope)
  const slot = `${tenant}:${domain}:${product}:${variant}`
  const known = prefixes.get(slot)
  if (known && known.tenant === tenant && known.domain === domain && known.variant === variant) return known.prefix
  const prefix = boundedPrefix(cachePrefix({ tenant, domain, product, variant }))
  if (prefixes.size >= MAX_PREFIXES) prefixes.clear()
  prefixes.set(slot, { tenant, domain, variant, prefix })
  return prefix
}

function boundedPrefix(prefix: string): string {
  return Buffer.byteLength(prefix) <= MAX_PREFIX_BYTES ? prefix : `${shortened(prefix, MAX_PREFIX_BYTES)}:`
}

/** All keys that begin with the prefix: from it, to before this one. */
export function endOf(prefix: string): string {
  return `${prefix.slice(0, -1)};`
}

export function physicalKey(prefix: string, rendered: string): string {
  const key = prefix + rendered
  // No character takes more than three bytes for each of its UTF-16 units, so short keys need no counting.
  if (key.length * 3 <= MAX_KEY_BYTES || Buffer.byteLength(key) <= MAX_KEY_BYTES) return key
  return prefix + shortened(rendered, MAX_KEY_BYTES - MAX_PREFIX_BYTES)
}

function shortened(text: string, maxBytes: number): string {
  const hash = createHash('sha256').update(text).digest('hex')
  const head = Buffer.from(text).subarray(0, maxBytes - hash.length - 6)
  return `${head.toString('utf8').replace(/\ufffd+$/, '')}%#${hash}`
}

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
