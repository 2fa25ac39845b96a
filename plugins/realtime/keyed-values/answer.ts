/** From a stored value to an answer: the caller's policy, and the columns that were asked for. */
import {
  batchFromRows,
  columnMasked,
  type KeyTemplate,
  type ReadPlan,
  type RowPredicate,
  rowPasses,
  type TableSchema,
} from '@sluice/sdk'
import { cellTexts, cellValue, isWhole, type Layout, projectedJson } from './cells.ts'

/** A value as it is stored, and which of the dataset's layouts it has. */
export interface StoredValue {
  readonly layout: number
  /** JSON; null for a deletion. */
  readonly value: string | null
}

/** A key over a masked column would tell whether the hidden value is what was guessed. */
export function checkKeyColumns(template: KeyTemplate, { policy }: ReadPlan): void {
  if (policy.maskedColumns.length === 0) return
  for (const { column } of template.parts) {
    if (policy.maskedColumns.includes(column)) throw columnMasked(column)
  }
}

/** Whether the caller's predicate holds for the value. */
export function isAllowed(
  layouts: readonly Layout[],
  { value, layout: index }: StoredValue,
  { policy }: ReadPlan,
): boolean {
  const { rows } = policy
  if (value === null || rows.op === 'none') return false
  if (rows.op === 'all') return true
  const layout = layouts[index] ?? []
  const stored = new Set(layouts.flatMap((columns) => columns.map((column) => column.name)))
  if (!columnsOf(rows).every((name) => stored.has(name))) return false
  const texts = cellTexts(value)
  const row = layout.map(({ type }, column) => cellValue(texts[column] ?? 'null', type))
  const schema: TableSchema = { columns: layout.map((column) => ({ ...column, nullable: true })), primaryKey: [] }
  return rowPasses(rows, schema, row, policy.claims)
}

/** A predicate over a column that is not stored is not known to hold, so it denies. */
function columnsOf(predicate: RowPredicate): readonly string[] {
  switch (predicate.op) {
    case 'all':
    case 'none':
      return []
    case 'and':
    case 'or':
      return predicate.of.flatMap(columnsOf)
    case 'not':
      return columnsOf(predicate.of)
    default:
      return [predicate.column]
  }
}

/** One row or none, encoded as the plan asks. */
export function batchOf(layouts: readonly Layout[], found: StoredValue | undefined, plan: ReadPlan) {
  const value = found?.value
  const layout: Layout = layouts[found?.layout ?? 0] ?? []
  if (plan.encoding === 'json') {
    if (value == null) return { rowCount: 0, json: '[]' }
    const object = isWhole(layout, plan.columns) ? value : projectedJson(value, layout, plan.columns)
    return { rowCount: 1, json: `[${object}]` }
  }
  if (value == null) return batchFromRows([], plan.columns.length)
  const texts = cellTexts(value)
  const row = plan.columns.map((name) => {
    const index = layout.findIndex((column) => column.name === name)
    return cellValue(texts[index] ?? 'null', layout[index]?.type ?? 'string')
  })
  return batchFromRows([row], plan.columns.length)
}
