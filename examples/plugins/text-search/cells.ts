/** Values as SQLite keeps them: in a form whose order there is the order of the contract. */
import { type LogicalType, parseDecimal, typeName, type Value } from '@sluice/sdk'

export type Cell = null | number | bigint | string | Uint8Array

const DIGITS = 38

/** Stands above every number: SQLite orders blobs after them, and would keep NaN itself as null. */
const NOT_A_NUMBER = new Uint8Array([1])

/**
 * - decimals as text of fixed width, negative ones with their digits complemented
 * - floats as they are, in columns without an affinity, so that −0 is kept
 * - everything else as its own type
 */
export function toCell(value: Value, type: LogicalType): Cell {
  if (value === null) return null
  switch (typeName(type)) {
    case 'boolean':
      return value ? 1n : 0n
    case 'integer':
    case 'long':
      return BigInt(value as number | bigint)
    case 'float':
    case 'double':
      return Number.isNaN(value) ? NOT_A_NUMBER : (value as number)
    case 'decimal':
      return orderedDecimal(String(value))
    default:
      return value as string | Uint8Array
  }
}

export function fromCell(cell: Cell, type: LogicalType): Value {
  if (cell === null) return null
  switch (typeName(type)) {
    case 'boolean':
      return cell === 1n
    case 'integer':
      return Number(cell)
    case 'float':
    case 'double':
      return cell instanceof Uint8Array ? Number.NaN : Number(cell)
    case 'decimal':
      return plainDecimal(String(cell), parseDecimal(type)?.scale ?? 0)
    default:
      return cell
  }
}

function orderedDecimal(text: string): string {
  const isNegative = text.startsWith('-') && /[1-9]/.test(text)
  const [whole = '', fraction = ''] = text.replace(/^[-+]/, '').split('.')
  const digits = whole.padStart(DIGITS, '0') + fraction.padEnd(DIGITS, '0')
  return isNegative ? `0${complement(digits)}` : `1${digits}`
}

function plainDecimal(text: string, scale: number): string {
  const isNegative = text.startsWith('0')
  const digits = isNegative ? complement(text.slice(1)) : text.slice(1)
  const whole = digits.slice(0, DIGITS).replace(/^0+(?=\d)/, '')
  const sign = isNegative ? '-' : ''
  return scale === 0 ? sign + whole : `${sign}${whole}.${digits.slice(DIGITS, DIGITS + scale)}`
}

function complement(digits: string): string {
  return digits.replace(/\d/g, (digit) => String(9 - Number(digit)))
}
