/** Tables that a statement names without a namespace, as the session's search path has them. */
import type { TenantCall } from '../../flow.ts'
import type { QueriesDeps } from '../../operations/queries/deps.ts'
import { describedTables } from '../../operations/queries/information-schema.ts'
import { WireError } from '../protocol/wire-error.ts'
import { bareTables, withNamespaces } from '../sql/table-names.ts'
import { wordsOf } from '../sql/words.ts'

/**
 * The statement with the namespaces that its caller may read; what is not found stays as it is. Without a path, which no one
 * chose, a name that two namespaces have is refused (42P09).
 */
export async function foundSql(
  platform: QueriesDeps,
  call: TenantCall,
  sql: string,
  searchPath: string | null,
): Promise<string> {
  const statement = { sql, words: wordsOf(sql) }
  const bare = bareTables(statement)
  const tables = await describedTables(platform, call)
  const path = searchPath === null ? null : namesIn(searchPath)
  const found = new Map<string, string>()
  for (const name of bare) {
    const having = tables.filter(({ table }) => folded(table) === folded(name)).map(({ schema }) => schema)
    const [first, second] = path === null ? having : path.filter((schema) => having.includes(schema))
    if (path === null && first !== undefined && second !== undefined) throw ambiguous(name, first, second)
    if (first !== undefined) found.set(name, first)
  }
  return withNamespaces(statement, found).sql
}

/** Of a path as it is kept: `crm, "A b", ""`. */
const namesIn = (path: string): readonly string[] =>
  [...path.matchAll(/"((?:[^"]|"")*)"|[^\s,"]+/g)].map(([all, quoted]) => quoted?.replaceAll('""', '"') ?? all)

/** As the engine compares names of tables. */
const folded = (name: string): string => name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

function ambiguous(name: string, first: string, second: string): WireError {
  return new WireError('42P09', `the table "${name}" is in more than one namespace: ${first}, ${second}`, {
    hint: `Write ${first}.${name}, or SET search_path TO ${first}.`,
  })
}
