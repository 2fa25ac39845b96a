import { isUtf8 } from 'node:buffer'
import { NUMBER_LOST, NumbersLost, parseKeepingNumbers } from '../parsing/kept-numbers.ts'
import { refuse, validationFailed } from './problem.ts'

const MAX_DEPTH = 64
/** More than anything that is sent here has; objects of many keys cost a hundred times what a text of their length does. */
const MAX_VALUES = 20_000
const MAX_POINTER_LENGTH = 200
const QUOTE = 34
const BACKSLASH = 92

/**
 * Parses a body that two readers cannot understand differently: UTF-8, no key twice in an object, no `__proto__`, no
 * null characters or lone surrogates, at most 64 levels. Throws `malformed_body` otherwise, and `body_too_large` for more
 * than `mostValues`, `validation_failed` for numbers that cannot be kept as they are written; never repeats the text.
 * @param parse what makes values of the text; default `parseKeepingNumbers`
 * @param mostValues default 20,000
 */
export function parseJsonBody(
  bytes: Uint8Array,
  parse: (text: string) => unknown = parseKeepingNumbers,
  mostValues = MAX_VALUES,
): unknown {
  return parseJsonText(decodeText(bytes), parse, mostValues)
}

/** The same for a text that was decoded already. */
export function parseJsonText(text: string, parse: (text: string) => unknown, mostValues = MAX_VALUES): unknown {
  refuseTooMany(text, mostValues)
  let value: unknown
  try {
    value = parse(text)
  } catch (error) {
    if (!(error instanceof NumbersLost)) throw malformed('it is not JSON')
    const places = error.pointers.map((pointer) => pointer.slice(0, MAX_POINTER_LENGTH))
    throw validationFailed(places.map((pointer) => ({ in: 'body', pointer, message: NUMBER_LOST })))
  }
  checkStructure(text)
  return value
}

export function decodeText(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw malformed('it is not UTF-8')
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
}

/** Counted before anything is made of the text, which need not be JSON. */
function refuseTooMany(text: string, most: number): void {
  let count = 0
  let isInside = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (isInside) {
      if (code === BACKSLASH) at++
      else if (code === QUOTE) isInside = false
    } else if (code === QUOTE) isInside = true
    else if ((code === 44 || code === 91 || code === 123) && ++count > most) {
      throw refuse('body_too_large', `the body holds more than ${most} values`)
    }
  }
}

/**
 * Walks the tokens of a text that is known to be JSON. JSON.parse keeps the last of two equal keys in silence, and
 * takes escapes that no store can hold.
 */
function checkStructure(text: string): void {
  const scopes: (Set<string> | null)[] = []
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfString(text, at)
      const literal = text.slice(at, end + 1)
      const content = literal.includes('\\') ? unescapeText(literal) : literal.slice(1, -1)
      const scope = scopes.at(-1)
      if (scope && isKey(text, end + 1)) addKey(scope, content)
      at = end
    } else if (code === 123 || code === 91) {
      if (scopes.push(code === 123 ? new Set() : null) > MAX_DEPTH) throw malformed('it is nested too deeply')
    } else if (code === 125 || code === 93) {
      scopes.pop()
    }
  }
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  for (;;) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    at += code === BACKSLASH ? 2 : 1
  }
}

function unescapeText(literal: string): string {
  const content = JSON.parse(literal) as string
  if (content.includes('\0')) throw malformed('it holds a null character')
  if (!content.isWellFormed()) throw malformed('it holds half of a surrogate pair')
  return content
}

function isKey(text: string, after: number): boolean {
  let at = after
  while (text.charCodeAt(at) <= 32) at++
  return text.charCodeAt(at) === 58
}

function addKey(scope: Set<string>, key: string): void {
  if (key === '__proto__') throw malformed('it has a key that is not allowed')
  if (scope.has(key)) throw malformed('an object has the same key twice')
  scope.add(key)
}

function malformed(reason: string): Error {
  return refuse('malformed_body', `the body is refused: ${reason}`)
}
