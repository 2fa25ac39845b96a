/** Rows compared by what they mean: json by its content, floats by their 32 bits, each cell by its own type. */

import { isDeepStrictEqual } from 'node:util'
import { type LogicalType, type Row, type TableSchema, toJsonValue, typeName, type Value } from '@sluice/sdk'

/** The primary key's values as text; for a table without one, the whole row. */
export function keyText(schema: TableSchema, row: Row): string {
  const names = schema.primaryKey.length > 0 ? schema.primaryKey : schema.columns.map((column) => column.name)
  return cellsText(names.map((name) => row[indexOf(schema, name)] ?? null))
}

export function cellsText(cells: Row): string {
  return JSON.stringify(cells.map(cellText))
}

function cellText(value: Value): string | null {
  if (value === null) return null
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value)
}

export function indexOf(schema: TableSchema, name: string): number {
  return schema.columns.findIndex((column) => column.name === name)
}

/** Whether a value that a store gave is the one that was written, in representation too. */
export function sameValue(type: LogicalType, written: Value, given: Value): boolean {
  if (written === null || given === null) return written === given
  if (typeof written !== typeof given) return false
  switch (typeName(type)) {
    case 'json':
      return isDeepStrictEqual(JSON.parse(String(written)), JSON.parse(String(given)))
    case 'float':
      return Object.is(Math.fround(Number(written)), Math.fround(Number(given)))
    case 'binary':
      return given instanceof Uint8Array && Buffer.compare(written as Uint8Array, given) === 0
    default:
      return Object.is(written, given)
  }
}

/** The same for a value out of a JSON batch, which has no negative zero. */
export function sameJson(type: LogicalType, written: Value, given: unknown): boolean {
  const expected = toJsonValue(written, type)
  if (typeof expected !== 'number' || typeof given !== 'number') return isDeepStrictEqual(expected, given)
  return expected === given
}

export interface RowsDifference {
  readonly missing: readonly string[]
  readonly unexpected: readonly string[]
  /** Keys that came more than once. */
  readonly repeated: readonly string[]
  readonly cells: readonly string[]
}

/** What separates the rows that should be there from those that are; null where nothing does. */
export function differenceOf(
  schema: TableSchema,
  expected: readonly Row[],
  given: readonly Row[],
): RowsDifference | null {
  const wanted = new Map(expected.map((row) => [keyText(schema, row), row]))
  const found = Map.groupBy(given, (row) => keyText(schema, row))
  const missing = [...wanted.keys()].filter((key) => !found.has(key))
  const unexpected = [...found.keys()].filter((key) => !wanted.has(key))
  const repeated = [...found].filter(([, rows]) => rows.length > 1).map(([key]) => key)
  const cells = [...wanted].flatMap(([key, row]) => cellDifferences(schema, key, row, found.get(key)?.[0]))
  if (missing.length + unexpected.length + repeated.length + cells.length === 0) return null
  return { missing, unexpected, repeated, cells }
}

function cellDifferences(schema: TableSchema, key: string, written: Row, given: Row | undefined): readonly string[] {
  if (!given) return []
  return schema.columns.flatMap(({ name, type }, index) => {
    const [left = null, right = null] = [written[index], given[index]]
    return sameValue(type, left, right) ? [] : [`${key}.${name} (${type}): ${shown(left)} came back as ${shown(right)}`]
  })
}

/** A value as it stands in a failure's text; the suite's rows are generated, so nothing is given away. */
export function shown(value: Value): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('hex') || '(none)'}`
  if (typeof value === 'bigint') return `${value}n`
  return Object.is(value, -0) ? '-0' : String(value)
}

export function describeDifference(difference: RowsDifference): string {
  const lists = Object.entries(difference) as [string, readonly string[]][]
  return lists
    .filter(([, items]) => items.length > 0)
    .map(([name, items]) => `${items.length} ${name}: ${items.slice(0, 3).join('; ')}`)
    .join(' | ')
}
