/** What the bytes of a leaf mean, by either of the two ways in which files say it. */
import type { Fraction } from '../typed-text.ts'
import { countOf, structOf, type ThriftStruct } from './thrift.ts'

export type Annotation =
  | { readonly kind: 'text' | 'json' | 'bytes' | 'uuid' | 'day' | 'interval' | 'float16' | 'nothing' }
  | { readonly kind: 'list' | 'map' | 'variant' }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  | { readonly kind: 'time'; readonly digits: Fraction }
  | { readonly kind: 'instant'; readonly digits: Fraction; readonly isUtc: boolean }
  | { readonly kind: 'whole'; readonly bits: number; readonly isSigned: boolean }

const FIELD = { converted: 6, scale: 7, precision: 8, logical: 10 } as const

/** Null: the bytes mean what they are. */
export function annotationOf(element: ThriftStruct): Annotation | null {
  const logical = structOf(element.get(FIELD.logical))
  const [id, about] = logical?.entries().next().value ?? []
  const known = id === undefined ? null : logicalOf(id, structOf(about))
  if (known !== null) return known
  const converted = element.get(FIELD.converted)
  if (converted === undefined) return null
  const decimal = { precision: countOf(element.get(FIELD.precision), 0), scale: countOf(element.get(FIELD.scale), 0) }
  return countOf(converted) === CONVERTED_DECIMAL
    ? { kind: 'decimal', ...decimal }
    : (CONVERTED[countOf(converted)] ?? null)
}

function logicalOf(id: number, about: ThriftStruct | null): Annotation | null {
  switch (id) {
    case 1:
    case 4:
      return { kind: 'text' }
    case 2:
      return { kind: 'map' }
    case 3:
      return { kind: 'list' }
    case 5:
      return { kind: 'decimal', scale: countOf(about?.get(1), 0), precision: countOf(about?.get(2), 0) }
    case 6:
      return { kind: 'day' }
    case 7:
      return { kind: 'time', digits: digitsOf(about) }
    case 8:
      return { kind: 'instant', digits: digitsOf(about), isUtc: about?.get(1) === true }
    case 10:
      return { kind: 'whole', bits: countOf(about?.get(1), 0), isSigned: about?.get(2) === true }
    case 11:
      return { kind: 'nothing' }
    case 12:
      return { kind: 'json' }
    case 13:
    case 17:
    case 18:
      return { kind: 'bytes' }
    case 14:
      return { kind: 'uuid' }
    case 15:
      return { kind: 'float16' }
    case 16:
      return { kind: 'variant' }
    default:
      return null
  }
}

function digitsOf(about: ThriftStruct | null): Fraction {
  const unit = structOf(about?.get(2))
  if (unit?.has(1)) return 3
  return unit?.has(3) ? 9 : 6
}

const whole = (bits: number, isSigned: boolean): Annotation => ({ kind: 'whole', bits, isSigned })

const CONVERTED_DECIMAL = 5
/** Times of the old way count from UTC, as the format has it. */
const CONVERTED: Readonly<Record<number, Annotation>> = {
  0: { kind: 'text' },
  1: { kind: 'map' },
  2: { kind: 'map' },
  3: { kind: 'list' },
  4: { kind: 'text' },
  6: { kind: 'day' },
  7: { kind: 'time', digits: 3 },
  8: { kind: 'time', digits: 6 },
  9: { kind: 'instant', digits: 3, isUtc: true },
  10: { kind: 'instant', digits: 6, isUtc: true },
  11: whole(8, false),
  12: whole(16, false),
  13: whole(32, false),
  14: whole(64, false),
  15: whole(8, true),
  16: whole(16, true),
  17: whole(32, true),
  18: whole(64, true),
  19: { kind: 'json' },
  20: { kind: 'bytes' },
  21: { kind: 'interval' },
}
