/** What every store refuses in a plan before it asks its engine anything. */
import type { Capabilities } from './capabilities.ts'
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
  if (!Number.isSafeInteger(plan.limit) || plan.limit < 1 || plan.limit > capabilities.limits.maxReadRows) {
    throw new SluiceError('INVALID_DATA', 'the limit is out of range', {
      code: 'limit_out_of_range',
      remedy: `Ask for 1 to ${capabilities.limits.maxReadRows} rows.`,
    })
  }
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
