/**
 * A statement of PostgreSQL's dialect as the engine is to run it. What both read differently is put otherwise in the tree that the
 * engine's own parser has made; the guard judges the tree that comes of it, so that nothing which it refuses can come in this way.
 * What cannot be put otherwise is refused by name.
 */
import { type SqlSource, sqlNotAllowed } from '@sluice/sdk'
import type { TreeNode } from '../guard/tree.ts'
import { ofCast } from './casts.ts'
import { FUNCTIONS } from './functions.ts'
import { isReserved } from './macros.ts'
import { namedParts, withColumnName } from './names.ts'
import { callMacro, cast, childrenOf, text, textOf } from './nodes.ts'
import { ofPattern } from './pattern-calls.ts'
import { similarAsRe2 } from './patterns.ts'
import { type KnownParts, namedTypes, type Rewriting, unsupported } from './rewriting.ts'

export function fromPostgresql(tree: TreeNode, source: SqlSource, known: KnownParts): TreeNode {
  const types = namedTypes(tree, known.types)
  const rewriting: Rewriting = { ...known, types, source, bytes: Buffer.from(source.text), refused: unsupported }
  return rewritten(tree, rewriting) as TreeNode
}

/** Inner parts first; what is no node of its own is gone through all the same. */
function rewritten(value: unknown, rewriting: Rewriting): unknown {
  if (Array.isArray(value)) return value.map((one) => rewritten(one, rewriting))
  if (typeof value !== 'object' || value === null || 'rawJSON' in value) return value
  const node = value as TreeNode
  // Constants hold nothing that is run.
  if (node.class === 'CONSTANT') return node
  const own = namedParts(node, rewriting.types)
  const parts = Object.entries(own).map(([name, field]) => [name, rewritten(field, rewriting)] as const)
  return ofNode(Object.fromEntries(parts), rewriting)
}

function ofNode(node: TreeNode, rewriting: Rewriting): TreeNode {
  if ('null_order' in node) return ordered(node)
  if (node.class === 'CAST') return ofCast(node, wordAt(node, rewriting), rewriting)
  if (node.type === 'TABLE_FUNCTION') return withColumnName(node)
  if (node.type === 'GROUPING_FUNCTION') return cast({ ...node, alias: '' }, 'INTEGER', node)
  if (node.class === 'OPERATOR' && node.type === 'OPERATOR_NOT') return ofNot(node, rewriting)
  if (node.class !== 'FUNCTION' && node.class !== 'WINDOW') return node
  const name = String(node.function_name).toLowerCase()
  // Of another schema it is another function, and the guard's to refuse.
  if ((node.schema !== '' && node.schema !== 'main') || node.catalog !== '') return node
  if (isReserved(name)) throw sqlNotAllowed(`the function ${name.slice(0, 80)}`, rewriting.source, null)
  if (name === 'regexp_full_match') return ofFullMatch(node, node, rewriting)
  // A name may be one that every object has (`__proto__`).
  const rewrite = Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined
  return rewrite === undefined ? node : rewrite(node, rewriting)
}

/** Nulls are larger than any value: last where it goes up, and first where it goes down. */
function ordered(node: TreeNode): TreeNode {
  if (node.null_order !== 'ORDER_DEFAULT') return node
  return { ...node, null_order: node.type === 'DESCENDING' ? 'NULLS FIRST' : 'NULLS LAST' }
}

/** `!~` and NOT SIMILAR TO, whose place is told of the NOT alone. */
function ofNot(node: TreeNode, rewriting: Rewriting): TreeNode {
  const [child] = childrenOf(node)
  if (child?.function_name !== 'regexp_full_match' || wordAt(child, rewriting) !== '') return node
  return { ...node, children: [ofFullMatch(child, node, rewriting)] }
}

/** The engine's parser makes the same of `~` and of SIMILAR TO: which of them it was stands in the text. */
function ofFullMatch(node: TreeNode, told: TreeNode, rewriting: Rewriting): TreeNode {
  const [subject, pattern, ...more] = childrenOf(node)
  if (subject === undefined || pattern === undefined) return node
  const word = wordAt(told, rewriting)
  if (/^!?~/.test(word)) return ofPattern(subject, pattern, 'matches', node, rewriting)
  if (!/^(?:not\s+)?similar\b/i.test(word) || more.length > 0) return node
  const plain = textOf(pattern)
  if (plain === null) return callMacro('similar', [subject, pattern], node)
  const escape = '\\'
  return { ...node, children: [subject, text(similarAsRe2(plain, escape), node), text('s', node)] }
}

/** Of what is looked for in it: a cast may have its type far behind. */
const MOST_BYTES = 20_000

const NOT_KNOWN = /^18446744073709551615$/

/** Of the statement's text, what stands where the node was made; empty where that is not told. */
function wordAt(node: TreeNode, { source, bytes }: Rewriting): string {
  const place = node.query_location
  const told =
    typeof place === 'object' && place !== null ? String((place as { rawJSON?: string }).rawJSON) : String(place)
  if (NOT_KNOWN.test(told)) return ''
  const at = Number(told) - source.leadBytes
  return bytes.toString('utf8', at, at + MOST_BYTES)
}
