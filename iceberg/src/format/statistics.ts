import { type LogicalType, SluiceError, typeName } from '@sluice/sdk'
import type { DataFile } from './data-file.ts'
import { encodeStored, parsePrinted, type StoredValue } from './stored-value.ts'
import type { LakeField, LakeSchema } from './table-schema.ts'

/** What the engine reports of one column of one file, all as text. */
export type ColumnStatistics = Readonly<Record<string, string>>

export type FileMetrics = Pick<
  DataFile,
  'columnSizes' | 'valueCounts' | 'nullCounts' | 'nanCounts' | 'lowerBounds' | 'upperBounds'
>

/**
 * Turns the engine's statistics into a manifest's. A bound that is wrong makes readers drop rows without a sign, so
 * one that cannot be trusted is left out: of uuid (engines order it differently), binary (printed ambiguously),
 * columns with NaN, infinite times and dates BC.
 * @param statistics by column, quoted as the engine quotes it
 */
export function fileMetrics(schema: LakeSchema, statistics: Readonly<Record<string, ColumnStatistics>>): FileMetrics {
  const metrics = {
    columnSizes: new Map<number, number>(),
    valueCounts: new Map<number, number>(),
    nullCounts: new Map<number, number>(),
    nanCounts: new Map<number, number>(),
    lowerBounds: new Map<number, Uint8Array>(),
    upperBounds: new Map<number, Uint8Array>(),
  }
  for (const field of schema.fields) {
    const column = statistics[`"${field.name.replaceAll('"', '""')}"`]
    if (column === undefined) continue
    putCount(metrics.columnSizes, field.id, column.column_size_bytes)
    putCount(metrics.valueCounts, field.id, column.num_values)
    putCount(metrics.nullCounts, field.id, column.null_count)
    if (column.has_nan === 'false') metrics.nanCounts.set(field.id, 0)
    checkRequired(field, column)
    putBounds(metrics, field, column)
  }
  return metrics
}

function putCount(counts: Map<number, number>, id: number, text: string | undefined): void {
  const count = text === undefined ? Number.NaN : Number(text)
  if (Number.isSafeInteger(count) && count >= 0) counts.set(id, count)
}

function checkRequired(field: LakeField, column: ColumnStatistics): void {
  if (field.nullable || column.null_count === undefined || column.null_count === '0') return
  throw new SluiceError('INVALID_DATA', `the column "${field.name}" is required, but rows have no value for it`, {
    code: 'required_value_missing',
    remedy: 'Fill the column or reject the rows in the transform, or declare it nullable.',
    details: { column: field.name, rows: Number(column.null_count) },
  })
}

type Bounds = { lowerBounds: Map<number, Uint8Array>; upperBounds: Map<number, Uint8Array> }

function putBounds(metrics: Bounds, { id, type }: LakeField, column: ColumnStatistics): void {
  if (!bounded(type, column) || column.min === undefined || column.max === undefined) return
  const lower = lowerBound(type, column.min)
  const upper = upperBound(type, column.max)
  // One bound alone is as good as none for most readers, and a pair that is not in order proves a misreading.
  if (lower === null || upper === null) return
  metrics.lowerBounds.set(id, lower)
  metrics.upperBounds.set(id, upper)
}

function bounded(type: LogicalType, column: ColumnStatistics): boolean {
  const name = typeName(type)
  if (name === 'uuid' || name === 'binary') return false
  return (name !== 'float' && name !== 'double') || column.has_nan === 'false'
}

/** Iceberg's default for text metrics. */
const MAX_CHARACTERS = 16

function lowerBound(type: LogicalType, text: string): Buffer | null {
  if (isText(type)) return Buffer.from(Array.from(text).slice(0, MAX_CHARACTERS).join(''), 'utf8')
  const value = parsePrinted(type, text)
  // Readers order −0.0 below 0.0, the engine does not.
  if (value === 0 && isFloating(type)) return encodeStored(type, -0)
  return value === null ? null : encodeStored(type, isDoubtful(type, value) && value > 0 ? value / 2 : value)
}

function upperBound(type: LogicalType, text: string): Buffer | null {
  if (isText(type)) return upperText(text)
  const value = parsePrinted(type, text)
  if (value === 0 && isFloating(type)) return encodeStored(type, 0)
  return value === null ? null : encodeStored(type, isDoubtful(type, value) && value < 0 ? value / 2 : value)
}

/** DuckDB prints some powers of two as the one that is twice as far from zero, 2^81 as 2^82. */
function isDoubtful(type: LogicalType, value: StoredValue): value is number {
  if (type !== 'double' || typeof value !== 'number' || Math.abs(value) < 2 ** 64) return false
  return Math.abs(value) === 2 ** Math.round(Math.log2(Math.abs(value)))
}

const isText = (type: LogicalType): boolean => type === 'string' || type === 'json'
const isFloating = (type: LogicalType): boolean => type === 'float' || type === 'double'

/** Text of at most 16 characters that is not below any text beginning with what was cut. */
function upperText(text: string): Buffer | null {
  const characters = Array.from(text)
  if (characters.length <= MAX_CHARACTERS) return Buffer.from(text, 'utf8')
  const kept = characters.slice(0, MAX_CHARACTERS)
  for (let last = kept.pop(); last !== undefined; last = kept.pop()) {
    const next = nextCharacter(last.codePointAt(0) as number)
    if (next !== null) return Buffer.from(kept.join('') + String.fromCodePoint(next), 'utf8')
  }
  return null
}

function nextCharacter(code: number): number | null {
  if (code + 1 === 0xd800) return 0xe000
  return code < 0x10ffff ? code + 1 : null
}
