/** Scans in Trino's words. Its protocol binds values by text alone, so that each becomes a literal of its type. */
import { type LogicalType, typeName, type Value } from '@sluice/sdk'
import { OPERATORS, quoted, type ScanDialect } from '../scan/scan-sql.ts'

/** @param snapshotId of the table; null: as it is */
export function trinoDialect(name: readonly string[], snapshotId: string): ScanDialect {
  if (!/^\d{1,19}$/.test(snapshotId)) throw new Error('a snapshot id is a number')
  return {
    source: `${name.map(quoted).join('.')} FOR VERSION AS OF ${snapshotId}`,
    typeName: sqlType,
    selected: selectedText,
    // To Trino a NaN of a real stands below every number where rows are ordered.
    ordered: (cell, type) => (type === 'float' || type === 'double' ? [`is_nan(${cell})`, cell] : [cell]),
    comparison(cell, operator, value, type) {
      const literal = literalOf(value, type)
      if (typeof value !== 'number' || typeName(type) === 'integer') return `${cell} ${OPERATORS[operator]} ${literal}`
      return floatComparison(cell, operator, value, literal)
    },
  }
}

/** Every cell as text: the client parses JSON, in which long numbers lose digits. Binary is in base 64. */
export function selectedText(cell: string, type: LogicalType): string {
  switch (typeName(type)) {
    case 'timestamp':
      return `replace(CAST(${cell} AS varchar), ' ', 'T')`
    case 'timestamptz':
      return `replace(CAST(CAST(${cell} AT TIME ZONE 'UTC' AS timestamp(6)) AS varchar), ' ', 'T') || 'Z'`
    case 'binary':
      return `to_base64(${cell})`
    // Trino writes fewer digits of a real than tell it from others.
    case 'float':
      return `CAST(CAST(${cell} AS double) AS varchar)`
    case 'string':
    case 'json':
      return cell
    default:
      return `CAST(${cell} AS varchar)`
  }
}

/** To Trino NaN equals nothing and is neither below nor above; to readers it stands above every number. */
function floatComparison(cell: string, operator: keyof typeof OPERATORS, value: number, literal: string): string {
  const isNaNCell = `is_nan(${cell})`
  if (!Number.isNaN(value)) {
    const plain = `${cell} ${OPERATORS[operator]} ${literal}`
    return operator === 'gt' || operator === 'ge' ? `(${plain} OR ${isNaNCell})` : plain
  }
  if (operator === 'eq' || operator === 'ge') return isNaNCell
  if (operator === 'ne' || operator === 'lt') return `NOT ${isNaNCell}`
  return operator === 'le' ? `(${isNaNCell} OR NOT ${isNaNCell})` : `(${isNaNCell} AND NOT ${isNaNCell})`
}

const INFINITE: Readonly<Record<string, string>> = { Infinity: 'Infinity', '-Infinity': '-Infinity', NaN: 'NaN' }

function literalOf(value: NonNullable<Value>, type: LogicalType): string {
  if (value instanceof Uint8Array) return `X'${Buffer.from(value).toString('hex')}'`
  const text = typeof value === 'number' && Object.is(value, -0) ? '-0.0' : String(value)
  switch (typeName(type)) {
    case 'boolean':
      return text
    case 'float':
    case 'double':
      return `CAST('${INFINITE[text] ?? text}' AS ${sqlType(type)})`
    case 'timestamp':
      return `TIMESTAMP '${text.replace('T', ' ')}'`
    case 'timestamptz':
      return `TIMESTAMP '${text.replace('T', ' ').replace('Z', '')} UTC'`
    case 'string':
    case 'json':
      return textLiteral(text)
    default:
      return `CAST(${textLiteral(text)} AS ${sqlType(type)})`
  }
}

export function textLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** The type in Trino that a logical type has in tables of the lake. */
export function sqlType(type: LogicalType): string {
  const names: Readonly<Record<string, string>> = {
    string: 'varchar',
    json: 'varchar',
    long: 'bigint',
    float: 'real',
    binary: 'varbinary',
    timestamp: 'timestamp(6)',
    timestamptz: 'timestamp(6) with time zone',
  }
  return names[type] ?? type
}
