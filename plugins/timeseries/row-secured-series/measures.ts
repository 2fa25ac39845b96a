/** What an aggregate keeps of a column, and how it is computed. */
import { type Column, type LogicalType, parseDecimal, typeName } from '@sluice/sdk'

export interface Measure {
  /** `amount_sum`. */
  readonly name: string
  readonly type: LogicalType
  /** SQL over the rows, given the column. */
  readonly of: (column: string) => string
}

const NUMBERS = ['integer', 'long', 'float', 'double', 'decimal']
const ORDERED = [...NUMBERS, 'string', 'date', 'timestamp', 'timestamptz']

/** Numbers: count, sum, avg, min, max; what has an order: count, min, max; anything else: count. Nulls never count. */
export function measuresOf({ name, type }: Column): readonly Measure[] {
  const kind = typeName(type)
  const measures: Measure[] = [{ name: `${name}_count`, type: 'long', of: (column) => `count(${column})` }]
  if (NUMBERS.includes(kind)) {
    measures.push({ name: `${name}_sum`, type: sumType(type), of: (column) => sumOf(type, column) })
    measures.push({ name: `${name}_avg`, type: 'double', of: (column) => `avg(${column})::double precision` })
  }
  if (ORDERED.includes(kind)) {
    measures.push({ name: `${name}_min`, type, of: (column) => `min(${column})` })
    measures.push({ name: `${name}_max`, type, of: (column) => `max(${column})` })
  }
  return measures
}

function sumType(type: LogicalType): LogicalType {
  const decimal = parseDecimal(type)
  if (decimal) return `decimal(38,${decimal.scale})`
  return type === 'integer' || type === 'long' ? 'decimal(38,0)' : 'double'
}

/** Single precision would lose what the sum of its values still has. */
function sumOf(type: LogicalType, column: string): string {
  return type === 'float' ? `sum(${column}::double precision)` : `sum(${column})`
}
