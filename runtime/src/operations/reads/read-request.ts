/** From what a reader asks for to a plan that a store can run; every refusal of a read for its form is here. */
import {
  type Column,
  columnNamed,
  type Filter,
  type FilterOperator,
  type Ordering,
  type ReadPolicy,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'
import { UNMASK_REMEDY } from '../served/served-product.ts'
import { parseValue } from './parse-value.ts'

const OPERATORS: readonly FilterOperator[] = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in']
const FILTER_FORM = 'a filter has the form <column>:<value> or <column>.<operator>:<value>'
const MAX_FILTERS = 20
const MAX_IN_VALUES = 100

/**
 * `<column>:<value>` is equality with all that follows the first colon, whatever it looks like; another operator stands
 * at the column, `price.gt:10`, because no column's name holds a dot.
 */
export function parseFilters(texts: readonly string[], schema: TableSchema, policy: ReadPolicy): readonly Filter[] {
  if (texts.length > MAX_FILTERS) {
    throw invalid('too_many_filters', `a read takes at most ${MAX_FILTERS} filters`, 'Send fewer filters.')
  }
  return texts.map((text) => parseFilter(text, schema, policy))
}

function parseFilter(text: string, schema: TableSchema, policy: ReadPolicy): Filter {
  const colon = text.indexOf(':')
  if (colon <= 0) {
    throw invalid('filter_malformed', FILTER_FORM, 'For example filter=id:42 or filter=id.gt:42.')
  }
  const [name, operatorName] = splitOnce(text.slice(0, colon), '.')
  const value = text.slice(colon + 1)
  const column = selectingColumn(name, schema, policy)
  const operator = operatorNamed(operatorName ?? 'eq')
  const parts = operator === 'in' ? value.split(',') : [value]
  if (parts.length > MAX_IN_VALUES) {
    throw invalid('too_many_values', `a filter takes at most ${MAX_IN_VALUES} values`, 'Send fewer values.')
  }
  return {
    column: name,
    operator,
    values: parts.map((part) => parseValue(part, column.type, `the filter on "${name}"`)),
  }
}

function splitOnce(text: string, separator: string): readonly [string, string | null] {
  const at = text.indexOf(separator)
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)]
}

function operatorNamed(name: string): FilterOperator {
  const operator = OPERATORS.find((candidate) => candidate === name)
  if (operator !== undefined) return operator
  const message = `there is no filter operator "${name.slice(0, 64)}"`
  throw invalid('filter_malformed', message, `Operators: ${OPERATORS.join(', ')}; for example filter=id.gt:42.`)
}

/** All visible columns where none are named. */
export function parseColumns(text: string | undefined, policy: ReadPolicy, schema: TableSchema): readonly string[] {
  const names = text?.split(',').map((name) => name.trim())
  return parseColumnNames(names, policy, schema)
}

export function parseColumnNames(
  names: readonly string[] | undefined,
  policy: ReadPolicy,
  schema: TableSchema,
): readonly string[] {
  if (names === undefined) return policy.visibleColumns
  for (const name of names) visibleColumn(name, schema, policy)
  return [...new Set(names)]
}

export function parseOrder(text: string | undefined, schema: TableSchema, policy: ReadPolicy): readonly Ordering[] {
  if (text === undefined) return []
  return text.split(',').map((part) => {
    const [name = '', direction = 'asc'] = part.trim().split(/[:.]/)
    selectingColumn(name, schema, policy)
    if (direction !== 'asc' && direction !== 'desc') {
      throw invalid('order_malformed', 'an order has the form <column> or <column>:desc', 'For example order=id:desc.')
    }
    return { column: name, direction }
  })
}

/** A column by which this reader may choose rows. */
export function selectingColumn(name: string, schema: TableSchema, policy: ReadPolicy): Column {
  const column = visibleColumn(name, schema, policy)
  if (policy.maskedColumns.includes(name)) throw columnMasked(name)
  return column
}

/** A column that the reader may not see is answered like one that does not exist. */
function visibleColumn(name: string, schema: TableSchema, policy: ReadPolicy): Column {
  if (policy.visibleColumns.includes(name)) return columnNamed(schema, name)
  throw new SluiceError('INVALID_DATA', `the product has no column "${name.slice(0, 64)}"`, {
    code: 'unknown_column',
    remedy: `Columns: ${policy.visibleColumns.slice(0, 100).join(', ')}.`,
  })
}

export function columnMasked(name: string): SluiceError {
  return new SluiceError('PERMISSION', `the column "${name}" is masked for you and cannot select or sort rows`, {
    code: 'column_masked',
    remedy: UNMASK_REMEDY,
    details: { column: name },
  })
}

function invalid(code: string, message: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code, remedy })
}
