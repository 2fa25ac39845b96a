/** Scans in DuckDB's words, values as bound parameters. */
import { type LogicalType, typeName, type Value } from '@sluice/sdk'
import { OPERATORS, quoted, type ScanDialect } from '../scan/scan-sql.ts'

export function duckdbDialect(name: readonly string[]): ScanDialect {
  return {
    source: name.map(quoted).join('.'),
    typeName: sqlType,
    // Documents as text: numbers inside of them keep their digits.
    selected: (cell, type) => (typeName(type) === 'json' ? `CAST(${cell} AS VARCHAR)` : cell),
    comparison(cell, operator, value, type, bind) {
      const parameter = bind(typeof value === 'boolean' ? value : parameterText(value))
      const isTyped = typeof value === 'boolean' || value instanceof Uint8Array
      return `${cell} ${OPERATORS[operator]} ${isTyped ? parameter : `CAST(${parameter} AS ${sqlType(type)})`}`
    },
  }
}

function parameterText(value: NonNullable<Value>): Value {
  return value instanceof Uint8Array ? value : String(value)
}

function sqlType(type: LogicalType): string {
  const names: Readonly<Record<string, string>> = { string: 'VARCHAR', long: 'BIGINT', binary: 'BLOB' }
  return names[type] ?? type.toUpperCase()
}
