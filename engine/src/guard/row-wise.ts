/** Whether a statement makes each of its rows of one row of its only table, whatever other rows that has. */
import { AGGREGATE_FUNCTIONS } from './functions.ts'
import { isStable } from './stability.ts'
import { foldName, type TreeNode } from './tree.ts'

/** Expressions that say of a row what they say, and that have nothing but such in them. */
const OF_A_ROW: ReadonlySet<string> = new Set([
  'BETWEEN',
  'CASE',
  'CAST',
  'COLLATE',
  'COLUMN_REF',
  'COMPARISON',
  'CONJUNCTION',
  'CONSTANT',
  'FUNCTION',
  'LAMBDA',
  'OPERATOR',
  'STAR',
])
/** Functions that make several rows of one. */
const MULTIPLYING: ReadonlySet<string> = new Set(['unnest', 'unlist', 'generate_subscripts'])
const OPERATORS_OF_SEVERAL: ReadonlySet<string> = new Set(['GROUPING_FUNCTION', 'OPERATOR_UNPACK'])

/**
 * Of a tree that the guard has let through. What is not known to be so is not: joins, queries in queries, groups, windows, DISTINCT,
 * ORDER BY, LIMIT, samples, and what goes by the clock or by chance.
 */
export function isRowWise(tree: TreeNode): boolean {
  const node = onlyStatement(tree)
  if (node === null || !isStable(tree)) return false
  const from = node.from_table as TreeNode | null
  const isOne = from?.type === 'BASE_TABLE' && isNone(node.group_expressions) && isNone(node.group_sets)
  const isWhole = (node.having ?? null) === null && (from?.sample ?? null) === null
  const isUngrouped = node.aggregate_handling === 'STANDARD_HANDLING'
  return isOne && isWhole && isUngrouped && isOfARow([node.select_list, node.where_clause])
}

/** The SELECT of a tree that is nothing but one, without WITH, QUALIFY, DISTINCT, ORDER BY, LIMIT and samples. */
export function onlyStatement(tree: TreeNode): TreeNode | null {
  const [statement, ...others] = tree.statements as readonly TreeNode[]
  const node = statement?.node as TreeNode | undefined
  if (node?.type !== 'SELECT_NODE' || others.length > 0) return null
  const isPlain = isNone(node.modifiers) && isNone((node.cte_map as TreeNode | undefined)?.map)
  const isWhole = (node.qualify ?? null) === null && (node.sample ?? null) === null
  return isPlain && isWhole ? node : null
}

export const isNone = (list: unknown): boolean => Array.isArray(list) && list.length === 0

/** Of whatever has a class, and all that lies in it, unless somebody else looks at that. */
export function isOfARow(
  value: unknown,
  rest: 'and what lies in it' | 'without what lies in it' = 'and what lies in it',
): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (!saysOfARow(value as TreeNode)) return false
  return rest === 'without what lies in it' || Object.values(value).every((inner) => isOfARow(inner))
}

function saysOfARow(node: TreeNode): boolean {
  if ('node' in node) return false
  if (node.class === undefined) return true
  if (!OF_A_ROW.has(String(node.class)) || OPERATORS_OF_SEVERAL.has(String(node.type))) return false
  if (node.class !== 'FUNCTION') return true
  const name = foldName(String(node.function_name))
  const isFiltered = (node.filter ?? null) !== null || node.distinct === true
  return !AGGREGATE_FUNCTIONS.has(name) && !MULTIPLYING.has(name) && !isFiltered
}
