/** Rows as the page of an answer. */
import { batchFromRows, type ReadPlan, type Row } from '@sluice/sdk'
import { objectJson } from './object-json.ts'
import type { SelectedColumn } from './scan-sql.ts'

/** `rows` has one more than the limit where there is a next page. */
export function pageOf(rows: readonly Row[], selected: readonly SelectedColumn[], plan: ReadPlan) {
  const width = plan.columns.length
  const page = rows.slice(0, plan.limit)
  const answered = selected.slice(0, width)
  const batch =
    plan.encoding === 'json'
      ? { rowCount: page.length, json: `[${page.map((row) => objectJson(row, answered)).join(',')}]` }
      : batchFromRows(
          page.map((row) => row.slice(0, width)),
          width,
        )
  const last = page.at(-1)
  return rows.length > plan.limit && last ? { ...batch, next: last.slice(width) } : batch
}
