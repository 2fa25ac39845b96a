/** Casts: the engine's parser forgets how long a text may be, and takes `numeric` for one of three places. */
import type { TreeNode } from '../guard/tree.ts'
import { call, callMacro, cast, number, text, textOf } from './nodes.ts'
import { type Rewriting, typeOf as typeOfColumn } from './rewriting.ts'

/** Whole numbers of 64 bits fit, and so do the digits of a double. */
const [MOST_DIGITS, PLACES] = [38, 15]

const WIDE = { type: 'DECIMAL_TYPE_INFO', alias: '', extension_info: null, width: MOST_DIGITS, scale: PLACES }

export function ofCast(node: TreeNode, written: string, rewriting: Rewriting): TreeNode {
  const { id, type_info: info } = node.cast_type as { id: string; type_info: TreeNode | null }
  const child = node.child as TreeNode
  if (id === 'UNBOUND') return asJson(node)
  // By its name it is another type, which the guard has to see: GEOMETRY is a BLOB with one.
  if (info !== null && (info.alias !== '' || info.extension_info !== null)) return node
  const type = typeOf(written)
  if (id === 'VARCHAR' && type !== null) return ofText(node, child, type, rewriting)
  if (id === 'DECIMAL' && type !== null && /^(?:numeric|decimal|dec)$/.test(type)) {
    const scale = scaleOf(child, rewriting)
    return scale === null
      ? callMacro('numeric', [child], node)
      : { ...node, cast_type: { id, type_info: { ...WIDE, scale } } }
  }
  if (id === 'BIT' && type !== null && /^bit\s*\(/.test(type))
    throw rewriting.refused('the type bit(n)', 'Cast to bit, or to text.')
  if (id === 'BLOB') return ofBytes(node, child)
  return node
}

/** Of what is cast, the places behind the point; null where they are not known. */
function scaleOf(child: TreeNode, rewriting: Rewriting): number | null {
  const type = typeOfColumn(child, rewriting)
  if (type === 'integer' || type === 'long') return 0
  const declared = /^decimal\(\d+,(\d+)\)$/.exec(type)?.[1]
  if (declared !== undefined) return Number(declared)
  const plain = /^\s*[-+]?\d*(?:\.(\d*))?\s*$/.exec(textOf(child) ?? 'none')
  return plain === null ? null : (plain[1] ?? '').length
}

function ofText(node: TreeNode, child: TreeNode, type: string, { refused }: Rewriting): TreeNode {
  if (/^(?:char|character|bpchar)\b(?! varying)/.test(type))
    throw refused(`the type ${type.slice(0, 40)}`, 'Cast to text or varchar(n).')
  const length = /^(?:varchar|character varying)\s*\(\s*(\d+)\s*\)$/.exec(type)?.[1]
  const plain = textOf(child) === null && child.class !== 'PARAMETER' ? callMacro('as_text', [child], node) : node
  if (length === undefined) return plain
  return call('left', [{ ...plain, alias: '' }, number(Number(length), node)], node)
}

/** `\x6162` is told by its digits, and other texts by their own bytes. */
function ofBytes(node: TreeNode, child: TreeNode): TreeNode {
  const plain = textOf(child)
  if (plain === null) return node
  if (/^\\x[0-9a-f]*$/i.test(plain)) return call('unhex', [text(plain.slice(2), node)], node)
  return plain.includes('\\') ? node : cast(call('encode', [text(plain, node)], node), 'BLOB', node)
}

function asJson(node: TreeNode): TreeNode {
  const type = node.cast_type as { id: string; type_info: TreeNode }
  if (String(type.type_info?.name).toLowerCase() !== 'jsonb') return node
  return { ...node, cast_type: { ...type, type_info: { ...type.type_info, name: 'json' } } }
}

/** Of `::type` or `CAST(… AS type)`, folded; null where it is written otherwise. */
function typeOf(written: string): string | null {
  const short = /^::\s*([a-z][a-z ]*?(?:\s*\([\d\s,]*\))?)(?=\s*(?:[^a-z\s(]|$|\b(?!varying|precision)[a-z]+))/i.exec(
    written,
  )?.[1]
  if (short !== undefined) return folded(firstType(short))
  if (!/^cast\s*\(/i.test(written)) return null
  const end = closing(written)
  const inner = end < 0 ? undefined : /\bas\s+([a-z][a-z ]*(?:\s*\([\d\s,]*\))?)\s*$/i.exec(written.slice(0, end))?.[1]
  return inner === undefined ? null : folded(inner)
}

/** Behind a type may follow words that are none of it. */
const firstType = (text: string): string =>
  /^(?:character varying|double precision|[a-z]+)(?:\s*\([^)]*\))?/i.exec(text)?.[0] ?? text

const folded = (text: string): string => text.toLowerCase().replace(/\s+/g, ' ').trim()

/** Where the parenthesis ends that is the first to open; -1: not in this text. */
function closing(text: string): number {
  let depth = 0
  for (const found of text.matchAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]/g)) {
    if (found[0] === '(') depth += 1
    if (found[0] === ')' && --depth === 0) return found.index
  }
  return -1
}
