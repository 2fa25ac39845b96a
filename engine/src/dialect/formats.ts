/** `to_char`, `to_date` and `to_timestamp`: their format says of the statement how it is put otherwise, and so it has to be known. */
import type { TreeNode } from '../guard/tree.ts'
import { call, callMacro, cast, childrenOf, number, text, textOf } from './nodes.ts'
import type { Rewrite, Rewriting } from './rewriting.ts'

const REMEDY = 'Write the format as a constant, of the patterns that the guide lists.'

/** A constant, or the value of a parameter. Undefined: it is not known; null: a parameter has none yet. */
function formatOf(node: TreeNode | undefined, { parameters }: Rewriting): string | null | undefined {
  if (node?.class === 'CAST') return formatOf(node.child as TreeNode, { parameters } as Rewriting)
  if (node?.class !== 'PARAMETER') return textOf(node) ?? undefined
  const value = parameters[Number(node.identifier) - 1]
  return typeof value === 'string' ? value : null
}

/** What it is with a format that is known; of a parameter whose value is not there yet, nothing of that type. */
const formatted =
  (type: string, write: (value: TreeNode, format: string, node: TreeNode, rewriting: Rewriting) => TreeNode): Rewrite =>
  (node, rewriting) => {
    const [value, given, ...more] = childrenOf(node)
    if (value === undefined || given === undefined || more.length > 0) return node
    const format = formatOf(given, rewriting)
    if (format === undefined) throw rewriting.refused('a format that is no constant', REMEDY)
    const told =
      format === null
        ? cast(callMacro('only_if', [given, value], node), 'VARCHAR', node)
        : write(value, format, node, rewriting)
    if (given.class === 'CONSTANT') return { ...told, alias: node.alias ?? '' }
    const known = format === null ? cast(given, type, node) : callMacro('only_if', [given, told], node)
    return { ...known, alias: node.alias ?? '' }
  }

const join = (parts: readonly TreeNode[], node: TreeNode): TreeNode =>
  parts.length === 0 ? text('', node) : parts.reduce((left, right) => call('||', [left, right], node))

/** A piece of a format: what the engine calls it, or a name of `parts` below; with what it is in a text to be read. */
interface Pattern {
  readonly written?: string
  readonly part?: (moment: TreeNode, node: TreeNode) => TreeNode
  readonly read?: string
  /** Letters as the pattern itself has them; blanks behind up to nine. */
  readonly isName?: true
  readonly isLong?: true
  /** Digits, with noughts before. */
  readonly digits?: number
}

const partOf = (field: string, moment: TreeNode, node: TreeNode) => call('date_part', [text(field, node), moment], node)
const plus = (left: TreeNode, by: number, node: TreeNode) => call('+', [left, number(by, node)], node)
const over = (left: TreeNode, by: number, node: TreeNode) => call('//', [left, number(by, node)], node)

const PATTERNS: Readonly<Record<string, Pattern>> = {
  YYYY: { written: '%Y', read: '%Y', digits: 4 },
  YY: { written: '%y', digits: 2 },
  IYYY: { written: '%G', digits: 4 },
  IW: { written: '%V', digits: 2 },
  ID: { written: '%u' },
  MM: { written: '%m', read: '%m', digits: 2 },
  MONTH: { written: '%B', read: '%B', isName: true, isLong: true },
  MON: { written: '%b', read: '%b', isName: true },
  DDD: { written: '%j', digits: 3 },
  DD: { written: '%d', read: '%d', digits: 2 },
  DAY: { written: '%A', isName: true, isLong: true },
  DY: { written: '%a', isName: true },
  D: { part: (moment, node) => plus(partOf('dow', moment, node), 1, node) },
  WW: { part: (moment, node) => plus(over(plus(partOf('doy', moment, node), -1, node), 7, node), 1, node), digits: 2 },
  W: { part: (moment, node) => plus(over(plus(partOf('day', moment, node), -1, node), 7, node), 1, node) },
  Q: { part: (moment, node) => partOf('quarter', moment, node) },
  CC: { part: (moment, node) => partOf('century', moment, node), digits: 2 },
  HH24: { written: '%H', read: '%H', digits: 2 },
  HH12: { written: '%I', read: '%I', digits: 2 },
  HH: { written: '%I', read: '%I', digits: 2 },
  MI: { written: '%M', read: '%M', digits: 2 },
  SSSSS: { part: (moment, node) => over(secondsOf(moment, node), 1_000_000, node) },
  SSSS: { part: (moment, node) => over(secondsOf(moment, node), 1_000_000, node) },
  SS: { written: '%S', read: '%S', digits: 2 },
  MS: { written: '%g', read: '%g', digits: 3 },
  US: { written: '%f', read: '%f', digits: 6 },
  AM: { written: '%p', read: '%p', isName: true },
  PM: { written: '%p', read: '%p', isName: true },
}

