/** Tests of dbt as checks of quality.yaml. */
import type { LogicalType } from '@sluice/sdk'
import type { CheckFields } from '../../manifest/files/quality.ts'
import type { Scalar } from '../../manifest/manifest-set.ts'
import { typedValue } from '../../manifest/scalar-values.ts'
import { type DbtNode, type Fields, fieldOf, textOf, textsOf } from './artifacts.ts'

/** What a check says: one of its kinds. */
export type Said = Omit<CheckFields, 'name' | 'severity' | 'threshold'>

/** What a test's model is as a product. */
export interface Tested {
  /** The column of that name in any case; undefined where there is none. */
  column(name: string): { readonly name: string; readonly type: LogicalType } | undefined
  /** The alias of the input that the test compares with; null: it cannot be one. */
  readonly compared: string | null
}

export interface Allowed {
  readonly severity: 'error' | 'warn'
  /** Failures that there may be. */
  readonly failures: number
}

/** From how many failures on a test fails; null where its conditions are no bounds from below. */
export function allowedOf(config: Fields): readonly Allowed[] | null {
  const warnIf = mostFailures(fieldOf(config, 'warn_if'))
  const errorIf = mostFailures(fieldOf(config, 'error_if'))
  const isWarning = textOf(fieldOf(config, 'severity'))?.toLowerCase() === 'warn'
  if (warnIf === null || (errorIf === null && !isWarning)) return null
  if (isWarning || errorIf === null) return [{ severity: 'warn', failures: warnIf }]
  const warns = warnIf < errorIf ? [{ severity: 'warn', failures: warnIf } as const] : []
  return [{ severity: 'error', failures: errorIf }, ...warns]
}

function mostFailures(condition: unknown): number | null {
  if (condition === undefined || condition === null) return 0
  const match = /^\s*(!=|<>|>=?)\s*(\d{1,15})\s*$/.exec(String(condition))
  if (match === null) return null
  const [, sign, number] = match
  const bound = Number(number)
  if (sign === '>') return bound
  if (sign === '>=') return bound > 0 ? bound - 1 : null
  return bound === 0 ? 0 : null
}

const DBT_UTILS = 'dbt_utils'
const EXPECTATIONS = 'dbt_expectations'

/** The kind of check that says the same as the test; null where none does, or not for certain. */
export function checkOf(node: DbtNode, tested: Tested): Said | null {
  const { test, config } = node
  if (test === null || fieldOf(config, 'where') || !countsRows(config)) return null
  const written = textOf(fieldOf(test.arguments, 'column_name')) ?? node.testColumn
  const column = written === null ? undefined : tested.column(unquoted(written))
  const given: Given = { of: test.arguments, column, tested, isStrict: allowsNone(config) }
  const isOwn = test.namespace === null || test.namespace === 'dbt'
  if (isOwn) return Object.hasOwn(OWN, test.name) ? (OWN[test.name] as Reader)(given) : null
  if (fieldOf(test.arguments, 'row_condition') || fieldOf(test.arguments, 'group_by')) return null
  if (listOf(fieldOf(test.arguments, 'group_by_columns')).length > 0) return null
  const name = `${test.namespace}.${test.name}`
  return Object.hasOwn(OTHERS, name) ? (OTHERS[name] as Reader)(given) : null
}

/** Whether a failure is a row that the test gives. */
export function countsRows(config: Fields): boolean {
  const counted = textOf(fieldOf(config, 'fail_calc')) ?? 'count(*)'
  return counted.replaceAll(/\s/g, '').toLowerCase() === 'count(*)'
}

const allowsNone = (config: Fields): boolean => allowedOf(config)?.every(({ failures }) => failures === 0) ?? false

interface Given {
  readonly of: Fields
  readonly column: { readonly name: string; readonly type: LogicalType } | undefined
  readonly tested: Tested
  /** dbt counts values where a check counts rows: with a threshold the two would differ. */
  readonly isStrict: boolean
}

type Reader = (given: Given) => Said | null

const notNull: Reader = ({ column }) => (column ? { not_null: column.name } : null)
const unique: Reader = ({ column, isStrict }) => (column && isStrict ? { unique: column.name } : null)

const accepted =
  (from: string): Reader =>
  ({ of, column, isStrict }) => {
    const list = listOf(fieldOf(of, from))
    if (!column || !isStrict || list.length === 0) return null
    const values = list.map((value) => scalarFor(value, column.type))
    if (values.includes(null)) return null
    return { accepted_values: { column: column.name, values: [...new Set(values as Scalar[])] } }
  }

const range =
  (least: string, greatest: string, isExclusive: (of: Fields) => boolean): Reader =>
  ({ of, column }) => {
    if (!column || column.type === 'boolean') return null
    const bounds = { min: fieldOf(of, least) ?? undefined, max: fieldOf(of, greatest) ?? undefined }
    const given = Object.entries(bounds).filter(([, value]) => value !== undefined)
    const typed = given.map(([name, value]) => [name, typeof value === 'number' ? scalarFor(value, column.type) : null])
    if (given.length === 0 || typed.some(([, value]) => value === null)) return null
    return {
      range: { column: column.name, ...Object.fromEntries(typed), ...(isExclusive(of) ? { exclusive: true } : {}) },
    }
  }

