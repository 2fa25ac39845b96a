/** What the parts of the rewriting know of a statement beside its tree. */
import { SluiceError, type SqlSource } from '@sluice/sdk'
import { foldName, type TreeNode } from '../guard/tree.ts'
import { childrenOf } from './nodes.ts'

export interface KnownParts {
  /** Values of `$1`, `$2`, …; null where they are not known. */
  readonly parameters: readonly unknown[]
  /** Of columns by their names; those that have two types in two tables are of none. */
  readonly types: ReadonlyMap<string, string>
}

export interface Rewriting extends KnownParts {
  readonly source: SqlSource
  refused(what: string, remedy: string): SluiceError
}

export type Rewrite = (node: TreeNode, rewriting: Rewriting) => TreeNode

type Types = ReadonlyMap<string, string>

export function columnTypes(
  tables: readonly { readonly columns: readonly { readonly name: string; readonly type: string }[] }[],
): Types {
  return withTypes(
    new Map(),
    tables.flatMap(({ columns }) => columns.map(({ name, type }) => [name, type] as const)),
  )
}

function withTypes(types: Types, more: readonly (readonly [name: string, type: string])[]): Types {
  const all = new Map(types)
  for (const [name, type] of more) {
    const key = foldName(name)
    all.set(key, eitherOf(all.get(key) ?? type, type))
  }
  return all
}

/** Of which a sum is to be taken for a `numeric`, whatever else is not known of it. */
export const MAYBE_LONG = 'long or another'

function eitherOf(one: string, other: string): string {
  if (one === other) return one
  const areNumbers = [one, other].every((type) => /^(?:integer|long|decimal)/.test(type))
  return areNumbers && /long/.test(one + other) ? MAYBE_LONG : ''
}

/** With the columns that the queries of a tree name, the inner ones first: their types hang on each other. */
export function namedTypes(tree: unknown, types: Types): Types {
  if (typeof tree !== 'object' || tree === null || 'rawJSON' in tree) return types
  let known = types
  for (const part of Object.values(tree)) known = namedTypes(part, known)
  const node = tree as TreeNode
  if (node.type !== 'SELECT_NODE') return known
  const named = (node.select_list as readonly TreeNode[]).filter(
    ({ alias }) => typeof alias === 'string' && alias !== '',
  )
  // A name that a column of a table has already is of that type or of none.
  return withTypes(
    known,
    named.map((item) => [String(item.alias), typeOf(item, { types: known })] as const),
  )
}

const COUNTS = new Set('count count_star count_if countif row_number rank dense_rank ntile'.split(' '))
const LENGTHS = new Set('length char_length character_length octet_length strpos position ascii cardinality'.split(' '))
const OF_FIRST = new Set('abs nullif min max first last any_value lag lead first_value last_value mod %'.split(' '))
const CAST_TYPES: Readonly<Record<string, string>> = {
  SMALLINT: 'integer',
  TINYINT: 'integer',
  INTEGER: 'integer',
  BIGINT: 'long',
  HUGEINT: 'decimal(38,0)',
  FLOAT: 'float',
  DOUBLE: 'double',
  VARCHAR: 'string',
  DATE: 'date',
}

/** As columns' types are called; empty where it is not known. */
export function typeOf(node: TreeNode | null | undefined, { types }: { readonly types: Types }): string {
  switch (node?.class) {
    case 'COLUMN_REF': {
      const name = foldName((node.column_names as readonly string[]).at(-1) ?? '')
      return types.get(name) ?? (name === 'current_date' ? 'date' : '')
    }
    case 'CONSTANT':
      return constantType(node)
    case 'CAST':
      return CAST_TYPES[String((node.cast_type as TreeNode).id)] ?? ''
    case 'FUNCTION':
    case 'WINDOW':
      return resultType(node, { types })
    case 'OPERATOR':
      if (node.type === 'OPERATOR_NULLIF') return typeOf(childrenOf(node)[0], { types })
      return node.type === 'OPERATOR_COALESCE' ? widest(childrenOf(node), { types }) : ''
    case 'CASE': {
      const then = (node.case_checks as readonly TreeNode[]).map(({ then_expr }) => then_expr as TreeNode)
      return widest([...then, node.else_expr as TreeNode], { types })
    }
    default:
      return ''
  }
}

function constantType(node: TreeNode): string {
  const { type, is_null } = node.value as { type: TreeNode; is_null: boolean }
  return is_null ? 'null' : (CAST_TYPES[String(type.id)] ?? '')
}

function resultType(node: TreeNode, known: { readonly types: Types }): string {
  const name = String(node.function_name).toLowerCase()
  const children = childrenOf(node)
  if (COUNTS.has(name)) return 'long'
  if (LENGTHS.has(name)) return 'integer'
  if (OF_FIRST.has(name)) return typeOf(children[0], known)
  if (name === 'sum') return { integer: 'long', long: 'decimal(38,0)' }[typeOf(children[0], known)] ?? ''
  return /^(?:[-+*]|\/\/?)$/.test(name) || name === 'greatest' || name === 'least' ? widest(children, known) : ''
}

/** Of whole numbers and of `real`; of anything else, nothing. */
function widest(nodes: readonly TreeNode[], known: { readonly types: Types }): string {
  const all = new Set(nodes.map((node) => typeOf(node, known)))
  all.delete('null')
  if (all.size === 1) return [...all][0] as string
  return all.size > 0 && [...all].every((type) => type === 'integer' || type === 'long') ? 'long' : ''
}

/** What is not said here by another construct: it is named, with what to write in its place. */
export function unsupported(what: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', `${what} is not taken here`, { code: 'sql_unsupported', remedy })
}
