/** Questions about one state of a table whose answer the model knows: which rows pass. Engines answer by their pruning. */
import type { LogicalType } from '@sluice/sdk'
import { compareCells, isFloating, kindOf, numberOf } from './cells.ts'
import { KEY, type ModelColumn, type ModelRow, type TableState } from './history.ts'
import type { Random } from './random.ts'

export type Operator = 'eq' | 'lt' | 'ge' | 'in' | 'is_null' | 'not_null' | 'starts_with'

export interface Question {
  readonly column: string
  readonly type: LogicalType
  readonly operator: Operator
  /** Cells, none of them NaN. */
  readonly values: readonly string[]
  /** Keys of the rows that pass, sorted. */
  readonly expected: readonly number[]
}

export function questions(random: Random, state: TableState): readonly Question[] {
  return state.columns.flatMap((column) => questionsOn(random, state, column))
}

function questionsOn(random: Random, state: TableState, column: ModelColumn): readonly Question[] {
  const cells = state.rows.map((row) => row.get(column.id) ?? null)
  const values = [...new Set(cells.filter((cell): cell is string => cell !== null && isAsked(cell, column.type)))]
  const asked = random
    .sample(operatorsOn(column.type), OPERATORS_A_COLUMN)
    .flatMap((operator): readonly Omit<Question, 'expected'>[] => {
      const base = { column: column.name, type: column.type, operator }
      if (operator === 'is_null' || operator === 'not_null') return [{ ...base, values: [] }]
      const count = operator === 'in' ? 3 : 1
      const chosen = random.sample(values, operator === 'starts_with' ? values.length : count)
      if (operator !== 'starts_with') return chosen.length === 0 ? [] : [{ ...base, values: chosen }]
      const start = chosen.map((cell) => [...cell].slice(0, 2).join('')).find((text) => /^[\p{L}{]+$/u.test(text))
      return start === undefined ? [] : [{ ...base, values: [start] }]
    })
  return asked.map((question) => ({ ...question, expected: answer(state, column, question) }))
}

const OPERATORS_A_COLUMN = 4

/** PyIceberg takes an infinite float for a value beyond all floats, which no row equals. */
function isAsked(cell: string, type: LogicalType): boolean {
  return cell !== 'nan' && (type !== 'float' || Number.isFinite(numberOf(cell)))
}

function operatorsOn(type: LogicalType): readonly Operator[] {
  switch (kindOf(type)) {
    case 'boolean':
      return ['eq', 'is_null', 'not_null']
    // Engines order them differently, or not at all.
    case 'uuid':
    case 'json':
      return ['eq', 'in', 'is_null', 'not_null']
    case 'string':
      return ['eq', 'lt', 'ge', 'in', 'starts_with', 'is_null', 'not_null']
    default:
      return ['eq', 'lt', 'ge', 'in', 'is_null', 'not_null']
  }
}

function answer(state: TableState, column: ModelColumn, question: Omit<Question, 'expected'>): readonly number[] {
  return keysOf(state, (row) => passes(row.get(column.id) ?? null, question))
}

function passes(cell: string | null, { type, operator, values }: Omit<Question, 'expected'>): boolean {
  if (operator === 'is_null') return cell === null
  if (cell === null) return false
  if (operator === 'not_null') return true
  if (operator === 'starts_with') return cell.startsWith(values[0] as string)
  // Engines differ in where NaN stands: such rows are left out of the answers (`undecided`).
  if (cell === 'nan') return false
  const orders = values.map((value) => compareCells(cell, value, type))
  if (operator === 'lt') return (orders[0] as number) < 0
  return operator === 'ge' ? (orders[0] as number) >= 0 : orders.includes(0)
}

/**
 * Rows whose place in this comparison is each engine's own affair: NaN, and, where a zero is looked for, zeros, whose
 * sign some engines tell apart.
 */
export function undecided(state: TableState, { column: name, type, operator, values }: Question): ReadonlySet<number> {
  if (!isFloating(type) || operator === 'is_null' || operator === 'not_null') return new Set()
  const column = state.columns.find((candidate) => candidate.name === name)
  const asksForZero = (operator === 'eq' || operator === 'in') && values.some((value) => numberOf(value) === 0)
  const isUndecided = (row: ModelRow) => {
    const cell = column === undefined ? null : (row.get(column.id) ?? null)
    return cell !== null && (cell === 'nan' || (asksForZero && numberOf(cell) === 0))
  }
  return new Set(keysOf(state, isUndecided))
}

function keysOf(state: TableState, wanted: (row: ModelRow) => boolean): readonly number[] {
  const key = state.columns.find(({ name }) => name === KEY)
  if (key === undefined) throw new Error('the model lost its key')
  const keys = state.rows.filter(wanted).map((row) => Number(row.get(key.id)))
  return keys.sort((left, right) => left - right)
}
