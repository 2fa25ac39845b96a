/** The SQL around an author's transform, and DuckDB's types as the contract calls them. */
import { type Column, type ComputeTransform, castLoss, type LogicalType, parseDecimal } from '@sluice/sdk'

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

const SQL_TYPES: Readonly<Record<string, string>> = {
  string: 'VARCHAR',
  json: 'VARCHAR',
  long: 'BIGINT',
  binary: 'BLOB',
  timestamptz: 'TIMESTAMPTZ',
}

export const sqlType = (type: LogicalType): string => SQL_TYPES[type] ?? type

const LOGICAL: Readonly<Record<string, string>> = {
  TINYINT: 'integer',
  SMALLINT: 'integer',
  BIGINT: 'long',
  VARCHAR: 'string',
  BLOB: 'binary',
  'TIMESTAMP WITH TIME ZONE': 'timestamptz',
  '"NULL"': 'null',
}

/** @param type as DuckDB writes it: `DECIMAL(12,2)` */
export const logicalType = (type: string): string => LOGICAL[type] ?? type.toLowerCase()

/** Of a transform that is null the only input as it is. */
export const authored = ({ transform, inputs }: ComputeTransform): string =>
  transform ?? `SELECT * FROM ${quoted(inputs[0]?.alias ?? '')}`

/** The transform's columns as it gives them. */
export function typesSql(transform: ComputeTransform): string {
  const names = transform.columns.map(({ name }) => quoted(name))
  return `SELECT ${names.join(', ')} FROM (\n${authored(transform)}\n) AS "__output"`
}

export interface RowsSql {
  readonly sql: string
  /** Columns whose marks stand behind all columns, in this order: a text where the value has lost something, else null. */
  readonly marked: readonly string[]
}

/** Every cell cast to its column's type, as text. @param given types of the columns, as DuckDB writes them */
export function rowsSql(transform: ComputeTransform, given: readonly string[]): RowsSql {
  const cells = transform.columns.map(({ name, type }) => cellText(castOf(name, type), type))
  const losing = transform.columns.flatMap((column, at) => lossesOf(column, given[at] as string))
  const selected = [...cells, ...losing.map(({ mark }) => mark)]
  return {
    sql: `SELECT ${selected.join(', ')} FROM (\n${authored(transform)}\n) AS "__output"`,
    marked: losing.map(({ name }) => name),
  }
}

const castOf = (name: string, type: LogicalType): string => `CAST(${quoted(name)} AS ${sqlType(type)})`

/** A value has lost something that does not come back from its column's type. */
function lossesOf({ name, type }: Column, given: string): readonly { readonly name: string; readonly mark: string }[] {
  if (castLoss(logicalType(given), type) === null) return []
  const back = `TRY_CAST(${castOf(name, type)} AS ${given})`
  return [{ name, mark: `CASE WHEN ${back} IS DISTINCT FROM ${quoted(name)} THEN '1' END` }]
}

function cellText(cell: string, type: LogicalType): string {
  const text = `CAST(${cell} AS VARCHAR)`
  if (type === 'binary') return `'\\x' || lower(hex(${cell}))`
  if (parseDecimal(type) !== null || (type !== 'float' && type !== 'double')) return text
  return `replace(replace(${text}, 'inf', 'Infinity'), 'nan', 'NaN')`
}
