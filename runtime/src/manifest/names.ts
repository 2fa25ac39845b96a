import { RESERVED_COLUMNS_PREFIX } from '@sluice/iceberg/names'
import { MANIFEST_LIMITS } from './files/shape.ts'

/** Names that a store or the platform uses for itself. A product of that name would stand in their place. */
const RESERVED_NAMESPACES: ReadonlySet<string> = new Set([
  'public',
  'information_schema',
  'main',
  'temp',
  'system',
  'sys',
  'default',
  'sandbox',
])

const RESERVED_PREFIXES = ['pg_', 'raw_', 'timescaledb_'] as const

/** Schemas of the runtime's own stand beside those of namespaces. */
const RESERVED_NAMESPACE_PREFIX = 'sluice_'

/** Columns that stores add to every table. */
const RESERVED_COLUMNS: ReadonlySet<string> = new Set(['tenant_id'])

/**
 * Why `name` cannot be the name of a product or a namespace, as the rest of a sentence that begins with the name;
 * null where it can. Long names are fine: what a store cannot hold is hashed where physical names are made.
 */
export function nameRefusal(name: string, what: 'name' | 'namespace'): string | null {
  if (name.length > MANIFEST_LIMITS.nameLength) return `is longer than ${MANIFEST_LIMITS.nameLength} characters`
  if (!/^[a-z][a-z0-9_]*$/.test(name)) {
    return 'must begin with a lower-case letter and hold only lower-case letters, digits and underscores'
  }
  const prefixes = what === 'namespace' ? [...RESERVED_PREFIXES, RESERVED_NAMESPACE_PREFIX] : RESERVED_PREFIXES
  const prefix = prefixes.find((reserved) => name.startsWith(reserved))
  if (prefix !== undefined) return `must not begin with ${prefix}, which the platform keeps for itself`
  if (name.includes('__')) return 'must not hold two underscores in a row, which the platform keeps for itself'
  if (what === 'namespace' && RESERVED_NAMESPACES.has(name)) return 'is a name that the platform keeps for itself'
  return null
}

/** The like for a column of output.yaml. */
export function columnRefusal(name: string): string | null {
  if (RESERVED_COLUMNS.has(name.toLowerCase())) return 'is a column that every store adds by itself'
  if (name.startsWith('__')) return 'must not begin with two underscores, which the platform keeps for itself'
  return null
}

/** Why the columns of a source cannot lie beside each other in the lake, as a sentence; null where they can. */
export function sourceColumnsRefusal(names: readonly string[]): string | null {
  const seen = new Map<string, string>()
  for (const name of names) {
    const folded = name.toLowerCase()
    const other = seen.get(folded)
    if (other !== undefined) return `its columns "${other}" and "${name}" have one name but for its case`
    if (folded.startsWith(RESERVED_COLUMNS_PREFIX))
      return `its column "${name}" has a name that the platform keeps for itself`
    seen.set(folded, name)
  }
  return null
}

/** A name as it should have been written, for a hint: `Customer-360` → `customer_360`; null where nothing is left. */
export function nameSuggestion(name: string): string | null {
  const plain = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^[0-9_]+|_+$/g, '')
  return plain !== '' && plain !== name && nameRefusal(plain, 'namespace') === null ? plain : null
}
