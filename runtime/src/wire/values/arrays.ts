/** Arrays as clients bind them, as the engine reads lists from a text: `[1, NULL, "a \"b\""]`. */
import { notSupported, WireError } from '../protocol/wire-error.ts'
import { malformed } from './binary.ts'
import { OID } from './column-types.ts'

export { arrayOf, elementOf } from './array-texts.ts'

const HEAD_BYTES = 12
const DIMENSION_BYTES = 8
const LENGTH_BYTES = 4

/** Its elements as they came; null is null. Throws 22P03 for what is no array of these, 0A000 for more than one dimension. */
export function elementsInBinary(element: number, bytes: Buffer): readonly (Buffer | null)[] {
  if (bytes.length < HEAD_BYTES) throw malformed()
  const dimensions = bytes.readInt32BE(0)
  const own = bytes.readUInt32BE(8)
  if (own !== element && !(isText(own) && isText(element))) throw malformed()
  if (dimensions === 0) return []
  if (dimensions !== 1) throw manyDimensions()
  if (bytes.length < HEAD_BYTES + DIMENSION_BYTES) throw malformed()
  const count = bytes.readInt32BE(HEAD_BYTES)
  let at = HEAD_BYTES + DIMENSION_BYTES
  // Each takes a length at least: a count that is made up makes no list.
  if (count < 0 || count > (bytes.length - at) / LENGTH_BYTES) throw malformed()
  const elements = Array.from({ length: count }, () => {
    if (at + LENGTH_BYTES > bytes.length) throw malformed()
    const length = bytes.readInt32BE(at)
    at += LENGTH_BYTES
    if (length < 0) return null
    if (at + length > bytes.length) throw malformed()
    at += length
    return bytes.subarray(at - length, at)
  })
  if (at !== bytes.length) throw malformed()
  return elements
}

const isText = (oid: number): boolean => ([OID.text, OID.varchar, OID.bpchar, OID.name] as number[]).includes(oid)

const ELEMENT =
  /\s*(?:"((?:[^"\\]|\\[^])*)"|((?:[^"\\{},\s]|\\[^])(?:(?:[^"\\{},]|\\[^])*(?:[^"\\{},\s]|\\[^]))?))\s*(,|$)/y

/** `{1,NULL,"a \"b\""}`. Throws 22P02 for what is none, 0A000 for more than one dimension. */
export function elementsInText(text: string): readonly (string | null)[] {
  const inner = /^\s*\{([^]*)\}\s*$/.exec(text)?.[1]
  if (inner === undefined) throw invalidArray()
  if (/^\s*\{/.test(inner)) throw manyDimensions()
  const elements: (string | null)[] = []
  if (inner.trim() === '') return elements
  ELEMENT.lastIndex = 0
  for (let at = 0; ; at = ELEMENT.lastIndex) {
    const [, quoted, plain, mark] = ELEMENT.exec(inner) ?? []
    if (quoted === undefined && plain === undefined) throw invalidArray()
    const isNull = plain?.toUpperCase() === 'NULL'
    elements.push(isNull ? null : String(quoted ?? plain).replace(/\\([^])/g, '$1'))
    if (mark === '') return elements
    if (ELEMENT.lastIndex === at) throw invalidArray()
  }
}

/** As the engine reads it. */
export function listText(elements: readonly (string | null)[]): string {
  const told = elements.map((one) => (one === null ? 'NULL' : `"${one.replace(/["\\]/g, '\\$&')}"`))
  return `[${told.join(', ')}]`
}

const invalidArray = (): WireError =>
  new WireError('22P02', 'a parameter is no array', { hint: 'Arrays are written as {1,2,NULL}.' })

const manyDimensions = (): WireError => notSupported('arrays of more than one dimension are not taken as parameters')
