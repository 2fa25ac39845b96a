import { type LogicalType, parseDecimal, SluiceError, typeName } from '@sluice/sdk'
import { bucketSql, unscaledSql } from './hash-sql.ts'
import { parsePrinted, type StoredValue } from './stored-value.ts'
import { icebergType, type LakeField, type LakeSchema } from './table-schema.ts'

/** As output.yaml says it; `transform` is `identity`, `year`, `month`, `day`, `hour`, `bucket[N]` or `truncate[N]`. */
export interface PartitionColumn {
  readonly column: string
  readonly transform: string
}

/** As table metadata holds it. */
export interface PartitionSpec {
  readonly 'spec-id': number
  readonly fields: readonly PartitionField[]
}

export interface PartitionField {
  readonly 'source-id': number
  readonly 'field-id': number
  readonly name: string
  readonly transform: string
}

export interface PlannedSpec {
  readonly spec: PartitionSpec
  readonly lastPartitionId: number
  readonly isNew: boolean
}

type Transform =
  | { readonly kind: 'identity' | 'year' | 'month' | 'day' | 'hour' | 'void' }
  | { readonly kind: 'bucket' | 'truncate'; readonly width: number }

export const FIRST_PARTITION_ID = 1000
const MAX_WIDTH = 1_000_000

const TIMES = ['timestamp', 'timestamptz'] as const
const ALLOWED: Readonly<Record<Transform['kind'], readonly string[]>> = {
  void: [],
  // Not uuid: PyIceberg 0.12 finds no row by such a partition, and one file per id serves nobody.
  identity: ['string', 'boolean', 'integer', 'long', 'decimal', 'date', ...TIMES],
  year: ['date', ...TIMES],
  month: ['date', ...TIMES],
  day: ['date', ...TIMES],
  hour: TIMES,
  bucket: ['string', 'integer', 'long', 'decimal', 'date', ...TIMES, 'uuid', 'binary'],
  truncate: ['string', 'integer', 'long', 'decimal'],
}

/** Throws CONFIG `lake_partitioning_invalid`. */
export function planSpec(
  known: readonly PartitionSpec[],
  lastPartitionId: number,
  schema: LakeSchema,
  columns: readonly PartitionColumn[],
): PlannedSpec {
  let lastId = Math.max(lastPartitionId, FIRST_PARTITION_ID - 1)
  const everyField = known.flatMap((spec) => spec.fields)
  const fields = columns.map(({ column, transform: text }): PartitionField => {
    const source = checkedSource(schema, column, text)
    const name = fieldName(column, text)
    const before = everyField.find(
      (field) => field['source-id'] === source.id && field.transform === text && field.name === name,
    )
    if (before === undefined) lastId += 1
    return { 'source-id': source.id, 'field-id': before?.['field-id'] ?? lastId, name, transform: text }
  })
  checkDistinct(fields, schema)
  const equal = known.find((spec) => JSON.stringify(spec.fields.map(keyOf)) === JSON.stringify(fields.map(keyOf)))
  if (equal !== undefined) return { spec: equal, lastPartitionId: lastId, isNew: false }
  const specId = known.reduce((highest, spec) => Math.max(highest, spec['spec-id']), -1) + 1
  return { spec: { 'spec-id': specId, fields }, lastPartitionId: lastId, isNew: true }
}

const keyOf = (field: PartitionField) => [field['source-id'], field.transform, field.name]

/** Iceberg asks that no partition field has a column's name, but for identity of that column. */
function fieldName(column: string, transform: string): string {
  return transform === 'identity' ? column : `${column}_${transform.replace(/\[\d+\]$/, (width) => width.slice(1, -1))}`
}

function checkedSource(schema: LakeSchema, column: string, text: string): LakeField {
  const transform = parseTransform(text)
  const source = schema.fields.find((field) => field.name === column)
  if (source === undefined) throw invalid(column, text, 'there is no such column')
  if (transform === null || transform.kind === 'void') throw invalid(column, text, 'there is no such transform')
  if (!ALLOWED[transform.kind].includes(typeName(source.type))) {
    throw invalid(column, text, `the transform does not take ${source.type}`)
  }
  return source
}

function checkDistinct(fields: readonly PartitionField[], schema: LakeSchema): void {
  const taken = new Set<string>()
  for (const { name, transform } of fields) {
    const clash = transform !== 'identity' && schema.fields.some((column) => column.name === name)
    if (taken.has(name) || clash) throw invalid(name, transform, 'a partition field or column of that name exists')
    taken.add(name)
  }
}

function parseTransform(text: string): Transform | null {
  const match = /^(identity|year|month|day|hour|void)$|^(bucket|truncate)\[(\d{1,7})\]$/.exec(text)
  if (match === null) return null
  if (match[1] !== undefined) return { kind: match[1] as 'identity' | 'year' | 'month' | 'day' | 'hour' | 'void' }
  const width = Number(match[3])
  return width >= 1 && width <= MAX_WIDTH ? { kind: match[2] as 'bucket' | 'truncate', width } : null
}

function transformOf(field: PartitionField): Transform {
  const transform = parseTransform(field.transform)
  if (transform !== null) return transform
  throw new SluiceError('UNSUPPORTED', 'the lake table is partitioned by a transform that Sluice does not know', {
    code: 'lake_transform_unsupported',
    remedy: 'Replace the partition spec by one of the known transforms.',
  })
}

