/** What Trino answers to a query, as columns of logical types and as their texts. */
import type { TrinoResult, TrinoType } from '@sluice/analytics/trino/statements'
import type { LogicalType, TextRow } from '@sluice/sdk'

const TYPES: Readonly<Record<string, LogicalType>> = {
  boolean: 'boolean',
  tinyint: 'integer',
  smallint: 'integer',
  integer: 'integer',
  bigint: 'long',
  real: 'float',
  double: 'double',
  varbinary: 'binary',
  date: 'date',
  timestamp: 'timestamp',
  'timestamp with time zone': 'timestamptz',
  uuid: 'uuid',
  json: 'json',
  array: 'json',
  map: 'json',
  row: 'json',
}

/** The type of a column of Trino's; types that the lake has not are documents where they hold others, and else texts. */
export function logicalType({ rawType, arguments: given }: TrinoType): LogicalType {
  if (rawType !== 'decimal') return TYPES[rawType] ?? 'string'
  const [precision = 38, scale = 0] = given.map(({ value }) => Number(value))
  return `decimal(${precision},${scale})`
}

export function textRows({ columns, rows }: TrinoResult): readonly TextRow[] {
  const texts = columns.map(({ typeSignature }) => cellText(typeSignature))
  return rows.map((row) => row.map((cell, at) => (cell === null ? null : (texts[at]?.(cell) ?? null))))
}

type CellText = (cell: unknown) => string

/** How Trino writes values: https://trino.io/docs/current/develop/client-protocol.html */
function cellText(type: TrinoType): CellText {
  switch (type.rawType) {
    case 'varbinary':
      return (cell) => `\\x${Buffer.from(String(cell), 'base64').toString('hex')}`
    case 'timestamp':
      return (cell) => microseconds(String(cell))
    case 'timestamp with time zone':
      // An offset stands right behind the time: behind a space others read names of zones.
      return (cell) =>
        microseconds(String(cell))
          .replace(/ UTC$/, '+00')
          .replace(/ ([+-][0-9:]+)$/, '$1')
    case 'array':
    case 'map':
    case 'row':
      return (cell) => jsonText(cell, type)
    default:
      return textOf
  }
}

/** Trino counts down to picoseconds, the lake to microseconds. */
const microseconds = (text: string): string => text.replace(/(\.\d{6})\d+/, '$1')

function jsonText(value: unknown, type: TrinoType): string {
  if (value === null) return 'null'
  const [first, second] = type.arguments
  switch (type.rawType) {
    case 'array':
      return `[${(value as readonly unknown[]).map((one) => jsonText(one, typeOf(first))).join(',')}]`
    case 'map':
      return `{${Object.entries(value as object)
        .map(([key, one]) => `${JSON.stringify(key)}:${jsonText(one, typeOf(second))}`)
        .join(',')}}`
    case 'row':
      return rowText(value as readonly unknown[], type)
    case 'json':
      return String(value)
    default:
      return isNumber(value, type) ? textOf(value) : JSON.stringify(value)
  }
}

/** A field without a name goes by its place. */
function rowText(values: readonly unknown[], { arguments: fields }: TrinoType): string {
  const members = values.map((value, at) => {
    const field = fields[at]
    const name = field?.kind === 'NAMED_TYPE' ? (field.value.fieldName?.name ?? `_${at}`) : `_${at}`
    return `${JSON.stringify(name)}:${jsonText(value, typeOf(field))}`
  })
  return `{${members.join(',')}}`
}

function typeOf(argument: TrinoType['arguments'][number] | undefined): TrinoType {
  if (argument?.kind === 'TYPE') return argument.value
  if (argument?.kind === 'NAMED_TYPE') return argument.value.typeSignature
  return { rawType: 'varchar', arguments: [] }
}

/** NaN and the infinities are no numbers to JSON. */
function isNumber(value: unknown, type: TrinoType): boolean {
  const name = logicalType(type)
  return (
    Number.isFinite(Number(value)) &&
    (['integer', 'long', 'float', 'double'].includes(name) || name.startsWith('decimal'))
  )
}

/** A zero keeps its sign. */
const textOf = (cell: unknown): string => (Object.is(cell, -0) ? '-0' : String(cell))
