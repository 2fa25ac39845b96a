/** Where a row lies in LMDB. Keys are text that a person can read, and hashed where LMDB could not hold them. */
import { cachePrefix, type Target, tenantOf } from '@sluice/sdk'
import { shortened } from '../keyed-values/identity.ts'

/**
 * LMDB's keys end at 1978 bytes with 4 KiB pages. Longer parts keep their beginning and end in a hash.
 */
const MAX_PREFIX_BYTES = 600
const MAX_KEY_BYTES = 1200

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
