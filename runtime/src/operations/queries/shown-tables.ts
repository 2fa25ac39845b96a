/** SHOW and DESCRIBE, as the queries over information_schema that they stand for. */
import { quoteText } from '@sluice/engine'

export interface ShownTables {
  readonly sql: string
  /** What it is about, and has to be there; null: whatever there is. */
  readonly table: readonly [schema: string, table: string] | null
}

const NAME = '(?:"([^"]{1,255})"|([a-z_][a-z0-9_]{0,254}))'
const TABLE = String.raw`${NAME}\s*\.\s*${NAME}`
const END = String.raw`\s*;?\s*$`

const SHOW_TABLES = new RegExp(String.raw`^\s*SHOW\s+(?:ALL\s+)?TABLES(?:\s+(?:FROM|IN)\s+${NAME})?${END}`, 'i')
const SHOW_SCHEMAS = new RegExp(String.raw`^\s*SHOW\s+SCHEMAS${END}`, 'i')
const DESCRIBE = new RegExp(
  String.raw`^\s*(?:DESC|DESCRIBE|SHOW\s+COLUMNS\s+(?:FROM|IN))\s+(?:TABLE\s+)?${TABLE}${END}`,
  'i',
)

/** Null where the statement is none of these. */
export function shownTables(sql: string): ShownTables | null {
  // Nothing else is that short, and nobody describes with more.
  if (sql.length > 1_000 || !/^\s*(?:SHOW|DESC)/i.test(sql)) return null
  if (SHOW_SCHEMAS.test(sql)) {
    return { sql: 'SELECT schema_name AS name FROM information_schema.schemata ORDER BY ALL', table: null }
  }
  const tables = SHOW_TABLES.exec(sql)
  if (tables !== null) {
    const schema = folded(tables[1], tables[2])
    const sqlOfAll = "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables ORDER BY ALL"
    if (schema === null) return { sql: sqlOfAll, table: null }
    const where = `WHERE table_schema = ${quoteText(schema)}`
    return { sql: `SELECT table_name AS name FROM information_schema.tables ${where} ORDER BY ALL`, table: null }
  }
  const described = DESCRIBE.exec(sql)
  const [schema, table] = [folded(described?.[1], described?.[2]), folded(described?.[3], described?.[4])]
  if (schema === null || table === null) return null
  const nothing = (name: string) => `CAST(NULL AS VARCHAR) AS "${name}"`
  return {
    sql: `SELECT column_name, data_type AS column_type, is_nullable AS "null", ${['key', 'default', 'extra'].map(nothing).join(', ')}
      FROM information_schema.columns WHERE table_schema = ${quoteText(schema)} AND table_name = ${quoteText(table)}
      ORDER BY ordinal_position`,
    table: [schema, table],
  }
}

/** Names of schemas and tables are lower case; SQL finds them in any. */
function folded(quoted: string | undefined, plain: string | undefined): string | null {
  return (quoted ?? plain)?.toLowerCase() ?? null
}