const secondsOf = (moment: TreeNode, node: TreeNode) =>
  call('epoch_us', [call('-', [moment, call('date_trunc', [text('day', node), moment], node)], node)], node)

interface Piece {
  readonly pattern: Pattern | null
  /** As it stands there; of what is no pattern, the text. */
  readonly told: string
  readonly isBare: boolean
}

/** Longest first. */
const NAMES = Object.keys(PATTERNS).toSorted((one, other) => other.length - one.length)
/** Patterns of PostgreSQL that are not written here: what they would give is not guessed. */
const UNTAKEN =
  /^(?:RN|Y,YYY|YYY|Y|IYY|IY|I|IDDD|J|RM|TZH|TZM|TZ|OF|FF[1-6]|BC|AD|B\.C\.|A\.D\.|A\.M\.|P\.M\.|TM|FX|SP)/i
const SUFFIX = /^(?:TH)/i

function piecesOf(format: string, { refused }: Rewriting): readonly Piece[] {
  const pieces: Piece[] = []
  for (let at = 0; at < format.length; ) {
    const rest = format.slice(at)
    const quoted = /^"((?:[^"\\]|\\[^])*)"/.exec(rest)
    const isBare = /^FM/i.test(rest)
    const own = isBare ? rest.slice(2) : rest
    const name = NAMES.find((one) => own.slice(0, one.length).toUpperCase() === one)
    const untaken = UNTAKEN.exec(own)?.[0]
    if (quoted !== null) {
      pieces.push({ pattern: null, told: (quoted[1] ?? '').replace(/\\([^])/g, '$1'), isBare: false })
      at += quoted[0].length
    } else if (untaken !== undefined && untaken.length > (name?.length ?? 0)) {
      throw refused(`the pattern ${untaken} of a format`, REMEDY)
    } else if (name !== undefined) {
      const told = own.slice(0, name.length)
      at += told.length + (isBare ? 2 : 0)
      if (SUFFIX.test(format.slice(at))) throw refused('the pattern TH of a format', REMEDY)
      pieces.push({ pattern: PATTERNS[name] as Pattern, told, isBare })
    } else {
      if (isBare) throw refused('the pattern FM of a format before no other', REMEDY)
      pieces.push({ pattern: null, told: rest[0] as string, isBare: false })
      at += 1
    }
  }
  return pieces
}

