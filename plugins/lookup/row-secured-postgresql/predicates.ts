/** Filters, row predicates and page positions as SQL with bound parameters. */

import type { LogicalType } from '@sluice/sdk'
import {
  type Claims,
  columnMasked,
  type Filter,
  type Operand,
  type ReadPlan,
  type ReadPolicy,
  type RowPredicate,
  SluiceError,
  type Value,
} from '@sluice/sdk'
import { boundText, comparable, comparableParameterType, parameterText } from './column-types.ts'

/** A column that a table serves: its name to readers, and how SQL refers to it. */
export interface ServedColumn {
  readonly name: string
  readonly type: LogicalType
  readonly sql: string
  readonly nullable: boolean
}

export type ServedColumns = ReadonlyMap<string, ServedColumn>

/** Collects a statement's values; equal statements have equal texts, so that they are prepared once. */
export class Parameters {
  readonly values: (string | null)[]

  constructor(values: readonly (string | null)[] = []) {
    this.values = [...values]
  }

  add(value: string | null, type: string): string {
    this.values.push(value)
    return `$${this.values.length}::${type}`
  }
}

const OPERATORS = { eq: '=', ne: '<>', lt: '<', le: '<=', gt: '>', ge: '>=' } as const

/**
 * What `checkReadPlan` cannot know: a visible column that the table does not serve is refused like an invisible one,
 * and a column derived from a masked one (`originOf`) is masked too.
 */
export function checkColumns(plan: ReadPlan, served: ServedColumns, originOf: (name: string) => string): void {
  const compared = [...plan.filters, ...plan.orderBy].map((part) => part.column)
  for (const name of [...plan.columns, ...compared]) servedColumn(served, name)
  const masked = compared.find((name) => plan.policy.maskedColumns.includes(originOf(name)))
  if (masked !== undefined) throw columnMasked(masked)
}

function notVisible(): SluiceError {
  return new SluiceError('PERMISSION', 'the plan names a column that is not visible to the reader', {
    code: 'column_not_visible',
    remedy: 'Name visible columns only.',
  })
}

export function servedColumn(served: ServedColumns, name: string): ServedColumn {
  const column = served.get(name)
  if (!column) throw notVisible()
  return column
}

/** Joined by AND; a null never matches. */
export function filterCondition(filter: Filter, served: ServedColumns, parameters: Parameters): string {
  const column = servedColumn(served, filter.column)
  const type = comparableParameterType(column.type)
  const bind = (value: NonNullable<Value>) => parameters.add(boundText(column.name, column.type, value), type)
  const left = comparable(column.type, column.sql)
  if (filter.operator === 'in') {
    return filter.values.length === 0 ? 'false' : `${left} in (${filter.values.map(bind).join(', ')})`
  }
  const [value] = filter.values
  if (value === undefined || filter.values.length !== 1) {
    throw new SluiceError('INVALID_DATA', `the filter on "${column.name}" needs exactly one value`, {
      code: 'invalid_filter',
      remedy: 'Give one value, or use the operator in.',
    })
  }
  return `${left} ${OPERATORS[filter.operator]} ${bind(value)}`
}

/** The rows a reader may see; without a policy there are none. */
export function policyCondition(
  policy: ReadPolicy | undefined,
  served: ServedColumns,
  parameters: Parameters,
): string | null {
  if (!policy) return 'false'
  return policy.rows.op === 'all' ? null : predicateCondition(policy.rows, policy.claims, served, parameters)
}

function predicateCondition(
  predicate: RowPredicate,
  claims: Claims,
  served: ServedColumns,
  parameters: Parameters,
): string {
  switch (predicate.op) {
    case 'all':
      return 'true'
    case 'none':
      return 'false'
    case 'and':
    case 'or': {
      if (predicate.of.length === 0) return predicate.op === 'and' ? 'true' : 'false'
      const parts = predicate.of.map((part) => predicateCondition(part, claims, served, parameters))
      return `(${parts.join(` ${predicate.op} `)})`
    }
    case 'not':
      return `(not ${predicateCondition(predicate.of, claims, served, parameters)})`
    case 'is_null': {
      const column = served.get(predicate.column)
      return column ? `(${column.sql} is null)` : 'true'
    }
    case 'in': {
      if (predicate.values.length === 0) return 'false'
      const tests = predicate.values.map((value) =>
        comparison('eq', predicate.column, value, claims, served, parameters),
      )
      return `(${tests.join(' or ')})`
    }
    default:
      return comparison(predicate.op, predicate.column, predicate.value, claims, served, parameters)
  }
}

/** A value that is not of the column's type, and a column that is not there, compare as null: unknown denies. */
function comparison(
  operator: keyof typeof OPERATORS,
  name: string,
  operand: Operand,
  claims: Claims,
  served: ServedColumns,
  parameters: Parameters,
): string {
  const column = served.get(name)
  if (!column) return 'null::boolean'
  const value = operandValue(operand, claims)
  const text = value === null ? null : parameterText(column.type, value)
  const bound = parameters.add(text, comparableParameterType(column.type))
  return `(${comparable(column.type, column.sql)} ${OPERATORS[operator]} ${bound})`
}

function operandValue(operand: Operand, claims: Claims): Value {
  if ('literal' in operand) return operand.literal
  return Object.hasOwn(claims, operand.claim) ? (claims[operand.claim] ?? null) : null
}

export interface OrderTerm {
  readonly column: ServedColumn
  readonly direction: 'asc' | 'desc'
}

/** PostgreSQL's own order, null as the greatest value, so that an index gives it. */
export function orderClause(terms: readonly OrderTerm[]): string {
  return terms.map((term) => `${comparable(term.column.type, term.column.sql)} ${term.direction}`).join(', ')
}

/** Rows that come after the one with these values in the order of the terms. */
export function afterCondition(terms: readonly OrderTerm[], after: readonly Value[], parameters: Parameters): string {
  if (after.length !== terms.length) throw badPosition()
  const values = after.map((value, index) => bindPosition(terms[index], value, parameters))
  const ascending = terms.every((term) => term.direction === 'asc' && !term.column.nullable)
  const left = (term: OrderTerm) => comparable(term.column.type, term.column.sql)
  if (ascending) return `(${terms.map(left).join(', ')}) > (${values.join(', ')})`
  const branches = terms.map((term, index) => {
    const before = terms.slice(0, index).map((equal, at) => equals(left(equal), values[at] ?? null))
    return [...before, beyond(term, left(term), values[index] ?? null)].join(' and ')
  })
  return `(${branches.map((branch) => `(${branch})`).join(' or ')})`
}

function bindPosition(term: OrderTerm | undefined, value: Value, parameters: Parameters): string | null {
  if (!term) throw badPosition()
  if (value === null) {
    if (!term.column.nullable) throw badPosition()
    return null
  }
  const text = parameterText(term.column.type, value)
  if (text === null) throw badPosition()
  return parameters.add(text, comparableParameterType(term.column.type))
}

function equals(left: string, value: string | null): string {
  return value === null ? `${left} is null` : `${left} = ${value}`
}

function beyond(term: OrderTerm, left: string, value: string | null): string {
  if (term.direction === 'asc') {
    if (value === null) return 'false'
    return term.column.nullable ? `(${left} > ${value} or ${left} is null)` : `${left} > ${value}`
  }
  return value === null ? `${left} is not null` : `${left} < ${value}`
}

function badPosition(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the position to read on from does not fit the order of the read', {
    code: 'invalid_cursor',
    remedy: 'Begin again from the first page.',
  })
}
