/** What columns are called that nobody has named: by the function, or by the last part of what they are. */
import type { TreeNode } from '../guard/tree.ts'
import { childrenOf } from './nodes.ts'

const NOBODYS = '?column?'

/** As the parser calls it, and as it was written. */
const WRITTEN: Readonly<Record<string, string>> = {
  count_star: 'count',
  list_value: 'array',
  array_value: 'array',
  map: NOBODYS,
  array_extract: 'array',
  struct_extract: NOBODYS,
  regexp_full_match: NOBODYS,
  like_escape: NOBODYS,
  not_like_escape: NOBODYS,
  ilike_escape: NOBODYS,
  not_ilike_escape: NOBODYS,
  quantile_cont: 'percentile_cont',
  quantile_disc: 'percentile_disc',
  trim: 'btrim',
}
const TYPE_NAMES: Readonly<Record<string, string>> = {
  INTEGER: 'int4',
  BIGINT: 'int8',
  SMALLINT: 'int2',
  DOUBLE: 'float8',
  FLOAT: 'float4',
  DECIMAL: 'numeric',
  VARCHAR: 'text',
  BOOLEAN: 'bool',
  BLOB: 'bytea',
  'TIMESTAMP WITH TIME ZONE': 'timestamptz',
  'TIME WITH TIME ZONE': 'timetz',
}

export function nameOf(node: TreeNode): string {
  if (typeof node.alias === 'string' && node.alias !== '') return node.alias
  return strongName(node) ?? weakName(node) ?? NOBODYS
}

/** Null: it has none of its own. */
function strongName(node: TreeNode): string | null {
  switch (node.class) {
    case 'COLUMN_REF':
      return String((node.column_names as readonly string[]).at(-1))
    case 'FUNCTION':
    case 'WINDOW':
      return ofCall(node)
    case 'CAST':
      return strongName(node.child as TreeNode)
    case 'SUBQUERY':
      return ofSubquery(node)
    case 'OPERATOR':
      return ofOperator(node)
    case 'COLLATE':
      return strongName(node.child as TreeNode)
    case 'CASE':
      return strongName(node.else_expr as TreeNode)
    default:
      return null
  }
}

/** Where nothing else has a name. */
function weakName(node: TreeNode): string | null {
  if (node.class === 'CASE') return 'case'
  if (node.class === 'COLLATE') return weakName(node.child as TreeNode)
  if (node.class !== 'CAST') return null
  return typeName(node.cast_type as TypeNode)
}

interface TypeNode {
  readonly id: string
  readonly type_info: TreeNode | null
}

/** Arrays are called by what they are of. */
function typeName({ id, type_info: info }: TypeNode): string {
  if (id === 'LIST') return typeName(info?.child_type as TypeNode)
  return id === 'UNBOUND' ? String(info?.name) : (TYPE_NAMES[id] ?? id.toLowerCase())
}

function ofCall(node: TreeNode): string | null {
  const name = String(node.function_name).toLowerCase()
  if (node.is_operator === true || !/^[a-z_]/.test(name)) return null
  if (name === 'date_part' && node.schema === 'main') return 'extract'
  const own = Object.hasOwn(WRITTEN, name) ? WRITTEN[name] : undefined
  if (own === NOBODYS) return null
  return own ?? name
}

function ofOperator(node: TreeNode): string | null {
  if (node.type === 'OPERATOR_COALESCE') return 'coalesce'
  if (node.type === 'OPERATOR_NULLIF') return 'nullif'
  if (node.type === 'GROUPING_FUNCTION') return 'grouping'
  if (node.type === 'ARRAY_CONSTRUCTOR') return 'array'
  if (node.type === 'ARRAY_EXTRACT' || node.type === 'ARRAY_SLICE') return strongName(childrenOf(node)[0] as TreeNode)
  return null
}

function ofSubquery(node: TreeNode): string | null {
  if (node.subquery_type === 'EXISTS') return 'exists'
  if (node.subquery_type !== 'SCALAR') return null
  const inner = (node.subquery as TreeNode).node as TreeNode
  const [first] = (inner.select_list as readonly TreeNode[] | undefined) ?? []
  return first === undefined ? null : nameOf(first)
}

/** A query whose columns have the names that a statement around it would find them by. */
export function namedParts(node: TreeNode, columns: ReadonlyMap<string, string>): TreeNode {
  if (node.type !== 'SELECT_NODE') return node
  const items = node.select_list as readonly TreeNode[]
  const taken = new Set(items.map((item) => (isColumn(item) ? nameOf(item) : String(item.alias ?? '')).toLowerCase()))
  // These two read a name as that of the list first, and a PostgreSQL as a column's.
  const mayHide = node.having === null && node.qualify === null ? isOfColumn : () => false
  const named = items.map((item) => {
    if (item.class === 'STAR' || item.class === 'COLUMN_REF' || (typeof item.alias === 'string' && item.alias !== ''))
      return item
    const name = nameOf(item)
    // One that is there twice would be found by nobody; and of a column that is called so, the column would not.
    if (taken.has(name) || (columns.has(name) && !mayHide(item))) return item
    taken.add(name)
    return { ...item, alias: name }
  })
  return { ...node, select_list: named }
}

const isColumn = (node: TreeNode): boolean => node.class === 'COLUMN_REF'
/** `city::text` is called `city`. */
const isOfColumn = (node: TreeNode): boolean =>
  isColumn(node) || (node.class === 'CAST' && isOfColumn(node.child as TreeNode))

/** `generate_series(1, 3) AS g` has a column `g`. */
export function withColumnName(node: TreeNode): TreeNode {
  const alias = String(node.alias ?? '')
  const given = node.column_name_alias as readonly string[]
  if (alias === '' || given.length > 0) return node
  return { ...node, column_name_alias: [alias] }
}

/** Of all columns, by the statement as it was written; null of those behind a star, which is as many as there are. */
export function columnNames(tree: TreeNode): readonly (string | null)[] {
  const [statement] = tree.statements as readonly TreeNode[]
  let node = statement?.node as TreeNode | undefined
  while (node?.type === 'SET_OPERATION_NODE') node = node.left as TreeNode
  if (node?.type !== 'SELECT_NODE') return [null]
  return (node.select_list as readonly TreeNode[]).map((item) => (holdsStar(item) ? null : nameOf(item)))
}

/** Of an expression with COLUMNS(…) there are as many columns as it finds. */
function holdsStar(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { class: kind } = value as TreeNode
  return kind === 'STAR' || (kind !== 'SUBQUERY' && Object.values(value).some(holdsStar))
}
