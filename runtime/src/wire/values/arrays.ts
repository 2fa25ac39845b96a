/** Arrays as clients bind them, as the engine reads lists from a text: `[1, NULL, "a \"b\""]`. */
import { notSupported, WireError } from '../protocol/wire-error.ts'
import { malformed } from './binary.ts'
import { OID } from './column-types.ts'

/** By the type of an array, that of its elements. */
const ELEMENTS: Readonly<Record<number, number>> = {
  1000: OID.bool,
  1001: OID.bytea,
  1003: OID.name,
  1005: OID.int2,
  1007: OID.int4,
  1009: OID.text,
  1014: OID.bpchar,
  1015: OID.varchar,
  1016: OID.int8,
  1021: OID.float4,
  1022: OID.float8,
  1115: OID.timestamp,
  1182: OID.date,
  1183: OID.time,
  1185: OID.timestamptz,
  1187: OID.interval,
  1231: OID.numeric,
  1270: OID.timetz,
  2951: OID.uuid,
}

/** 0 of what is no array. */
export const elementOf = (oid: number): number => ELEMENTS[oid] ?? 0

/** 0 where there is none. */
export function arrayOf(element: number): number {
  const [array = 0] = Object.entries(ELEMENTS).find(([, own]) => own === element) ?? []
  return Number(array)
}

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
