/** Of the bytes of one value: its type, and the text of it. */
import type { LogicalType } from '@sluice/sdk'
import { BrokenFile } from '../records.ts'
import {
  binaryText,
  dayText,
  decimalText,
  decimalType,
  floatText,
  instantText,
  intervalText,
  timeOfDayText,
  utf8Text,
  uuidText,
  wideDecimalText,
} from '../typed-text.ts'
import type { Annotation } from './annotation.ts'

export const PHYSICAL = {
  boolean: 0,
  int32: 1,
  int64: 2,
  int96: 3,
  float: 4,
  double: 5,
  bytes: 6,
  fixed: 7,
} as const

/** Numbers of at most 32 bits and of fractions as numbers, those of 64 as bigints, all others as their bytes. */
export type Physical = boolean | number | bigint | Buffer

export interface Scalar {
  readonly type: LogicalType
  text(value: Physical): string
}

export function scalarOf(physical: number, length: number, annotation: Annotation | null): Scalar {
  switch (physical) {
    case PHYSICAL.boolean:
      return { type: 'boolean', text: String }
    case PHYSICAL.int32:
      return int32Of(annotation)
    case PHYSICAL.int64:
      return int64Of(annotation)
    case PHYSICAL.int96:
      return { type: 'timestamp', text: (value) => int96Text(value as Buffer) }
    case PHYSICAL.float:
      return { type: 'float', text: (value) => floatText(value as number) }
    case PHYSICAL.double:
      return { type: 'double', text: (value) => floatText(value as number) }
    case PHYSICAL.bytes:
    case PHYSICAL.fixed:
      return bytesOf(physical === PHYSICAL.fixed ? length : null, annotation)
  }
  throw new BrokenFile(`it has values of the kind ${physical}, which is not known`, 'Write it by a version of today.')
}

function int32Of(annotation: Annotation | null): Scalar {
  switch (annotation?.kind) {
    case 'day':
      return { type: 'date', text: (value) => dayText(value as number) }
    case 'decimal':
    case 'time':
      return int64Of(annotation)
    case 'nothing':
      return { type: 'string', text: String }
    case 'whole':
      if (annotation.isSigned || annotation.bits < 32) return { type: 'integer', text: String }
      return { type: 'long', text: (value) => String((value as number) >>> 0) }
    default:
      return { type: 'integer', text: String }
  }
}

/** Of 32 bits, too, where they mean the same. */
function int64Of(annotation: Annotation | null): Scalar {
  switch (annotation?.kind) {
    case 'decimal': {
      const { precision, scale } = annotation
      return { type: decimalType(precision, scale), text: (value) => decimalText(BigInt(value as bigint), scale) }
    }
    case 'time':
      return { type: 'string', text: (value) => timeOfDayText(BigInt(value as bigint), annotation.digits) }
    case 'instant': {
      const { digits, isUtc } = annotation
      const type = isUtc ? 'timestamptz' : 'timestamp'
      return { type, text: (value) => instantText(value as bigint, digits, isUtc) }
    }
    case 'whole':
      if (annotation.isSigned) break
      return { type: 'decimal(20,0)', text: (value) => String(BigInt.asUintN(64, value as bigint)) }
  }
  return { type: 'long', text: String }
}

/** `length` is null where each value has its own. */
function bytesOf(length: number | null, annotation: Annotation | null): Scalar {
  const of = (type: LogicalType, text: (bytes: Buffer) => string, needed: number | null = null): Scalar => {
    if (needed !== null && length !== needed)
      throw new BrokenFile(`values of ${annotation?.kind} have not ${needed} bytes`, 'Write it by a version of today.')
    return { type, text: (value) => text(value as Buffer) }
  }
  switch (annotation?.kind) {
    case 'text':
      return of('string', utf8Text)
    case 'json':
      return of('json', utf8Text)
    case 'uuid':
      return of('uuid', uuidText, 16)
    case 'float16':
      return of('float', (bytes) => floatText(halfOf(bytes.readUInt16LE())), 2)
    case 'interval':
      return of(
        'string',
        (bytes) => intervalText(bytes.readUInt32LE(0), bytes.readUInt32LE(4), bytes.readUInt32LE(8)),
        12,
      )
    case 'decimal': {
      const { precision, scale } = annotation
      return of(decimalType(precision, scale), (bytes) => wideDecimalText(bytes, scale))
    }
    case 'nothing':
      return of('string', utf8Text)
    default:
      return of('binary', binaryText)
  }
}

const DAY_NANOS = 86_400_000_000_000n
const EPOCH_JULIAN_DAY = 2_440_588

/** Nanoseconds of a day, and the day by the Julian count; nobody says of which zone. */
function int96Text(bytes: Buffer): string {
  const day = BigInt(bytes.readInt32LE(8) - EPOCH_JULIAN_DAY)
  return instantText(day * DAY_NANOS + bytes.readBigInt64LE(), 9, false)
}

function halfOf(bits: number): number {
  const sign = bits >> 15 === 0 ? 1 : -1
  const exponent = (bits >> 10) & 31
  const fraction = bits & 1023
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}
