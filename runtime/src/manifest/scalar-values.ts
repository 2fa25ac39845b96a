import { type LogicalType, parseDecimal, typeName, type Value } from '@sluice/sdk'
import type { Scalar } from './manifest-set.ts'

/**
 * A scalar of a manifest as a value of a column's type, in the one representation that the SDK gives each type; null
 * where it is none. Text is accepted wherever a YAML number would lose digits, so `"12.30"` fits decimal(10,2).
 */
export function typedValue(scalar: Scalar, type: LogicalType): Value {
  switch (typeName(type)) {
    case 'string':
      return typeof scalar === 'string' ? scalar : null
    case 'boolean':
      return typeof scalar === 'boolean' ? scalar : null
    case 'integer':
      return wholeNumber(scalar, -(2n ** 31n), 2n ** 31n - 1n, Number)
    case 'long':
      return wholeNumber(scalar, -(2n ** 63n), 2n ** 63n - 1n, (value) => value)
    case 'float':
    case 'double':
      return realNumber(scalar)
    case 'decimal':
      return decimalNumber(scalar, type)
    case 'date':
      return typeof scalar === 'string' && isDate(scalar) ? scalar : null
    case 'timestamp':
      return timestamp(scalar, false)
    case 'timestamptz':
      return timestamp(scalar, true)
    case 'uuid':
      return typeof scalar === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(scalar)
        ? scalar.toLowerCase()
        : null
    default:
      // Bytes and documents are not written into manifests.
      return null
  }
}

function wholeNumber<T extends Value>(scalar: Scalar, min: bigint, max: bigint, make: (value: bigint) => T): T | null {
  const text = typeof scalar === 'boolean' ? '' : String(scalar)
  if (!/^-?\d{1,20}$/.test(text)) return null
  const value = BigInt(text)
  return value >= min && value <= max ? make(value) : null
}

function realNumber(scalar: Scalar): number | null {
  if (typeof scalar === 'number') return scalar
  if (typeof scalar !== 'string' || !/^-?\d{1,400}(\.\d{1,400})?([eE][-+]?\d{1,3})?$/.test(scalar)) return null
  const value = Number(scalar)
  return Number.isFinite(value) ? value : null
}

function decimalNumber(scalar: Scalar, type: LogicalType): string | null {
  const shape = parseDecimal(type)
  const match = typeof scalar === 'boolean' ? null : /^(-?)0*(\d{1,38})(?:\.(\d{1,38}))?$/.exec(String(scalar))
  if (shape === null || match === null) return null
  const whole = match[2] ?? '0'
  const fraction = (match[3] ?? '').replace(/0+$/, '')
  if (fraction.length > shape.scale || whole.replace(/^0+/, '').length > shape.precision - shape.scale) return null
  const digits = fraction.padEnd(shape.scale, '0')
  return `${match[1]}${whole}${digits === '' ? '' : `.${digits}`}`
}

/** Years of four digits: what every engine reads the same way. */
function isDate(text: string): boolean {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text)
  if (!match) return false
  const date = new Date(`${text}T00:00:00Z`)
  return Number(match[1]) > 0 && !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}

/** `2026-01-31T10:00:00[.ffffff]`, with a blank for the T if one likes; with a zone exactly where the type has one. */
function timestamp(scalar: Scalar, zoned: boolean): string | null {
  if (typeof scalar !== 'string') return null
  if (isDate(scalar)) return `${scalar}T00:00:00.000000${zoned ? 'Z' : ''}`
  const match = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})?$/.exec(scalar)
  if (!match?.[1] || !match[2] || !isDate(match[1]) || (match[4] !== undefined) !== zoned) return null
  const instant = new Date(`${match[1]}T${match[2]}${match[4] ?? 'Z'}`)
  if (Number.isNaN(instant.getTime()) || instant.getUTCFullYear() < 1 || instant.getUTCFullYear() > 9999) return null
  const fraction = (match[3] ?? '').padEnd(6, '0')
  return `${instant.toISOString().slice(0, 19)}.${fraction}${zoned ? 'Z' : ''}`
}
