/**
 * Tables as a PostgreSQL can hold them. What it cannot is left out or shortened, the same way each time: one such table would
 * else keep all others from being told.
 */
import { createHash } from 'node:crypto'
import type { Described } from '../../operations/queries/information-schema.ts'

const MAX_NAME_BYTES = 63
const HASH_CHARACTERS = 8
const MOST_COLUMNS = 1_600
/** Every table has these already. */
const OWN_COLUMNS: ReadonlySet<string> = new Set(['ctid', 'xmin', 'cmin', 'xmax', 'cmax', 'tableoid'])
const OWN_SCHEMAS = /^(?:pg_|information_schema$)/

/** Of two that come to one name, the first. */
export function heldTables(tables: readonly Described[]): readonly Described[] {
  const held = new Map<string, Described>()
  for (const { schema, table, columns, masked = [] } of tables) {
    if (OWN_SCHEMAS.test(schema)) continue
    const own = { schema: heldName(schema), table: heldName(table) }
    const key = JSON.stringify([own.schema, own.table])
    if (held.has(key)) continue
    held.set(key, { ...own, columns: heldColumns(columns), masked: masked.map(heldName) })
  }
  return [...held.values()]
}

function heldColumns(columns: Described['columns']): Described['columns'] {
  const held = new Map<string, Described['columns'][number]>()
  for (const column of columns) {
    const name = heldName(column.name)
    if (!OWN_COLUMNS.has(name) && !held.has(name) && held.size < MOST_COLUMNS) held.set(name, { ...column, name })
  }
  return [...held.values()]
}

/** A PostgreSQL would cut it, and find two alike: a hash of the whole stands for the rest. */
function heldName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name
  const hash = createHash('sha256').update(name).digest('hex').slice(0, HASH_CHARACTERS)
  const most = MAX_NAME_BYTES - HASH_CHARACTERS - 1
  let kept = ''
  for (const letter of name) {
    if (Buffer.byteLength(kept + letter) > most) break
    kept += letter
  }
  return `${kept}_${hash}`
}
