/** How calls of functions and operators are put otherwise, by the name that the engine's parser gives them. */
import type { TreeNode } from '../guard/tree.ts'
import { dateOf, dateText, momentOf } from './formats.ts'
import { holdsMacro, type MacroName } from './macros.ts'
import { call, callMacro, cast, childrenOf, not, number, numberOf, renamed, text, textOf } from './nodes.ts'
import { ofPattern, re2Of } from './pattern-calls.ts'
import { MAYBE_LONG, type Rewrite, type Rewriting, typeOf } from './rewriting.ts'

const rename =
  (name: string): Rewrite =>
  (node) =>
    renamed(node, name)

/** As a macro, where it has so many arguments. */
const byMacro =
  (name: MacroName, ...counts: readonly number[]): Rewrite =>
  (node) =>
    counts.includes(childrenOf(node).length) ? callMacro(name, childrenOf(node), node) : node

/** A `real` beside another type is taken for a double. */
function widened(node: TreeNode, rewriting: Rewriting): TreeNode {
  const children = childrenOf(node)
  const isReal = children.map((child) => typeOf(child, rewriting) === 'float')
  if (children.length < 2 || !isReal.includes(true) || !isReal.includes(false)) return node
  return { ...node, children: children.map((child, at) => (isReal[at] ? cast(child, 'DOUBLE', child) : child)) }
}

/** Days between dates are an integer. */
const subtracted: Rewrite = (node, rewriting) => {
  const areDates = childrenOf(node).length === 2 && childrenOf(node).every((one) => typeOf(one, rewriting) === 'date')
  return areDates ? asInteger(node, rewriting) : widened(node, rewriting)
}

const integerOfIntegers: Rewrite = (node, rewriting) =>
  childrenOf(node).every((one) => typeOf(one, rewriting) === 'integer') ? asInteger(node, rewriting) : node

/** Of whole numbers and of `real`, these give doubles. */
const asDouble = (node: TreeNode, rewriting: Rewriting): TreeNode => {
  const [value, ...more] = childrenOf(node)
  const type = typeOf(value, rewriting)
  const isOther = value !== undefined && more.length === 0 && ['float', 'integer', 'long'].includes(type)
  return isOther ? { ...node, children: [cast(value, 'DOUBLE', value)] } : node
}

/** Of `bigint` a `numeric`, which is divided as one; of `real` a `real`. */
const summed: Rewrite = (node, rewriting) => {
  const type = typeOf(childrenOf(node)[0], rewriting)
  const bare = { ...node, alias: '' }
  if (type === 'float') return cast(bare, 'FLOAT', node)
  return type === 'long' ? wholeNumeric(bare, node) : type === MAYBE_LONG ? call('+', [bare, zero(node)], node) : node
}

/** Added to a whole number it makes a decimal of it, and nothing else of a decimal. */
const zero = (node: TreeNode): TreeNode => wholeNumeric(number(0, node), { ...node, alias: '' })

const wholeNumeric = (child: TreeNode, node: TreeNode): TreeNode => {
  const info = { type: 'DECIMAL_TYPE_INFO', alias: '', extension_info: null, width: 38, scale: 0 }
  return { ...cast(child, 'DECIMAL', node), cast_type: { id: 'DECIMAL', type_info: info } }
}

/** Whole numbers give whole ones, and nothing is divided by nought. */
const divided: Rewrite = (given, rewriting) => {
  const node = widened(given, rewriting)
  const [left, right] = childrenOf(node)
  if (left === undefined || right === undefined) return node
  const divisor = nonzero(right, node)
  return { ...node, function_name: typeOf(left, rewriting) === 'interval' ? '/' : '//', children: [left, divisor] }
}

const nonzero = (divisor: TreeNode, node: TreeNode): TreeNode =>
  (numberOf(divisor) ?? 0) !== 0
    ? divisor
    : callMacro(holdsMacro(divisor) ? 'nonzero_once' : 'nonzero', [divisor], node)

const remainder: Rewrite = (node) => {
  const [left, right] = childrenOf(node)
  return left === undefined || right === undefined ? node : { ...node, children: [left, nonzero(right, node)] }
}

/** A backslash takes what follows as it is, where no other letter was named for it. */
const escaped =
  (name: string): Rewrite =>
  (node) => {
    const [subject, pattern] = childrenOf(node)
    if (subject === undefined || pattern === undefined) return node
    const plain = textOf(pattern)
    return plain !== null && !plain.includes('\\') ? node : call(name, [subject, pattern, text('\\', node)], node)
  }

const matching =
  (name: 'matches' | 'matches_anycase', isNot: boolean): Rewrite =>
  (node, rewriting) => {
    const [subject, pattern] = childrenOf(node)
    if (subject === undefined || pattern === undefined) return node
    const told = ofPattern(subject, pattern, name, node, rewriting)
    return isNot ? not(told, node) : told
  }