const references: Reader = ({ of, column, tested }) => {
  const { compared: input } = tested
  const field = textOf(fieldOf(of, 'field'))
  if (!column || field === null || input === null) return null
  return { references: { columns: column.name, input, input_columns: unquoted(field) } }
}

const rowCount: Reader = ({ of }) => {
  const bounds = (['min_value', 'max_value'] as const).map((name) => fieldOf(of, name) ?? undefined)
  const [min, max] = bounds
  if (bounds.some((value) => value !== undefined && !Number.isSafeInteger(value))) return null
  if (min === undefined && max === undefined) return null
  return {
    row_count: {
      ...(min === undefined ? {} : { min: Number(min) }),
      ...(max === undefined ? {} : { max: Number(max) }),
    },
  }
}

const isThere: Reader = ({ column }) => (column ? { schema: { columns: [column.name] } } : null)

const UNITS: Readonly<Record<string, string>> = { minute: 'm', hour: 'h', day: 'd' }

const recency: Reader = ({ of, tested }) => {
  const unit = UNITS[textOf(fieldOf(of, 'datepart'))?.toLowerCase() ?? '']
  const interval = fieldOf(of, 'interval')
  const column = tested.column(unquoted(textOf(fieldOf(of, 'field')) ?? ''))
  const isTime = column?.type === 'date' || column?.type.startsWith('timestamp')
  if (!unit || !column || !isTime || !Number.isSafeInteger(interval) || Number(interval) < 1) return null
  return Number(interval) > 99_999 ? null : { freshness: { column: column.name, max_age: `${interval}${unit}` } }
}

const OWN: Readonly<Record<string, Reader>> = {
  not_null: notNull,
  unique,
  accepted_values: accepted('values'),
  relationships: references,
}

const OTHERS: Readonly<Record<string, Reader>> = {
  [`${DBT_UTILS}.accepted_range`]: range('min_value', 'max_value', (of) => fieldOf(of, 'inclusive') === false),
  [`${DBT_UTILS}.recency`]: recency,
  [`${EXPECTATIONS}.expect_column_values_to_be_between`]: range(
    'min_value',
    'max_value',
    (of) => fieldOf(of, 'strictly') === true,
  ),
  [`${EXPECTATIONS}.expect_column_values_to_not_be_null`]: notNull,
  [`${EXPECTATIONS}.expect_column_values_to_be_unique`]: unique,
  [`${EXPECTATIONS}.expect_column_values_to_be_in_set`]: accepted('value_set'),
  [`${EXPECTATIONS}.expect_table_row_count_to_be_between`]: rowCount,
  [`${EXPECTATIONS}.expect_column_to_exist`]: isThere,
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

export const unquoted = (name: string): string => name.trim().replace(/^(["`])(.*)\1$/s, '$2')

/** The value as the column has it: dbt quotes numbers, too. Null where the column cannot have it. */
function scalarFor(value: unknown, type: LogicalType): Scalar | null {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return null
  const tries: Scalar[] = [value, String(value)]
  if (typeof value === 'string' && /^-?\d{1,15}(\.\d{1,9})?$/.test(value)) tries.unshift(Number(value))
  if (typeof value === 'string' && /^(true|false)$/i.test(value)) tries.unshift(value.toLowerCase() === 'true')
  return tries.find((one) => typedValue(one, type) !== null) ?? null
}

/** Columns that tests say to be without nulls, and to tell rows apart, whatever they hold: of every row, as errors. */
export function keysTested(tests: readonly DbtNode[]): readonly (readonly string[])[] {
  const strict = tests.filter(
    ({ config, test }) => test !== null && !fieldOf(config, 'where') && allowsNone(config) && isError(config),
  )
  const of = (...names: readonly string[]) =>
    strict.filter(({ test }) => names.includes(test?.name ?? '')).map(columnsOfTest)
  const present = new Set(of('not_null', 'expect_column_values_to_not_be_null').flat())
  const unique = of('unique', 'expect_column_values_to_be_unique', 'unique_combination_of_columns')
  return unique.filter((columns) => columns.length > 0 && columns.every((column) => present.has(column)))
}

const isError = (config: Fields): boolean => textOf(fieldOf(config, 'severity'))?.toLowerCase() !== 'warn'

function columnsOfTest({ test, testColumn }: DbtNode): readonly string[] {
  const several = textsOf(fieldOf(test?.arguments, 'combination_of_columns'))
  const one = textOf(fieldOf(test?.arguments, 'column_name')) ?? testColumn
  return (several.length > 0 ? several : one === null ? [] : [one]).map((name) => unquoted(name).toLowerCase())
}
