/** The rows that a training set is made for, as their sender wrote them: one relation of the engine, every value typed. */
import { setImmediate } from 'node:timers/promises'
import type { EngineTable } from '@sluice/engine'
import { type LogicalType, SluiceError, toJsonValue, typeName } from '@sluice/sdk'
import { isRounded, mayBeRounded } from '../../parsing/kept-numbers.ts'
import { parseValue } from '../reads/parse-value.ts'
import { invalidSet } from './training-refusals.ts'

export type LabelValue = string | number | boolean | null
export type LabelRow = Readonly<Record<string, LabelValue>>

/** No namespace may begin so: no product is meant by it, and no other name of the statement is taken for one. */
export const LABELS = '__labels'
export const MAX_LABELS = 20_000
/** Whatever is asked for, an answer has no more columns. */
export const MAX_LABEL_COLUMNS = 100
/** Rows times columns, those that keys are found by counted again: absent values are values here. */
const MAX_CELLS = 300_000
/** Values are read so many at a time; others have their turn between. */
const VALUES_IN_A_TURN = 2_000

/** A column of the labels that a feature is found by, as a value of that feature's type. */
export interface LabelKey {
  readonly label: string
  readonly type: LogicalType
}

export interface LabelColumns {
  /** In the order of their first values. */
  readonly names: readonly string[]
  readonly rows: readonly LabelRow[]
}

/** Throws INVALID_DATA `training_set_invalid`. */
export function labelColumns(rows: readonly LabelRow[]): LabelColumns {
  const names = [...new Set(rows.flatMap(Object.keys))]
  if (names.length <= MAX_LABEL_COLUMNS) return { names, rows }
  throw invalidSet(`the labels have more than ${MAX_LABEL_COLUMNS} columns`, 'Send those that features need.')
}

/**
 * The labels in their order: `n` is the place of each, `t` its time, `c0`… its values as they come back, `k0`… those that
 * features are found by. Throws INVALID_DATA `invalid_value` and `training_set_invalid`; neither repeats a value.
 */
export async function labelTable(
  { names, rows }: LabelColumns,
  timeColumn: string,
  keys: readonly LabelKey[],
): Promise<EngineTable> {
  const count = rows.length * (names.length + keys.length)
  if (count > MAX_CELLS) throw invalidSet(`the labels have ${count} values, and may have ${MAX_CELLS}`, 'Send fewer.')
  const time = await cells(rows, { label: timeColumn, type: 'timestamptz' })
  const own: (PlainColumn | null)[] = []
  for (const name of names) own.push(name === timeColumn ? null : await plainColumn(name, rows))
  const found: (readonly Cell[])[] = []
  for (const key of keys) found.push(await cells(rows, key))
  const columns = [
    { name: 'n', type: 'long' },
    { name: 't', type: 'timestamptz' },
    ...own.map((column, at) => ({ name: `c${at}`, type: column?.type ?? 'timestamptz' })),
    ...keys.map(({ type }, at) => ({ name: `k${at}`, type })),
  ] as const
  return {
    name: [LABELS],
    files: [],
    columns: columns.map((column, at) => ({ ...column, fieldId: at + 1 })),
    rows: rows.map((_, row) => [
      String(row),
      time[row] ?? null,
      ...own.map((column) => (column === null ? time[row] : column.cells[row]) ?? null),
      ...found.map((column) => column[row] ?? null),
    ]),
  }
}

type Cell = string | null

/** What every object has by itself is no column. */
const valueOf = (row: LabelRow, label: string): LabelValue => (Object.hasOwn(row, label) ? (row[label] ?? null) : null)

/** As values of the type, which is a product's: what it cannot hold is refused here, and not by the engine. */
function cells(rows: readonly LabelRow[], { label, type }: LabelKey): Promise<readonly Cell[]> {
  return eachCell(rows, label, (value, where, row) => {
    const text = textOf(value, where, { type, wasRounded: isRounded(row, label) })
    return String(toJsonValue(parseValue(text, type, where), type))
  })
}

interface PlainColumn {
  readonly type: LogicalType
  readonly cells: readonly Cell[]
}

/** Whole numbers, numbers, truths or texts: what all values of the column are, or it is refused. */
async function plainColumn(label: string, rows: readonly LabelRow[]): Promise<PlainColumn> {
  const kinds = new Set<LogicalType>()
  const texts = await eachCell(rows, label, (value, where) => {
    kinds.add(kindOf(value))
    return textOf(value, where)
  })
  if (kinds.has('double')) kinds.delete('long')
  const [type = 'string', other] = kinds
  if (other === undefined) return { type, cells: texts }
  const what = `${JSON.stringify(label.slice(0, 64))} of the labels holds values of several kinds`
  throw invalidSet(what, 'Write all of them as numbers, as texts, or as true and false.')
}

async function eachCell(
  rows: readonly LabelRow[],
  label: string,
  cellOf: (value: NonNullable<LabelValue>, where: string, row: LabelRow) => string,
): Promise<readonly Cell[]> {
  const found: Cell[] = []
  const name = JSON.stringify(label.slice(0, 64))
  for (const [at, row] of rows.entries()) {
    if (at % VALUES_IN_A_TURN === VALUES_IN_A_TURN - 1) await setImmediate()
    const value = valueOf(row, label)
    found.push(value === null ? null : cellOf(value, `${name} of label ${at + 1}`, row))
  }
  return found
}

function kindOf(value: string | number | boolean): LogicalType {
  if (typeof value === 'string') return 'string'
  if (typeof value === 'boolean') return 'boolean'
  return Number.isInteger(value) ? 'long' : 'double'
}

/**
 * Whoever wrote a number of many digits may have lost some: it would be another one. Fractions are meant as doubles, but where a
 * feature is found by them.
 * @param meant the type of the feature's column, and whether the number was written with more digits than it has
 */
function textOf(
  value: string | number | boolean,
  where: string,
  meant: { readonly type: LogicalType; readonly wasRounded: boolean } = { type: 'double', wasRounded: false },
): string {
  if (typeof value !== 'number') return String(value)
  const isDouble = ['float', 'double'].includes(typeName(meant.type)) && !Number.isInteger(value)
  if (isDouble || !(meant.wasRounded || mayBeRounded(value))) return String(value)
  throw new SluiceError('INVALID_DATA', `${where} is a number that may have lost digits on its way`, {
    code: 'invalid_value',
    remedy: 'Write numbers of more than 15 digits, or beyond ±(2^53−1), as strings.',
  })
}
