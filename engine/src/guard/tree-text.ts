import type { TreeNode } from './tree.ts'

/**
 * The tree's JSON, read and written without loss. DuckDB writes numbers that JavaScript would round (places of 2^64−1,
 * 128-bit halves) and tells 100000.0 from 100000; such numbers are kept as the text that they were.
 */

interface RawJson {
  readonly rawJSON: string
}

type Reviver = (key: string, value: unknown, context: { readonly source: string }) => unknown
const json = JSON as unknown as {
  parse(text: string, reviver: Reviver): unknown
  rawJSON(text: string): RawJson
}

const PLAIN_NUMBER = /^-?\d{1,15}$/

/** A text of JSON, or a number that JSON has not: 1e400 is infinite. */
const TEXT_OR_INFINITE = /"(?:[^"\\]|\\.)*"|-?Infinity|-?NaN/g

export function parseTree(text: string): TreeNode {
  const source = /Infinity|NaN/.test(text) ? text.replace(TEXT_OR_INFINITE, (found) => quoted(found)) : text
  return json.parse(source, (_key, value, { source }) =>
    typeof value === 'number' && !PLAIN_NUMBER.test(source) ? json.rawJSON(source) : value,
  ) as TreeNode
}

const quoted = (found: string): string => (found.startsWith('"') ? found : `"${found}"`)

/**
 * The tree as JSON, with every DOUBLE constant as a cast of its text: DuckDB writes 1e5 down as 100000.0, which reads
 * back as a DECIMAL and computes differently.
 */
export function writeTree(tree: TreeNode): string {
  return JSON.stringify(tree, (_key, value: unknown) => (isDouble(value) ? castFromText(value) : value))
}

interface DoubleConstant {
  readonly alias: unknown
  readonly query_location: unknown
  readonly value: { readonly value: RawJson | number | string }
}

function isDouble(value: unknown): value is DoubleConstant {
  if (typeof value !== 'object' || value === null) return false
  const node = value as TreeNode
  if (node.class !== 'CONSTANT') return false
  const constant = node.value as TreeNode
  return constant.is_null === false && (constant.type as TreeNode).id === 'DOUBLE'
}

function castFromText(node: DoubleConstant): TreeNode {
  const { alias, query_location } = node
  const number = node.value.value
  const text = typeof number === 'object' ? number.rawJSON : String(number)
  const value = { type: { id: 'VARCHAR', type_info: null }, is_null: false, value: text }
  return {
    class: 'CAST',
    type: 'OPERATOR_CAST',
    alias,
    query_location,
    child: { class: 'CONSTANT', type: 'VALUE_CONSTANT', alias: '', query_location, value },
    cast_type: { id: 'DOUBLE', type_info: null },
    try_cast: false,
  }
}
