/** What the parts of the rewriting know of a statement beside its tree. */
import { SluiceError, type SqlSource } from '@sluice/sdk'
import { foldName, type TreeNode } from '../guard/tree.ts'
import { childrenOf } from './nodes.ts'

/** What is known beside the tree. */
export interface KnownParts {
  /** Values of `$1`, `$2`, …; null where they are not known. */
  readonly parameters: readonly unknown[]
  /** Of columns by their names; those that two tables have of two types are left out. */
  readonly types: ReadonlyMap<string, string>
}

export interface Rewriting extends KnownParts {
  readonly source: SqlSource
  refused(what: string, remedy: string): SluiceError
}

export type Rewrite = (node: TreeNode, rewriting: Rewriting) => TreeNode

export function columnTypes(
  tables: readonly { readonly columns: readonly { readonly name: string; readonly type: string }[] }[],
): ReadonlyMap<string, string> {
  const types = new Map<string, string>()
  for (const { name, type } of tables.flatMap(({ columns }) => columns)) {
    const known = types.get(foldName(name)) ?? type
    types.set(foldName(name), known === type ? type : '')
  }
  return types
}

/** Of a column by its name, and of what is of its first argument's type; empty of anything else, and where it is not known. */
export function typeOf(node: TreeNode | undefined, { types }: Pick<Rewriting, 'types'>): string {
  if (node === undefined) return ''
  if (isOfFirstType(node)) return typeOf(childrenOf(node)[0], { types })
  const names = node.class === 'COLUMN_REF' ? (node.column_names as readonly string[]) : []
  return types.get(foldName(names.at(-1) ?? '')) ?? ''
}

function isOfFirstType(node: TreeNode): boolean {
  if (node.class === 'OPERATOR') return node.type === 'OPERATOR_NULLIF'
  if (node.class !== 'FUNCTION') return false
  const name = String(node.function_name).toLowerCase()
  return ['abs', 'nullif', 'min', 'max'].includes(name) || (/^[-+]$/.test(name) && childrenOf(node).length === 1)
}

/** What is not said here by another construct: it is named, with what to write in its place. */
export function unsupported(what: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', `${what} is not taken here`, { code: 'sql_unsupported', remedy })
}
