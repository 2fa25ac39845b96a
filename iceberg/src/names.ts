/** Which names can be used for warehouses, namespaces, tables and columns. */

/** Names get longer where copies are told apart by what follows (`__masked_0123abcd`); file systems take 255 bytes. */
const MAX_LAKE_NAME_BYTES = 240
// These names become path segments, catalog keys and parts of a URI: what any of those gives a meaning to is refused.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const OUTSIDE_LAKE = /[\u0000-\u001f\u007f/\\?#%*:"<>|]/

/** Why nothing in the lake can have the name, as the rest of a sentence that begins with it; null where it can. */
export function lakeNameRefusal(name: string): string | null {
  if (name === '') return 'is empty'
  if (name.startsWith('.')) return 'begins with a dot'
  if (OUTSIDE_LAKE.test(name)) return 'holds a control character, or one of / \\ ? # % * : " < > |'
  if (!name.isWellFormed()) return 'is not text'
  if (Buffer.byteLength(name) > MAX_LAKE_NAME_BYTES) return `is longer than ${MAX_LAKE_NAME_BYTES} bytes`
  return null
}

/** Names of columns that the writer and the engine add for a while begin so; no table can have one. */
export const RESERVED_COLUMNS_PREFIX = '__sluice_'
