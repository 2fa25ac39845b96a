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
  /** Of its text: places are counted in them. */
  readonly bytes: Buffer
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

/** What a query hands on under names that stand beside it: `(SELECT …) q(a, b)`, WITH `q(a, b)`. */
function columnsGiven(node: TreeNode, known: { readonly types: Types }): readonly (readonly [string, string])[] {
  const names = node.type === 'SUBQUERY' ? node.column_name_alias : node.aliases
  if (!Array.isArray(names) || names.length === 0) return []
  const types = typesOf(((node.subquery ?? node.query) as TreeNode | undefined)?.node as TreeNode | undefined, known)
  return names.map((name, at) => [String(name), types[at] ?? ''] as const)
}

/** Of the columns of a query as far as no star stands before them. */
function typesOf(query: TreeNode | undefined, known: { readonly types: Types }): readonly string[] {
  if (query?.type === 'SET_OPERATION_NODE') {
    const right = typesOf(query.right as TreeNode, known)
    return typesOf(query.left as TreeNode, known).map((type, at) => eitherOf(type, right[at] ?? ''))
  }
  const items = query?.type === 'SELECT_NODE' ? (query.select_list as readonly TreeNode[]) : []
  const star = items.findIndex(({ class: kind }) => kind === 'STAR')
  return items.slice(0, star < 0 ? items.length : star).map((item) => typeOf(item, known))
}

/** With the columns that the queries of a tree name, the inner ones first: their types hang on each other. */
export function namedTypes(tree: unknown, types: Types): Types {
  if (typeof tree !== 'object' || tree === null || 'rawJSON' in tree) return types
  let known = types
  for (const part of Object.values(tree)) known = namedTypes(part, known)
  const node = tree as TreeNode
  known = withTypes(known, columnsGiven(node, { types: known }))
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
  TIMESTAMP: 'timestamp',
  'TIMESTAMP WITH TIME ZONE': 'timestamptz',
  INTERVAL: 'interval',
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
    case 'SUBQUERY':
      return node.subquery_type === 'SCALAR'
        ? (typesOf((node.subquery as TreeNode).node as TreeNode, { types })[0] ?? '')
        : ''
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
  if (INTERVALS.test(name)) return 'interval'
  if (name === 'now' || name === 'date_trunc') return 'timestamptz'
  if (name === 'avg' && typeOf(children[0], known) === 'interval') return 'interval'
  if (name === 'sum') return { integer: 'long', long: 'decimal(38,0)' }[typeOf(children[0], known)] ?? ''
  if (/^[-+*]$/.test(name)) return ofMoments(name, children, known) ?? widest(children, known)
  return /^\/\/?$/.test(name) || name === 'greatest' || name === 'least' ? widest(children, known) : ''
}

const INTERVALS =
  /^(?:age|to_(?:microseconds|milliseconds|seconds|minutes|hours|days|weeks|months|quarters|years|decades|centuries|millennia))$/

/** Between moments lies an interval, and so many times one is one as well; null where there is neither. */
function ofMoments(name: string, children: readonly TreeNode[], known: { readonly types: Types }): string | null {
  const types = children.map((one) => typeOf(one, known))
  const moments = types.filter((type) => /^(?:date$|timestamp)/.test(type))
  if (types.includes('interval')) return moments[0] === undefined ? 'interval' : 'timestamp'
  if (name === '-' && types.length === 2 && types.every((type) => type === 'date')) return 'integer'
  const isBetween = name === '-' && moments.some((type) => type !== 'date') && types.length === 2
  return isBetween ? 'interval' : null
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
