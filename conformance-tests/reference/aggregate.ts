/**
 * Kept aggregates, computed when they are read: the meaning against which a store's own are tested. For each interval
 * `bucket` (its start, UTC) and for each column of the aggregate its measures: `<column>_count`, `<column>_sum` …
 */
import {
  compareAs,
  intervalEndMs,
  intervalStartMs,
  type LogicalType,
  parseDecimal,
  parseInterval,
  type ReadPlan,
  type Row,
  SluiceError,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'
import { timeColumn } from './config.ts'
import { cellOf } from './content.ts'
import type { StoredDataset } from './memory.ts'

const NUMBERS = ['integer', 'long', 'float', 'double', 'decimal']
const ORDERED = [...NUMBERS, 'string', 'date', 'timestamp', 'timestamptz']

type Measure = 'count' | 'sum' | 'avg' | 'min' | 'max'

/** Numbers have all of them, what has an order count, min and max, anything else its count. Nulls never count. */
function measuresOf(type: LogicalType): readonly Measure[] {
  if (NUMBERS.includes(typeName(type))) return ['count', 'sum', 'avg', 'min', 'max']
  return ORDERED.includes(typeName(type)) ? ['count', 'min', 'max'] : ['count']
}

function columnsOf(stored: StoredDataset, interval: string): readonly string[] {
  const kept = stored.config.continuous_aggregates?.find((aggregate) => aggregate.interval === interval)
  if (kept) return kept.columns
  throw new SluiceError('INVALID_DATA', 'no aggregate of this interval is kept', {
    code: 'unknown_interval',
    remedy: 'Name an interval of continuous_aggregates.',
  })
}

export function aggregateSchema(stored: StoredDataset, interval: string): TableSchema {
  const measured = columnsOf(stored, interval).flatMap((name) =>
    measuresOf(typeOf(stored, name)).map((measure) => ({
      name: `${name}_${measure}`,
      type: measureType(measure, typeOf(stored, name)),
      nullable: true,
    })),
  )
  return { columns: [{ name: 'bucket', type: 'timestamptz', nullable: false }, ...measured], primaryKey: ['bucket'] }
}

function typeOf(stored: StoredDataset, name: string): LogicalType {
  return stored.schema.columns.find((column) => column.name === name)?.type ?? 'string'
}

function measureType(measure: Measure, type: LogicalType): LogicalType {
  if (measure === 'count') return 'long'
  if (measure === 'avg') return 'double'
  if (measure !== 'sum') return type
  const decimal = parseDecimal(type)
  if (decimal) return `decimal(38,${decimal.scale})`
  return type === 'integer' || type === 'long' ? 'decimal(38,0)' : 'double'
}

/** Whole intervals that touch the plan's range. */
export function aggregateRows(stored: StoredDataset, rows: readonly Row[], plan: ReadPlan): Row[] {
  const interval = parseInterval(plan.interval ?? '')
  const columns = columnsOf(stored, plan.interval ?? '')
  if (interval === null) return []
  const groups = Map.groupBy(rows, (row) => intervalStartMs(interval, timeMs(stored, row)))
  const wanted = [...groups].filter(([startMs]) => {
    const from = plan.range?.from == null ? Number.NEGATIVE_INFINITY : Date.parse(plan.range.from)
    const to = plan.range?.to == null ? Number.POSITIVE_INFINITY : Date.parse(plan.range.to)
    return intervalEndMs(interval, startMs) > from && startMs < to
  })
  return wanted.map(([startMs, group]) => [
    new Date(startMs).toISOString().replace('Z', '000Z'),
    ...columns.flatMap((name) => measure(group, name, stored)),
  ])
}

/** A timestamp without a zone is taken as UTC. */
function timeMs(stored: StoredDataset, row: Row): number {
  const time = String(cellOf(stored.schema, timeColumn(stored), row))
  return Date.parse(time.length === 26 ? `${time}Z` : time)
}

function measure(rows: readonly Row[], name: string, stored: StoredDataset): Row {
  const type = typeOf(stored, name)
  const cells = rows.map((row) => cellOf(stored.schema, name, row)).filter((value) => value !== null)
  const sorted = cells.sort((left, right) => compareAs(type, left, right))
  const total = sum(cells, type)
  const average = total === null ? null : Number(total) / cells.length
  const values: Readonly<Record<Measure, Value>> = {
    count: BigInt(cells.length),
    sum: total,
    avg: average,
    min: sorted[0] ?? null,
    max: sorted.at(-1) ?? null,
  }
  return measuresOf(type).map((name) => values[name])
}

function sum(cells: readonly NonNullable<Value>[], type: LogicalType): Value {
  if (cells.length === 0) return null
  const decimal = parseDecimal(type)
  if (decimal)
    return plainDecimal(
      cells.reduce<bigint>((total, cell) => total + unscaled(String(cell)), 0n),
      decimal.scale,
    )
  const name = typeName(type)
  if (name === 'integer' || name === 'long') {
    return cells.reduce<bigint>((total, cell) => total + unscaled(String(cell)), 0n).toString()
  }
  if (name === 'float' || name === 'double') return cells.reduce<number>((total, cell) => total + Number(cell), 0)
  return null
}

function unscaled(decimal: string): bigint {
  return BigInt(decimal.replace('.', ''))
}

function plainDecimal(total: bigint, scale: number): string {
  if (scale === 0) return total.toString()
  const digits = (total < 0n ? -total : total).toString().padStart(scale + 1, '0')
  return `${total < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}