/** The logical type of a partition value; null for a field that holds nothing. */
export function partitionType(field: PartitionField, schema: LakeSchema): LogicalType | null {
  const source = schema.fields.find((candidate) => candidate.id === field['source-id'])
  const { kind } = transformOf(field)
  if (kind === 'identity' || kind === 'truncate') return source?.type ?? null
  if (kind === 'void') return null
  return kind === 'day' ? 'date' : 'integer'
}

/** The same, by Iceberg's name. */
export function icebergPartitionType(field: PartitionField, schema: LakeSchema): string {
  return icebergType(partitionType(field, schema) ?? 'integer')
}

/**
 * What the engine partitions by: text, so that null, the empty string and a value that the layout cannot hold stay
 * apart. Partition values become folder names of the engine's own working folder, whose length is limited.
 */
export function partitionKeySql(field: PartitionField, source: LakeField, column: string): string {
  const value = valueSql(transformOf(field), source.type, column)
  const tooLong = `strlen(${value}) > ${MAX_KEY_BYTES}`
  const long = typeName(source.type) === 'string' && !field.transform.startsWith('bucket')
  const guarded = long ? `CASE WHEN ${tooLong} THEN '${UNUSABLE}' ELSE ':' || ${value} END` : `':' || ${value}`
  return isTime(source.type) ? `CASE WHEN NOT isfinite(${column}) THEN '${UNUSABLE}' ELSE ${guarded} END` : guarded
}

const MAX_KEY_BYTES = 64
const UNUSABLE = '!'

const isTime = (type: LogicalType): boolean => type === 'date' || type === 'timestamp' || type === 'timestamptz'

function valueSql(transform: Transform, type: LogicalType, column: string): string {
  // A zoned time is cut by UTC days, whatever the session's zone.
  const utc = type === 'timestamptz' ? `timezone('UTC', ${column})` : column
  switch (transform.kind) {
    case 'identity':
      return `CAST(${utc} AS VARCHAR)`
    case 'year':
      return `CAST(year(${utc}) - 1970 AS VARCHAR)`
    case 'month':
      return `CAST((year(${utc}) - 1970) * 12 + month(${utc}) - 1 AS VARCHAR)`
    case 'day':
      return `CAST(date_diff('day', DATE '1970-01-01', CAST(${utc} AS DATE)) AS VARCHAR)`
    case 'hour':
      return `CAST(CAST(${floorTo(`CAST(epoch_us(${column}) AS HUGEINT)`, 3_600_000_000)} // 3600000000 AS BIGINT) AS VARCHAR)`
    case 'bucket':
      return `CAST(${bucketSql(type, column, transform.width)} AS VARCHAR)`
    case 'truncate':
      return truncateSql(type, column, transform.width)
    case 'void':
      return 'CAST(NULL AS VARCHAR)'
  }
}

function truncateSql(type: LogicalType, column: string, width: number): string {
  if (type === 'string') return `left(${column}, ${width})`
  const whole = typeName(type) === 'decimal' ? unscaledSql(column) : `CAST(${column} AS HUGEINT)`
  return `CAST(${floorTo(whole, width)} AS VARCHAR)`
}

/** The greatest multiple that is not above the value; `%` of the engine takes the sign of the value. */
function floorTo(value: string, step: number): string {
  return `(${value} - (((${value}) % ${step}) + ${step}) % ${step})`
}

/** Reads what the engine reports for `partitionKeySql`. Throws INVALID_DATA where the value cannot partition a table. */
export function parsePartitionKey(field: PartitionField, source: LakeField, key: string | null): StoredValue | null {
  if (key === null) return null
  const value = key.startsWith(':') ? parseValue(transformOf(field), source.type, key.slice(1)) : null
  if (value !== null) return value
  throw new SluiceError('INVALID_DATA', `a value of the partition column "${source.name}" cannot name a partition`, {
    code: 'lake_partition_value_invalid',
    remedy: `Leave out infinite times, dates BC and numbers next to the smallest of their type, and partition text longer than ${MAX_KEY_BYTES} bytes by bucket[N].`,
    details: { column: source.name },
  })
}

function parseValue(transform: Transform, type: LogicalType, text: string): StoredValue | null {
  if (transform.kind === 'identity') return parsePrinted(type, text)
  if (transform.kind !== 'truncate') return parsePrinted('integer', text)
  if (type === 'string') return text
  if (!/^-?\d+$/.test(text)) return null
  const truncated = BigInt(text)
  // The truncation of the smallest numbers is beyond their type. Iceberg's own wraps around to the largest, where every
  // engine's pruning then loses the rows; a decimal could not even be read back.
  if (truncated < smallestOf(type)) return null
  return type === 'integer' ? Number(truncated) : truncated
}

function smallestOf(type: LogicalType): bigint {
  if (type === 'integer') return -(2n ** 31n)
  return type === 'long' ? -(2n ** 63n) : 1n - 10n ** BigInt(parseDecimal(type)?.precision ?? 38)
}

function invalid(column: string, transform: string, reason: string): SluiceError {
  return new SluiceError('CONFIG', `the table cannot be partitioned by ${transform} of "${column}": ${reason}`, {
    code: 'lake_partitioning_invalid',
    remedy: 'Use identity, year, month, day, hour, bucket[N] or truncate[N] of a column whose type it takes.',
    details: { column, transform, reason },
  })
}