const NUMBER = /^[\s]*(?:FM)?[\s]*(?:[09]|[.D,G](?=[09]))[09.,DG]*$/i
/** Holds digits' places, and so is of a number, though not one that is written here. */
const OF_NUMBER = /^[^"]*[09]/

export const dateText: Rewrite = formatted('VARCHAR', (value, format, node, rewriting) => {
  if (NUMBER.test(format)) return numberText(value, format, node)
  const isOfTime = /HH12|HH24/i.test(format)
  if (!isOfTime && OF_NUMBER.test(format.replace(/HH(?:12|24)/gi, ''))) {
    throw rewriting.refused(`the format ${format.slice(0, 40)} of a number`, REMEDY)
  }
  const moment = cast(value, 'TIMESTAMP', node)
  return join(
    piecesOf(format, rewriting).map((piece) => writtenPiece(piece, moment, node)),
    node,
  )
})

function writtenPiece({ pattern, told, isBare }: Piece, moment: TreeNode, node: TreeNode): TreeNode {
  if (pattern === null) return text(told, node)
  if (pattern.part !== undefined) {
    const own = cast(pattern.part(moment, node), 'VARCHAR', node)
    return isBare || pattern.digits === undefined
      ? own
      : call('lpad', [own, number(pattern.digits, node), text('0', node)], node)
  }
  const written = pattern.written ?? ''
  const own = call('strftime', [moment, text(written, node)], node)
  if (pattern.isName !== true) {
    if (!isBare || pattern.digits === undefined) return own
    return cast(cast(own, 'BIGINT', node), 'VARCHAR', node)
  }
  const lettered = isUpper(told) ? call('upper', [own], node) : isLower(told) ? call('lower', [own], node) : own
  return pattern.isLong && !isBare
    ? call('rpad', [lettered, number(LONGEST_NAME, node), text(' ', node)], node)
    : lettered
}

/** A month or a day takes so many places: September, Wednesday. */
const LONGEST_NAME = 9
const isUpper = (told: string): boolean => told === told.toUpperCase()
const isLower = (told: string): boolean => told === told.toLowerCase()

/** Digits that there are, in the places of the format, with the sign before the first. */
function numberText(value: TreeNode, format: string, node: TreeNode): TreeNode {
  const plain = format.trim().replace(/^FM/i, '').toUpperCase().replaceAll('D', '.').replaceAll('G', ',')
  const isBare = /^\s*FM/i.test(format)
  const [whole = '', fraction = ''] = plain.split('.')
  const digits = whole.replaceAll(',', '')
  const scale = fraction.length
  const firstZero = digits.indexOf('0')
  const leastWhole = firstZero < 0 ? (scale === 0 ? 1 : 0) : digits.length - firstZero
  const leastFraction = isBare ? fraction.lastIndexOf('0') + 1 : scale
  const told = callMacro('places', [value, text(`%.${scale}f`, node)], node)
  const rounded = { ...cast(told, 'DECIMAL', node), cast_type: decimalOf(scale) }
  return callMacro(
    'number_text',
    [
      rounded,
      text(whole, node),
      number(leastWhole, node),
      number(scale, node),
      number(leastFraction, node),
      number(isBare ? 1 : 0, node),
      number(plain.includes('.') ? 1 : 0, node),
    ],
    node,
  )
}

const MOST_DIGITS = 38

const decimalOf = (scale: number) => ({
  id: 'DECIMAL',
  type_info: { type: 'DECIMAL_TYPE_INFO', alias: '', extension_info: null, width: MOST_DIGITS, scale },
})

/** Texts that are read: each pattern has the digits that it says, or fewer before something else. */
function readFormat(format: string, rewriting: Rewriting): string {
  return piecesOf(format, rewriting)
    .map(({ pattern, told }) => {
      if (pattern === null) return told.replaceAll('%', '%%')
      if (pattern.read === undefined) throw rewriting.refused(`the pattern ${told} of a text that is read`, REMEDY)
      return pattern.read
    })
    .join('')
}

export const dateOf: Rewrite = formatted('DATE', (value, format, node, rewriting) =>
  cast(call('strptime', [value, text(readFormat(format, rewriting), node)], node), 'DATE', node),
)

const momentWithFormat: Rewrite = formatted('TIMESTAMP WITH TIME ZONE', (value, format, node, rewriting) =>
  cast(call('strptime', [value, text(readFormat(format, rewriting), node)], node), 'TIMESTAMP WITH TIME ZONE', node),
)

/** Of seconds as the engine has it, with a format as PostgreSQL has. */
export const momentOf: Rewrite = (node, rewriting) =>
  childrenOf(node).length === 2 ? momentWithFormat(node, rewriting) : node
