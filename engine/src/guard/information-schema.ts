/**
 * Tables that describe others, under the name that SQL gives them. DuckDB has an information_schema of its own, which
 * says what it has opened and cannot be changed: the child keeps ours in a schema that no statement can name, and the
 * guard leads the name there.
 */
import { foldName, type TreeNode } from './tree.ts'

export const INFORMATION_SCHEMA = 'information_schema'
/** No statement reaches it by itself: it is on no list of tables that the guard is given. */
const INNER_SCHEMA = ' information_schema'

const isOurs = (schema: unknown): boolean => foldName(String(schema)) === INFORMATION_SCHEMA

/** What the child calls a table of a job. */
export function innerName(name: readonly string[]): readonly string[] {
  const [schema, ...rest] = name
  return name.length > 1 && isOurs(schema) ? [INNER_SCHEMA, ...rest] : name
}

/** Changes the tree of a statement that has been judged, so that it reads the child's tables. */
export function leadInside(node: unknown): void {
  if (typeof node !== 'object' || node === null) return
  if (Array.isArray(node)) {
    for (const item of node) leadInside(item)
    return
  }
  const tree = node as { -readonly [Name in keyof TreeNode]: TreeNode[Name] }
  if (tree.type === 'BASE_TABLE' && isOurs(tree.schema_name)) tree.schema_name = INNER_SCHEMA
  const names = tree.class === 'COLUMN_REF' ? (tree.column_names as unknown[]) : []
  if (names.length > 2 && isOurs(names[0])) names[0] = INNER_SCHEMA
  for (const value of Object.values(tree)) leadInside(value)
}
