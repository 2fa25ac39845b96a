/** The tables that checks work with, and rows for them. */
import {
  type Capabilities,
  type Column,
  LOGICAL_TYPE_NAMES,
  type LogicalType,
  type LogicalTypeName,
  type Row,
  type TableSchema,
} from '@sluice/sdk'
import type { Random } from './random.ts'
import { extremes, ordinary, randomValue } from './values.ts'

/** Every shape has it, since a timeseries store can do nothing without. */
export const TIME_COLUMN = 'at'

const ID: Column = { name: 'id', type: 'long', nullable: false }
const AT: Column = { name: TIME_COLUMN, type: 'timestamptz', nullable: false }

/** One key column and a few of the types that products are made of. */
export const SIMPLE: TableSchema = {
  columns: [
    ID,
    AT,
    { name: 'name', type: 'string', nullable: true },
    { name: 'amount', type: 'decimal(12,2)', nullable: true },
    { name: 'rank', type: 'integer', nullable: true },
    { name: 'active', type: 'boolean', nullable: true },
  ],
  primaryKey: ['id'],
}

/** The same after a column was added. */
export const WIDER: TableSchema = {
  ...SIMPLE,
  columns: [...SIMPLE.columns, { name: 'more', type: 'string', nullable: true }],
}

/** What an endpoint over SIMPLE shows that keeps all states. */
export const HISTORY_SCHEMA: TableSchema = {
  ...SIMPLE,
  columns: [
    ...SIMPLE.columns,
    { name: 'valid_from', type: 'timestamptz', nullable: false },
    { name: 'valid_to', type: 'timestamptz', nullable: true },
    { name: 'is_current', type: 'boolean', nullable: false },
  ],
}

/** A key of several columns, two of them text, so that a store that joins them can be caught. */
export const COMPOSITE: TableSchema = {
  columns: [
    { name: 'left', type: 'string', nullable: false },
    { name: 'right', type: 'string', nullable: false },
    { name: 'number', type: 'integer', nullable: false },
    AT,
    { name: 'note', type: 'string', nullable: true },
  ],
  primaryKey: ['right', 'left', 'number'],
}

const TYPE_OF_NAME: Readonly<Partial<Record<LogicalTypeName, readonly LogicalType[]>>> = {
  decimal: ['decimal(38,0)', 'decimal(38,10)', 'decimal(9,2)', 'decimal(3,3)'],
}

/** A column of every logical type that the store does not reject. */
export function everyType(capabilities: Capabilities): TableSchema {
  const types = LOGICAL_TYPE_NAMES.filter((name) => capabilities.types[name] === 'exact').flatMap(
    (name) => TYPE_OF_NAME[name] ?? [name as LogicalType],
  )
  const columns = types.map((type) => ({ name: `c_${type.replaceAll(/[^a-z0-9]+/g, '_')}`, type, nullable: true }))
  return { columns: [ID, AT, ...columns], primaryKey: ['id'] }
}

/** The n-th instant of the time column: minutes over some days before the checks' clock begins. */
export function instantAt(index: number): string {
  const ms = Date.UTC(2026, 1, 26) + (index % 4000) * 60_000
  return new Date(ms).toISOString().replace('Z', '000Z')
}

/** Row number `index`: its key says so, its other cells are random, and some are null. */
export function rowAt(schema: TableSchema, index: number, random: Random): Row {
  return schema.columns.map(({ name, type, nullable }) => {
    if (name === TIME_COLUMN) return instantAt(index)
    if (schema.primaryKey.includes(name)) return keyValue(type, index)
    return nullable && random.chance(0.15) ? null : ordinary(type, random)
  })
}

function keyValue(type: LogicalType, index: number): string | number | bigint {
  if (type === 'long') return BigInt(index)
  return type === 'string' ? `k${index}` : index
}

/** Rows with keys `from` … `from + count - 1`. */
export function rowsOf(schema: TableSchema, from: number, count: number, random: Random): Row[] {
  return Array.from({ length: count }, (_, offset) => rowAt(schema, from + offset, random))
}

/** Rows in which every extreme of every column occurs, one row of nulls, and some at random. */
export function extremeRows(schema: TableSchema, random: Random): Row[] {
  const lists = schema.columns.map((column) => extremes(column.type))
  const count = Math.max(...lists.map((list) => list.length))
  const systematic = Array.from({ length: count }, (_, index) =>
    withIdentity(schema, index, (column) => lists[column]?.[index % (lists[column]?.length ?? 1)] ?? null),
  )
  const nulls = withIdentity(schema, count, () => null)
  const mixed = Array.from({ length: 40 }, (_, index) =>
    withIdentity(schema, count + 1 + index, (column) =>
      random.chance(0.2) ? null : randomValue(schema.columns[column]?.type ?? 'string', random),
    ),
  )
  return [...systematic, nulls, ...mixed]
}

function withIdentity(schema: TableSchema, index: number, cell: (column: number) => Row[number]): Row {
  return schema.columns.map(({ name, type }, column) => {
    if (name === TIME_COLUMN) return instantAt(index)
    return schema.primaryKey.includes(name) ? keyValue(type, index) : cell(column)
  })
}

/** The row with other values in the named columns. */
export function changed(schema: TableSchema, row: Row, cells: Readonly<Record<string, Row[number]>>): Row {
  return schema.columns.map(({ name }, index) =>
    Object.hasOwn(cells, name) ? (cells[name] ?? null) : (row[index] ?? null),
  )
}
