/** What every store refuses in a plan before it asks its engine anything. */
import type { Capabilities } from './capabilities.ts'
import type { OperationPlan } from './declared-operation.ts'
import { SluiceError, unsupported } from './errors.ts'
import type { ReadPlan } from './read-plan.ts'

/**
 * Throws UNSUPPORTED for an undeclared operation, operator or history, PERMISSION `column_not_visible` for a column
 * outside the policy, PERMISSION `column_masked` for a filter or an order on a masked one, and INVALID_DATA
 * `limit_out_of_range`. Names of columns that the reader may not see are not told from names that do not exist.
 */
export function checkReadPlan(plan: ReadPlan, capabilities: Capabilities): void {
  checkOperation(plan, capabilities)
  const { visibleColumns, maskedColumns } = plan.policy
  // The usual plan asks for exactly the visible columns, in their order: nothing to look up on the hot path.
  if (!plan.columns.every((column, index) => visibleColumns[index] === column || visibleColumns.includes(column))) {
    throw notVisible()
  }
  for (const { column } of [...plan.filters, ...plan.orderBy]) {
    if (!visibleColumns.includes(column)) throw notVisible()
    if (maskedColumns.includes(column)) throw columnMasked(column)
  }
  checkLimit(plan, capabilities)
}

/**
 * The same of a declared operation: UNSUPPORTED for one that is not declared, PERMISSION `column_not_visible`, INVALID_DATA
 * `limit_out_of_range`. Whether its input chooses rows by a masked column has been judged by what `selects` says.
 */
export function checkOperationPlan(plan: OperationPlan, capabilities: Capabilities): void {
  const declared = Object.entries(capabilities.declared ?? {}).find(([name]) => name === plan.operation)?.[1]
  if (declared === undefined) throw unsupported(`the operation ${plan.operation}`)
  const added = declared.adds?.map(({ name }) => name) ?? []
  const { visibleColumns } = plan.policy
  if (!plan.columns.every((name) => visibleColumns.includes(name) || added.includes(name))) throw notVisible()
  checkLimit(plan, capabilities)
}

function checkLimit({ limit }: Pick<ReadPlan, 'limit'>, { limits }: Capabilities): void {
  if (Number.isSafeInteger(limit) && limit >= 1 && limit <= limits.maxReadRows) return
  throw new SluiceError('INVALID_DATA', 'the limit is out of range', {
    code: 'limit_out_of_range',
    remedy: `Ask for 1 to ${limits.maxReadRows} rows.`,
  })
}

function checkOperation(plan: ReadPlan, capabilities: Capabilities): void {
  if (!capabilities.operations.includes(plan.operation)) throw unsupported(`the read operation ${plan.operation}`)
  for (const { operator } of plan.filters) {
    if (!capabilities.filters.includes(operator)) throw unsupported(`the filter operator ${operator}`)
  }
  if (plan.history && !(capabilities.histories ?? []).includes('type_2')) throw unsupported('history')
}

function notVisible(): SluiceError {
  return new SluiceError('PERMISSION', 'the plan names a column that is not visible to the reader', {
    code: 'column_not_visible',
    remedy: 'Name visible columns only.',
  })
}

/** PERMISSION `column_masked`: filtering, sorting or keying by a masked column would tell what the mask hides. */
export function columnMasked(column: string): SluiceError {
  return new SluiceError('PERMISSION', `the column ${column} is masked for this reader and cannot select rows`, {
    code: 'column_masked',
    details: { column },
    remedy: 'Leave the column out of filters and order, or ask the owner for a grant that unmasks its class.',
  })
}
