/** Nodes of a statement's tree, as the engine's parser makes them. */
import type { TreeNode } from '../guard/tree.ts'
import { type MacroName, macro } from './macros.ts'

export const childrenOf = (node: TreeNode): readonly TreeNode[] => node.children as readonly TreeNode[]

export function call(name: string, children: readonly TreeNode[], at: TreeNode): TreeNode {
  return {
    class: 'FUNCTION',
    type: 'FUNCTION',
    alias: at.alias ?? '',
    query_location: at.query_location,
    function_name: name,
    schema: '',
    children: children.map((child) =>
      child.alias === undefined || child.alias === '' ? child : { ...child, alias: '' },
    ),
    filter: null,
    order_bys: { type: 'ORDER_MODIFIER', orders: [] },
    distinct: false,
    is_operator: false,
    export_state: false,
    catalog: '',
  }
}

export const callMacro = (name: MacroName, children: readonly TreeNode[], at: TreeNode): TreeNode =>
  call(macro(name), children, at)

/** With all that stands beside its arguments: FILTER, DISTINCT, ORDER BY, OVER. */
export const renamed = (node: TreeNode, name: string): TreeNode => ({ ...node, function_name: name, schema: '' })

export function text(value: string, at: TreeNode): TreeNode {
  return constant('VARCHAR', value, at)
}

export function number(value: number, at: TreeNode): TreeNode {
  return constant('INTEGER', value, at)
}

function constant(id: string, value: string | number, at: TreeNode): TreeNode {
  return {
    class: 'CONSTANT',
    type: 'VALUE_CONSTANT',
    alias: '',
    query_location: at.query_location,
    value: { type: { id, type_info: null }, is_null: false, value },
  }
}

export function cast(child: TreeNode, id: string, at: TreeNode): TreeNode {
  return {
    class: 'CAST',
    type: 'OPERATOR_CAST',
    alias: at.alias ?? '',
    query_location: at.query_location,
    child: { ...child, alias: '' },
    cast_type: { id, type_info: null },
    try_cast: false,
  }
}

export function not(child: TreeNode, at: TreeNode): TreeNode {
  return {
    class: 'OPERATOR',
    type: 'OPERATOR_NOT',
    alias: at.alias ?? '',
    query_location: at.query_location,
    children: [{ ...child, alias: '' }],
  }
}

/** Of a constant that is there; null of anything else. */
export function constantOf(node: TreeNode | undefined): { readonly id: string; readonly value: unknown } | null {
  if (node?.class !== 'CONSTANT') return null
  const { type, is_null, value } = node.value as { type: TreeNode; is_null: boolean; value: unknown }
  return is_null ? null : { id: String(type.id), value }
}

export function textOf(node: TreeNode | undefined): string | null {
  const found = constantOf(node)
  return found?.id === 'VARCHAR' ? String(found.value) : null
}

/** A constant that is a number, its sign before it. */
export function numberOf(node: TreeNode | undefined): number | null {
  if (node?.class === 'FUNCTION' && node.function_name === '-' && childrenOf(node).length === 1) {
    const inner = numberOf(childrenOf(node)[0])
    return inner === null ? null : -inner
  }
  const found = constantOf(node)
  if (found === null || !/INT|DECIMAL|DOUBLE/.test(found.id)) return null
  const { value } = found
  const raw = typeof value === 'object' && value !== null ? (value as { rawJSON?: string }).rawJSON : value
  const told = Number(raw)
  return Number.isFinite(told) ? told : null
}
