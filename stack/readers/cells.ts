/**
 * The tests' own notion of a value, written without a line of the lake's code: a text by type. Integers and decimals in
 * plain notation, floats as the hexadecimal of their bits (`nan` for every NaN), times in ISO form with microseconds,
 * binary as hexadecimal, text as it is. What engines answer is brought into the same form and compared by `===`.
 */
import type { LogicalType, Value } from '@sluice/sdk'

export type Cell = string | null

/** `decimal(9,2)` → `decimal`. */
export const kindOf = (type: LogicalType): string => type.replace(/\(.*$/, '')

export const scaleOf = (type: LogicalType): number => Number(/,\s*(\d+)/.exec(type)?.[1] ?? 0)

/** What Sluice itself read. */
export function cellOf(value: Value, type: LogicalType): Cell {
  if (value === null) return null
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  return typeof value === 'number' && isFloating(type) ? floatCell(value, type) : String(value)
}

export const isFloating = (type: LogicalType): boolean => type === 'float' || type === 'double'

export function floatCell(value: number, type: LogicalType): string {
  if (Number.isNaN(value)) return 'nan'
  const bytes = Buffer.alloc(type === 'float' ? 4 : 8)
  if (type === 'float') bytes.writeFloatBE(value)
  else bytes.writeDoubleBE(value)
  return bytes.toString('hex')
}

export function numberOf(cell: string): number {
  if (cell === 'nan') return Number.NaN
  const bytes = Buffer.from(cell, 'hex')
  return bytes.length === 4 ? bytes.readFloatBE() : bytes.readDoubleBE()
}

/** The order that every engine must agree on; NaN has none and is not to be asked for. */
export function compareCells(left: string, right: string, type: LogicalType): number {
  switch (kindOf(type)) {
    case 'integer':
    case 'long':
      return order(BigInt(left), BigInt(right))
    case 'decimal':
      return order(BigInt(left.replace('.', '')), BigInt(right.replace('.', '')))
    case 'float':
    case 'double':
      return order(numberOf(left), numberOf(right))
    case 'string':
    case 'json':
      return Buffer.compare(Buffer.from(left), Buffer.from(right))
    case 'binary':
      return Buffer.compare(Buffer.from(left, 'hex'), Buffer.from(right, 'hex'))
    default:
      return order(left, right)
  }
}

function order<T extends bigint | number | string>(left: T, right: T): number {
  return left < right ? -1 : left > right ? 1 : 0
}
