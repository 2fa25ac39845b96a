/** Filters, policies, orders and positions in SQL. Its three-valued logic is the contract's; every value is bound. */
import type { Claims, Filter, LogicalType, Operand, OrderPart, RowPredicate, TableSchema, Value } from '@sluice/sdk'
import { type Cell, toCell } from './cells.ts'
import { columnOf } from './datasets.ts'

export interface Sql {
  readonly text: string
  readonly values: readonly Cell[]
}

const OPERATORS = { eq: '=', ne: '<>', lt: '<', le: '<=', gt: '>', ge: '>=' } as const

const TRUE: Sql = { text: '1', values: [] }
const FALSE: Sql = { text: '0', values: [] }

export function allOf(parts: readonly Sql[]): Sql {
  return joined(parts, 'AND', TRUE)
}

/** In halves: SQLite refuses expressions that are nested a thousand deep, and a chain of words is as deep as it is long. */
function joined(parts: readonly Sql[], word: 'AND' | 'OR', empty: Sql): Sql {
  const [first = empty] = parts
  if (parts.length < 2) return first
  const half = Math.ceil(parts.length / 2)
  const halves = [joined(parts.slice(0, half), word, empty), joined(parts.slice(half), word, empty)]
  return {
    text: `(${halves.map(({ text }) => text).join(` ${word} `)})`,
    values: halves.flatMap(({ values }) => values),
  }
}

export function filterSql({ column, operator, values }: Filter, schema: TableSchema): Sql {
  const type = typeOf(schema, column)
  const name = columnOf(schema, column)
  if (operator !== 'in') return compared(name, OPERATORS[operator], values[0] ?? null, type)
  return joined(
    values.map((value) => compared(name, '=', value, type)),
    'OR',
    FALSE,
  )
}

export function predicateSql(predicate: RowPredicate, schema: TableSchema, claims: Claims): Sql {
  switch (predicate.op) {
    case 'all':
      return TRUE
    case 'none':
      return FALSE
    case 'and':
      return allOf(predicate.of.map((part) => predicateSql(part, schema, claims)))
    case 'or':
      return joined(
        predicate.of.map((part) => predicateSql(part, schema, claims)),
        'OR',
        FALSE,
      )
    case 'not': {
      const { text, values } = predicateSql(predicate.of, schema, claims)
      return { text: `NOT (${text})`, values }
    }
    case 'is_null':
      return { text: `${columnOf(schema, predicate.column)} IS NULL`, values: [] }
    case 'in':
      return joined(
        predicate.values.map((value) => comparedWith('=', predicate.column, value, schema, claims)),
        'OR',
        FALSE,
      )
    default:
      return comparedWith(OPERATORS[predicate.op], predicate.column, predicate.value, schema, claims)
  }
}

function comparedWith(operator: string, column: string, operand: Operand, schema: TableSchema, claims: Claims): Sql {
  const value = 'literal' in operand ? operand.literal : claimOf(claims, operand.claim)
  return compared(columnOf(schema, column), operator, value, typeOf(schema, column))
}

function claimOf(claims: Claims, name: string): Value {
  return Object.hasOwn(claims, name) ? (claims[name] ?? null) : null
}

function compared(name: string, operator: string, value: Value, type: LogicalType): Sql {
  return { text: `${name} ${operator} ?`, values: [toCell(value, type)] }
}

function typeOf(schema: TableSchema, name: string): LogicalType {
  return schema.columns.find((column) => column.name === name)?.type ?? 'string'
}

/** One part of a total order, as a column of the table. */
export interface SqlOrderPart {
  readonly name: string
  readonly type: LogicalType
  readonly direction: OrderPart['direction']
}

/** Null stands above every value. */
export function orderSql(order: readonly SqlOrderPart[]): string {
  return order
    .map(({ name, direction }) => `${name} ${direction === 'asc' ? 'ASC NULLS LAST' : 'DESC NULLS FIRST'}`)
    .join(', ')
}

/** What comes after that position in the order: after its first part, or with the same first part after the second. */
export function afterSql(order: readonly SqlOrderPart[], position: readonly Value[]): Sql {
  const [first, ...rest] = order
  if (first === undefined) return FALSE
  const [value = null, ...others] = position
  const further = beyond(first, value)
  if (rest.length === 0) return further
  const same: Sql = { text: `${first.name} IS ?`, values: [toCell(value, first.type)] }
  return joined([further, allOf([same, afterSql(rest, others)])], 'OR', FALSE)
}

function beyond({ name, type, direction }: SqlOrderPart, value: Value): Sql {
  if (value === null) return direction === 'asc' ? FALSE : { text: `${name} IS NOT NULL`, values: [] }
  const cell = toCell(value, type)
  if (direction === 'desc') return { text: `${name} < ?`, values: [cell] }
  return { text: `(${name} > ? OR ${name} IS NULL)`, values: [cell] }
}
