/** The classes by which products hide columns of a source: what is made of these anew inherits them. */
import { isSensitive, type MaskingRules } from '../../policy/masking.ts'
import { rawColumn } from '../../quality/check-readings.ts'
import { rawClasses } from '../../registry/raw-classes.ts'
import type { Queryable } from '../../registry/sql.ts'

interface Table {
  readonly schema: string
  readonly name: string
  readonly columns: readonly { readonly name: string }[]
}

/**
 * By table and column, in the order of the alphabet.
 * @param tables those that the caller may read: of others none is told
 */
export async function knownClasses(
  { pool, rules }: { readonly pool: Queryable; readonly rules: MaskingRules },
  tenant: string,
  connection: string,
  tables: readonly Table[],
): Promise<(table: Table, column: string) => readonly string[]> {
  const keyOf = ({ schema, name }: Table, column: string) =>
    rawColumn({ connection, table: `${schema}.${name}` }, column)
  const asked = tables.flatMap((table) => table.columns.map(({ name }) => keyOf(table, name)))
  const known = asked.length === 0 ? new Map<string, readonly string[]>() : await rawClasses(pool, tenant, asked)
  const told = new Set(asked)
  return (table, column) => {
    const key = keyOf(table, column)
    if (!told.has(key)) return []
    return (known.get(key) ?? []).filter((name) => isSensitive(name, rules)).toSorted()
  }
}
