/** The classes by which products hide columns of a source: what is made of these anew inherits them. */
import { isSensitive, type MaskingRules } from '../../policy/masking.ts'
import { rawColumn } from '../../quality/check-readings.ts'
import { rawClasses } from '../../registry/raw-classes.ts'
import type { Queryable } from '../../registry/sql.ts'

interface Table {
  readonly schema: string
  readonly name: string
}

/**
 * By table and column, in the order of the alphabet. What is known is looked through once: a source may have ten thousand tables, and
 * products look at few of them.
 *
 * @param tables those that the caller may read: of others none is told
 */
export async function knownClasses(
  { pool, rules }: { readonly pool: Queryable; readonly rules: MaskingRules },
  tenant: string,
  connection: string,
  tables: readonly Table[],
): Promise<(table: Table, column: string) => readonly string[]> {
  const known = tables.length === 0 ? new Map<string, readonly string[]>() : await rawClasses(pool, tenant)
  const classed = new Set([...known.keys()].map(tableOf))
  const told = new Set(tables.map(nameOf).filter((name) => classed.has(JSON.stringify([connection, name]))))
  return (table, column) => {
    if (!told.has(nameOf(table))) return []
    const names = known.get(rawColumn({ connection, table: nameOf(table) }, column)) ?? []
    return names.filter((name) => isSensitive(name, rules)).toSorted()
  }
}

const nameOf = ({ schema, name }: Table): string => `${schema}.${name}`

/** Of a raw column as `rawColumn` names it. */
function tableOf(rawColumn: string): string {
  const [connection, table] = JSON.parse(rawColumn) as readonly string[]
  return JSON.stringify([connection, table])
}