const regexpReplace: Rewrite = (node, rewriting) => {
  const [subject, pattern, by, flags, ...more] = childrenOf(node)
  if (subject === undefined || pattern === undefined || by === undefined || more.length > 0) return node
  const own = flags === undefined ? '' : textOf(flags)
  if (own === null || /[^gi]/.test(own)) return node
  const options = text(`s${own}`, node)
  return { ...node, children: [subject, re2Of(pattern, node, rewriting), by, options] }
}

const regexpLike: Rewrite = (node, rewriting) => {
  const [subject, pattern, flags] = childrenOf(node)
  if (subject === undefined || pattern === undefined) return node
  const own = flags === undefined ? '' : textOf(flags)
  if (own !== '' && own !== 'i') throw rewriting.refused('regexp_like with these flags', 'Leave them out, or write i.')
  return ofPattern(subject, pattern, own === 'i' ? 'matches_anycase' : 'matches', node, rewriting)
}

const substring: Rewrite = (node, rewriting) => {
  const [subject, from, count, ...more] = childrenOf(node)
  if (subject === undefined || from === undefined || more.length > 0) return node
  const pattern = textOf(from)
  if (pattern !== null && count === undefined) {
    const name = /(?<!\\)\((?!\?)/.test(pattern) ? 'substring_group' : 'substring_matching'
    return ofPattern(subject, from, name, node, rewriting)
  }
  const [first, length] = [numberOf(from), count === undefined ? 0 : numberOf(count)]
  if (first !== null && first > 0 && length !== null && length >= 0) return node
  return count === undefined
    ? callMacro('substring_from', [subject, from], node)
    : callMacro('substring', [subject, from, count], node)
}

const WHOLE_FIELDS = new Set(
  'year month day hour minute quarter week dow isodow doy decade century millennium isoyear microsecond microseconds timezone julian'.split(
    ' ',
  ),
)
const FIELD_NAMES: Readonly<Record<string, string>> = { microseconds: 'microsecond' }

/** Numbers with the digits that PostgreSQL gives: `second` has a fraction. `date_part` tells the same as a double. */
const datePart: Rewrite = (node) => {
  const [field, moment] = childrenOf(node)
  const name = textOf(field)?.toLowerCase()
  if (name === undefined || moment === undefined) return node
  // EXTRACT is written so by the parser; what is called by its name is not.
  const isExtract = node.schema === 'main'
  const told = (own: string) => call('date_part', [text(own, node), moment], node)
  const part = ofField(name, told, moment, node)
  return part === null || isExtract ? (part ?? node) : cast(part, 'DOUBLE', node)
}

function ofField(name: string, told: (own: string) => TreeNode, moment: TreeNode, node: TreeNode): TreeNode | null {
  if (name === 'second' || name === 'seconds') return callMacro('seconds', [told('microsecond')], node)
  if (name === 'milliseconds' || name === 'millisecond') return callMacro('milliseconds', [told('microsecond')], node)
  if (name === 'epoch') return callMacro('seconds', [call('epoch_us', [moment], node)], node)
  if (!WHOLE_FIELDS.has(name) || name === 'julian') return null
  return callMacro('whole', [told(FIELD_NAMES[name] ?? name)], node)
}

const dateTrunc: Rewrite = (node) => {
  const [unit, moment, zone] = childrenOf(node)
  if (unit === undefined || moment === undefined) return node
  if (zone !== undefined) return callMacro('trunc_in_zone', [unit, moment, zone], node)
  // Centuries begin with their year 1 there, and with their year 0 here.
  return /^(?:century|millennium)$/i.test(textOf(unit) ?? '') ? callMacro('trunc_years', [unit, moment], node) : node
}

const asPart = (node: TreeNode): TreeNode => (textOf(node) === null ? callMacro('part', [node], node) : node)

const concat: Rewrite = (node) => ({ ...node, children: childrenOf(node).map(asPart) })

const concatWith: Rewrite = (node) => {
  const [between, ...rest] = childrenOf(node)
  return between === undefined ? node : { ...node, children: [between, ...rest.map(asPart)] }
}

/** `%s` alone: names and literals are written into statements, which nothing here runs. */
const format: Rewrite = (node, rewriting) => {
  const [pattern, ...values] = childrenOf(node)
  const plain = textOf(pattern)
  const marks = plain?.match(/%./g) ?? []
  if (plain === null || marks.some((mark) => mark !== '%s' && mark !== '%%') || /%$/.test(plain.replaceAll('%%', ''))) {
    throw rewriting.refused('a format that is no constant, or has more than %s', 'Put the parts together by concat().')
  }
  if (marks.filter((mark) => mark === '%s').length !== values.length) {
    throw rewriting.refused('a format with another number of %s than values', 'Give a value for each.')
  }
  const rest = [...values]
  const parts = plain.split(/(%.)/).map((piece) => {
    const value = piece === '%s' ? rest.shift() : undefined
    return value === undefined ? text(piece === '%%' ? '%' : piece, node) : asPart(value)
  })
  return call('concat', parts, node)
}

const list: Rewrite = (node) => call('to_json', [{ ...renamed(node, 'array_agg'), alias: '' }], node)

const bounds =
  (write: (array: TreeNode, node: TreeNode) => TreeNode): Rewrite =>
  (node, rewriting) => {
    const [array, dimension] = childrenOf(node)
    if (array === undefined || numberOf(dimension) !== 1)
      throw rewriting.refused('an array of more than one dimension', 'Ask for 1.')
    return write(array, node)
  }

const log: Rewrite = (node) => {
  const [first, second] = childrenOf(node)
  if (first === undefined) return node
  const checked = (one: TreeNode) => callMacro('logarithm', [one], node)
  return { ...node, children: second === undefined ? [checked(first)] : [checked(first), checked(second)] }
}

const root: Rewrite = (node) => {
  const [first] = childrenOf(node)
  return first === undefined ? node : { ...node, children: [callMacro('rooted', [first], node)] }
}

/** Lengths are integers there. */
const asInteger: Rewrite = (node) => cast({ ...node, alias: '' }, 'INTEGER', node)

const round: Rewrite = (given, rewriting) => {
  const node = asDouble(given, rewriting)
  return childrenOf(node).length === 1 ? callMacro('round', childrenOf(node), node) : node
}

/** The engine has no names for the members of a ROW. */
const rowToJson: Rewrite = (node, { refused }) => {
  if (childrenOf(node)[0]?.function_name !== 'row') return node
  throw refused('row_to_json of a ROW', 'Write json_build_object(name, value, …).')
}

const pad =
  (name: 'pad_left' | 'pad_right'): Rewrite =>
  (node) => {
    const [subject, length, by] = childrenOf(node)
    if (subject === undefined || length === undefined) return node
    return callMacro(name, [subject, length, by ?? text(' ', node)], node)
  }

export const FUNCTIONS: Readonly<Record<string, Rewrite>> = {
  '+': widened,
  '-': subtracted,
  gcd: integerOfIntegers,
  lcm: integerOfIntegers,
  ntile: (node, rewriting) => asInteger(node, rewriting),
  '*': widened,
  '/': divided,
  sum: summed,
  ceil: asDouble,
  ceiling: asDouble,
  floor: asDouble,
  trunc: asDouble,
  sign: asDouble,
  row_to_json: rowToJson,
  '%': remainder,
  mod: remainder,
  div: byMacro('quotient', 2),
  '~~': escaped('like_escape'),
  '!~~': escaped('not_like_escape'),
  '~~*': escaped('ilike_escape'),
  '!~~*': escaped('not_ilike_escape'),
  '~*': matching('matches_anycase', false),
  '!~': matching('matches', true),
  '!~*': matching('matches_anycase', true),
  regexp_like: regexpLike,
  regexp_replace: regexpReplace,
  substring,
  substr: substring,
  date_part: datePart,
  date_trunc: dateTrunc,
  concat,
  concat_ws: concatWith,
  format,
  to_hex: byMacro('hexed', 1),
  power: byMacro('power', 2),
  pow: byMacro('power', 2),
  '^': byMacro('power', 2),
  exp: byMacro('exp', 1),
  pg_typeof: byMacro('type_name', 1),
  array_remove: byMacro('without', 2),
  array_upper: bounds((array, node) => cast(call('len', [array], node), 'INTEGER', node)),
  array_lower: bounds((array, node) =>
    cast(call('least', [number(1, node), call('len', [array], node)], node), 'INTEGER', node),
  ),
  array_to_string: byMacro('joined_with', 3),
  ln: log,
  log,
  log10: log,
  sqrt: root,
  round,
  length: asInteger,
  char_length: asInteger,
  character_length: asInteger,
  strpos: asInteger,
  position: asInteger,
  instr: asInteger,
  ascii: asInteger,
  octet_length: (node, rewriting) => asInteger(byMacro('octets', 1)(node, rewriting), rewriting),
  bit_length: asInteger,
  array_length: asInteger,
  cardinality: (node, rewriting) => asInteger(renamed(node, 'len'), rewriting),
  json_array_length: asInteger,
  jsonb_array_length: (node, rewriting) => asInteger(renamed(node, 'json_array_length'), rewriting),
  every: rename('bool_and'),
  btrim: rename('trim'),
  json_build_object: rename('json_object'),
  jsonb_build_object: rename('json_object'),
  json_build_array: rename('json_array'),
  jsonb_build_array: rename('json_array'),
  to_jsonb: rename('to_json'),
  json_agg: list,
  jsonb_agg: list,
  json_object_agg: rename('json_group_object'),
  jsonb_object_agg: rename('json_group_object'),
  json_typeof: byMacro('json_type', 1),
  jsonb_typeof: byMacro('json_type', 1),
  statement_timestamp: rename('now'),
  clock_timestamp: rename('now'),
  initcap: byMacro('initcap', 1),
  split_part: byMacro('split_part', 3),
  replace: byMacro('replace', 3),
  repeat: byMacro('repeat', 2),
  lpad: pad('pad_left'),
  rpad: pad('pad_right'),
  width_bucket: byMacro('width_bucket', 4),
  date_bin: byMacro('date_bin', 3),
  to_char: dateText,
  to_date: dateOf,
  to_timestamp: momentOf,
}
