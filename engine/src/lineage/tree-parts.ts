/** What a part of the tree of a statement is, by itself. */
import { AGGREGATE_FUNCTIONS, ORDERED_AGGREGATES } from '../guard/functions.ts'
import { foldName, type TreeNode } from '../guard/tree.ts'
import type { Field } from './relation.ts'

/** The outermost nodes of a kind, those of inner queries left out. */
export function nodesIn(node: unknown, isWanted: (node: TreeNode) => boolean): readonly TreeNode[] {
  if (typeof node !== 'object' || node === null) return []
  if (isWanted(node as TreeNode)) return [node as TreeNode]
  return (node as TreeNode).class === 'SUBQUERY' ? [] : Object.values(node).flatMap((one) => nodesIn(one, isWanted))
}

const SEVERAL_ROWS: ReadonlySet<string> = new Set(['unnest', 'generate_subscripts'])

/** What is seen on other columns of its row, or on how many rows there are. */
export function marksRows(node: TreeNode): boolean {
  return node.class === 'WINDOW' || (node.class === 'FUNCTION' && SEVERAL_ROWS.has(functionName(node)))
}

/** What depends on the order in which rows come. */
export function asksForPlace(node: TreeNode): boolean {
  return node.class === 'WINDOW' || (node.class === 'FUNCTION' && ORDERED_AGGREGATES.has(functionName(node)))
}

export function isAggregate(node: TreeNode): boolean {
  return node.class === 'FUNCTION' && AGGREGATE_FUNCTIONS.has(functionName(node))
}

function functionName(node: TreeNode): string {
  return foldName(String(node.function_name))
}

/** Not by its number, nor as one of all. */
export function isNamed(expression: TreeNode): boolean {
  return expression.class !== 'CONSTANT' && expression.class !== 'STAR'
}

export function outputName(item: TreeNode): string {
  if (item.alias !== '') return String(item.alias)
  return item.class === 'COLUMN_REF' ? String((item.column_names as readonly string[]).at(-1)) : ''
}

/** True for expressions that become several columns: COLUMNS(…) anywhere, unnest of a struct. */
export function makesColumns(node: unknown): boolean {
  if (Array.isArray(node)) return node.some((item) => makesColumns(item))
  if (typeof node !== 'object' || node === null) return false
  const { class: kind, function_name: name } = node as TreeNode
  if (kind === 'STAR' || (kind === 'FUNCTION' && foldName(String(name)) === 'unnest')) return true
  if (kind === 'SUBQUERY') return false
  return Object.values(node).some((field) => makesColumns(field))
}

export function relationNames(node: TreeNode): readonly string[] {
  if (node.alias !== '' && node.alias !== undefined) return [String(node.alias)]
  if (node.type !== 'BASE_TABLE') return []
  return [String(node.schema_name), String(node.table_name)].filter((name) => name !== '')
}

export function columnRefsIn(node: unknown): readonly (readonly string[])[] {
  if (typeof node !== 'object' || node === null) return []
  const { class: kind, column_names: names } = node as TreeNode
  return kind === 'COLUMN_REF' ? [names as readonly string[]] : Object.values(node).flatMap(columnRefsIn)
}

/** The items of a select list that other clauses can call by a name. */
export function namedOnly(fields: readonly Field[] | null, list: readonly TreeNode[]): readonly Field[] | null {
  if (fields) return fields.filter((field) => field.name !== '')
  return list.every((item) => item.alias === '') ? [] : null
}
