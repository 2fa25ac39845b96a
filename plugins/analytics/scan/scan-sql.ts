/** A read plan as one SELECT, in the words of an engine. Of a plan nothing becomes text but by the dialect. */
import {
  type Filter,
  type FilterOperator,
  type LogicalType,
  type Operand,
  type ReadPlan,
  type RowPredicate,
  SluiceError,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'

/** How an engine says it. Values are of their column's type when they get here. */
export interface ScanDialect {
  /** What stands behind FROM. */
  readonly source: string
  typeName(type: LogicalType): string
  /** The cell as the statement selects it. */
  selected(cell: string, type: LogicalType): string
  /** By what rows are ordered as the contract orders the cell; the cell itself where this is left out. */
  ordered?(cell: string, type: LogicalType): readonly string[]
  /** Unknown where the cell is null; NaN equals itself and stands above every other number. */
  comparison(
    cell: string,
    operator: Exclude<FilterOperator, 'in'>,
    value: NonNullable<Value>,
    type: LogicalType,
    bind: (value: Value) => string,
  ): string
}

export interface ScanSource {
  readonly schema: TableSchema
  /** Columns that the snapshot's files have; the others of the schema are null. */
  readonly present: ReadonlySet<string>
}

export interface ScanSql {
  readonly sql: string
  readonly parameters: readonly Value[]
  /** What the statement selects: the plan's columns, then those that make up the cursor. */
  readonly selected: readonly SelectedColumn[]
}

export interface SelectedColumn {
  readonly name: string
  readonly type: LogicalType
}

interface OrderPart extends SelectedColumn {
  readonly isDescending: boolean
}

/** One row more than the plan's limit, so that it shows whether there is a next page. */
export function compileScan(source: ScanSource, plan: ReadPlan, dialect: ScanDialect): ScanSql {
  const text = new SqlText(source, dialect)
  const order = orderOf(source.schema, plan)
  const selected = [
    ...plan.columns.map((name) => text.column(name)),
    ...order.map(({ name, type }) => ({ name, type })),
  ]
  const conditions = [text.predicate(plan.policy.rows, plan), ...plan.filters.map((filter) => text.filter(filter))]
  if (plan.after !== undefined) conditions.push(text.after(order, checkedCursor(plan.after, order)))
  const sql = [
    `SELECT ${selected.map((column, index) => `${text.selected(column)} AS c${index}`).join(', ')}`,
    `FROM ${dialect.source}`,
    `WHERE ${conditions.map((condition) => `(${condition})`).join(' AND ')}`,
    `ORDER BY ${order.map((part) => text.ordering(part)).join(', ')}`,
    `LIMIT ${plan.limit + 1}`,
  ].join('\n')
  return { sql, parameters: text.parameters, selected }
}

/** The asked order, then the key; without a key, every column that there is. */
function orderOf(schema: TableSchema, plan: ReadPlan): readonly OrderPart[] {
  const asked = plan.orderBy.map(({ column, direction }) => ({ name: column, isDescending: direction === 'desc' }))
  const key = schema.primaryKey.length > 0 ? schema.primaryKey : schema.columns.map((column) => column.name)
  const rest = key.filter((name) => !asked.some((part) => part.name === name))
  return [...asked, ...rest.map((name) => ({ name, isDescending: false }))].map((part) => ({
    ...part,
    type: typeOf(schema, part.name),
  }))
}

class SqlText {
  readonly #source: ScanSource
  readonly #dialect: ScanDialect
  readonly parameters: Value[] = []

  constructor(source: ScanSource, dialect: ScanDialect) {
    this.#source = source
    this.#dialect = dialect
  }

  column(name: string): SelectedColumn {
    return { name, type: typeOf(this.#source.schema, name) }
  }

  selected({ name, type }: SelectedColumn): string {
    return this.#dialect.selected(this.#cell(name), type)
  }

  ordering({ name, type, isDescending }: OrderPart): string {
    const cell = this.#cell(name)
    const parts = this.#dialect.ordered?.(cell, type) ?? [cell]
    return parts.map((part) => `${part} ${isDescending ? 'DESC NULLS FIRST' : 'ASC NULLS LAST'}`).join(', ')
  }

  filter({ column, operator, values }: Filter): string {
    if (operator !== 'in') return this.#comparison(column, operator, values[0] ?? null)
    return anyOf(values.map((value) => this.#comparison(column, 'eq', value)))
  }

  predicate(predicate: RowPredicate, plan: ReadPlan): string {
    switch (predicate.op) {
      case 'all':
        return 'true'
      case 'none':
        return 'false'
      case 'and':
        return allOf(predicate.of.map((part) => this.predicate(part, plan)))
      case 'or':
        return anyOf(predicate.of.map((part) => this.predicate(part, plan)))
      case 'not':
        return `NOT (${this.predicate(predicate.of, plan)})`
      case 'is_null':
        return `${this.#cell(predicate.column)} IS NULL`
      case 'in':
        return anyOf(predicate.values.map((value) => this.#comparison(predicate.column, 'eq', operand(value, plan))))
      default:
        return this.#comparison(predicate.column, predicate.op, operand(predicate.value, plan))
    }
  }

  /** Rows after the position. Null stands above every value. */
  after(order: readonly OrderPart[], position: readonly Value[]): string {
    return anyOf(
      order.map((part, index) =>
        allOf([
          ...order.slice(0, index).map(({ name }, before) => this.#same(name, position[before] ?? null)),
          this.#beyond(part, position[index] ?? null),
        ]),
      ),
    )
  }

  #same(name: string, value: Value): string {
    return value === null ? `${this.#cell(name)} IS NULL` : this.#comparison(name, 'eq', value)
  }

  #beyond({ name, isDescending }: OrderPart, value: Value): string {
    if (isDescending) return value === null ? `${this.#cell(name)} IS NOT NULL` : this.#comparison(name, 'lt', value)
    return value === null ? 'false' : anyOf([this.#comparison(name, 'gt', value), `${this.#cell(name)} IS NULL`])
  }

  /** Unknown where either side is null, or the value is not of the column's type. */
  #comparison(name: string, operator: Exclude<FilterOperator, 'in'>, value: Value): string {
    const { type } = this.column(name)
    if (value === null || !isOfType(value, type)) return 'CAST(NULL AS BOOLEAN)'
    return this.#dialect.comparison(this.#cell(name), operator, value, type, (bound) => {
      this.parameters.push(bound)
      return `$${this.parameters.length}`
    })
  }

  #cell(name: string): string {
    return this.#source.present.has(name)
      ? quoted(name)
      : `CAST(NULL AS ${this.#dialect.typeName(this.column(name).type)})`
  }
}

export const OPERATORS = { eq: '=', ne: '<>', lt: '<', le: '<=', gt: '>', ge: '>=' } as const

function operand(value: Operand, plan: ReadPlan): Value {
  if ('literal' in value) return value.literal
  return Object.hasOwn(plan.policy.claims, value.claim) ? (plan.policy.claims[value.claim] ?? null) : null
}

function allOf(conditions: readonly string[]): string {
  return conditions.length === 0 ? 'true' : conditions.map((condition) => `(${condition})`).join(' AND ')
}

function anyOf(conditions: readonly string[]): string {
  return conditions.length === 0 ? 'false' : conditions.map((condition) => `(${condition})`).join(' OR ')
}

function typeOf(schema: TableSchema, name: string): LogicalType {
  const column = schema.columns.find((candidate) => candidate.name === name)
  if (column) return column.type
  throw new SluiceError('INVALID_DATA', `there is no column ${name}`, { code: 'unknown_column' })
}

function checkedCursor(after: readonly Value[], order: readonly OrderPart[]): readonly Value[] {
  const fits = order.every(({ type }, index) => {
    const value = after[index]
    return value === null || (value !== undefined && isOfType(value, type))
  })
  if (fits && after.length === order.length) return after
  throw new SluiceError('INVALID_DATA', 'the cursor does not belong to this read', {
    code: 'invalid_cursor',
    remedy: 'Begin again from the first page.',
  })
}

function isOfType(value: NonNullable<Value>, type: LogicalType): boolean {
  switch (typeName(type)) {
    case 'boolean':
      return typeof value === 'boolean'
    case 'long':
      return typeof value === 'bigint'
    case 'integer':
    case 'float':
    case 'double':
      return typeof value === 'number'
    case 'binary':
      return value instanceof Uint8Array
    default:
      return typeof value === 'string' && (TEXT_FORMS[typeName(type)]?.test(value) ?? true)
  }
}

/** What each type's text looks like, so that the engine's cast cannot fail. */
const TEXT_FORMS: Readonly<Record<string, RegExp>> = {
  decimal: /^-?\d{1,38}(\.\d{1,38})?$/,
  date: /^\d{4}-\d\d-\d\d$/,
  timestamp: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/,
  timestamptz: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/,
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
