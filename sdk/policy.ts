/**
 * Policies reach a store as data: what rows and columns a reader may see, never SQL text and never a user. The
 * tenant is not part of the policy: it comes with the scope, and a store enforces it first and always.
 */
import type { LogicalType, Row, TableSchema, Value } from './schema.ts'

export type ComparisonOperator = 'eq' | 'ne' | 'lt' | 'le' | 'gt' | 'ge'

/** A fixed value, or one that the reader's claims give. */
export type Operand = { readonly literal: Value } | { readonly claim: string }

/**
 * Which rows. Comparisons follow SQL: with a null on either side they are unknown, and unknown denies. A claim that
 * the reader does not have is null.
 */
export type RowPredicate =
  | { readonly op: 'all' }
  | { readonly op: 'none' }
  | { readonly op: 'and' | 'or'; readonly of: readonly RowPredicate[] }
  | { readonly op: 'not'; readonly of: RowPredicate }
  | { readonly op: ComparisonOperator; readonly column: string; readonly value: Operand }
  | { readonly op: 'in'; readonly column: string; readonly values: readonly Operand[] }
  | { readonly op: 'is_null'; readonly column: string }

export type Claims = Readonly<Record<string, Value>>

/** What one reader may see of one dataset, decided by the runtime for this read. */
export interface ReadPolicy {
  /** Changes whenever a grant or a class changes; part of every cache key and cursor. */
  readonly version: string
  readonly rows: RowPredicate
  readonly claims: Claims
  /** The columns a plan may name; any other is refused with PERMISSION `column_not_visible`. */
  readonly visibleColumns: readonly string[]
  /** Visible columns that hold masked values in this variant: a plan that filters or sorts by one is refused. */
  readonly maskedColumns: readonly string[]
}

/** What `rls.install` puts in place for a dataset: rows of other tenants do not exist, whoever asks. */
export interface RowPolicy {
  readonly version: string
  readonly tenantIsolation: 'forced'
}

export interface InstalledPolicy extends RowPolicy {
  /** Where the wall stands, in words for an operator: `row security forced on sales.orders`. */
  readonly enforcedBy: string
}

/** Three-valued: true, false, or null for unknown. */
type Truth = boolean | null

/** Whether the row passes: the meaning of a predicate, against which stores are tested. Unknown denies. */
export function rowPasses(predicate: RowPredicate, schema: TableSchema, row: Row, claims: Claims): boolean {
  const cell = (name: string): Cell => {
    const index = schema.columns.findIndex((column) => column.name === name)
    return { value: row[index] ?? null, type: schema.columns[index]?.type ?? 'string' }
  }
  return evaluate(predicate, cell, claims) === true
}

interface Cell {
  readonly value: Value
  readonly type: LogicalType
}

function evaluate(predicate: RowPredicate, cell: (name: string) => Cell, claims: Claims): Truth {
  switch (predicate.op) {
    case 'all':
      return true
    case 'none':
      return false
    case 'and':
      return conjunction(predicate.of.map((part) => evaluate(part, cell, claims)))
    case 'or':
      return negate(conjunction(predicate.of.map((part) => negate(evaluate(part, cell, claims)))))
    case 'not':
      return negate(evaluate(predicate.of, cell, claims))
    case 'is_null':
      return cell(predicate.column).value === null
    case 'in': {
      const tests = predicate.values.map((value) => compare('eq', cell(predicate.column), operand(value, claims)))
      return negate(conjunction(tests.map(negate)))
    }
    default:
      return compare(predicate.op, cell(predicate.column), operand(predicate.value, claims))
  }
}

function operand(value: Operand, claims: Claims): Value {
  if ('literal' in value) return value.literal
  return Object.hasOwn(claims, value.claim) ? (claims[value.claim] ?? null) : null
}

function negate(truth: Truth): Truth {
  return truth === null ? null : !truth
}

function conjunction(truths: readonly Truth[]): Truth {
  if (truths.includes(false)) return false
  return truths.includes(null) ? null : true
}

function compare(op: ComparisonOperator, left: Cell, right: Value): Truth {
  if (left.value === null || right === null) return null
  const order = compareAs(left.type, left.value, right)
  switch (op) {
    case 'eq':
      return order === 0
    case 'ne':
      return order !== 0
    case 'lt':
      return order < 0
    case 'le':
      return order <= 0
    case 'gt':
      return order > 0
    case 'ge':
      return order >= 0
  }
}

/**
 * Total order of two non-null values of one type: numbers by size with NaN last, strings and bytes by their UTF-8
 * bytes, false before true. Decimals are strings: compare them with `compareDecimals`.
 */
export function compareValues(left: NonNullable<Value>, right: NonNullable<Value>): number {
  if (typeof left === 'number' && typeof right === 'number') {
    if (Number.isNaN(left)) return Number.isNaN(right) ? 0 : 1
    if (Number.isNaN(right)) return -1
    return left < right ? -1 : left > right ? 1 : 0
  }
  if (typeof left === 'string' && typeof right === 'string')
    return Buffer.compare(Buffer.from(left), Buffer.from(right))
  if (left instanceof Uint8Array && right instanceof Uint8Array) return Buffer.compare(left, right)
  return left < right ? -1 : left > right ? 1 : 0
}

/** Total order of two non-null values of the type given: `compareDecimals` for decimals, else `compareValues`. */
export function compareAs(type: LogicalType, left: NonNullable<Value>, right: NonNullable<Value>): number {
  if (type.startsWith('decimal')) return compareDecimals(String(left), String(right))
  return compareValues(left, right)
}

/** Order of two decimals in plain notation, exact. */
export function compareDecimals(left: string, right: string): number {
  const scale = Math.max(fraction(left).length, fraction(right).length)
  const difference = unscaled(left, scale) - unscaled(right, scale)
  return difference < 0n ? -1 : difference > 0n ? 1 : 0
}

function fraction(decimal: string): string {
  return decimal.split('.')[1] ?? ''
}

function unscaled(decimal: string, scale: number): bigint {
  const [whole = '0'] = decimal.split('.')
  return BigInt(whole + fraction(decimal).padEnd(scale, '0'))
}
