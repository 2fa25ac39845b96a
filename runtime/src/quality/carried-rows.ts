/** Rows of its inputs that could not be carried lower the score of a product. */
import type { Input } from '../manifest/manifest-set.ts'
import { rawColumn } from './check-readings.ts'
import type { CheckResult } from './check-result.ts'

export interface CarriedInput {
  readonly input: Pick<Input, 'connection' | 'table'>
  /** Names of the raw table's columns: each may be what kept a row from being carried. */
  readonly columns: readonly string[]
  /** Rows that were left out since the table was last read whole. */
  readonly rejected: number
}

/**
 * As a check that nobody has to write: passed where no row was left out, and else worth the share that was carried. How
 * many were left out is told in steps, as sizes of raw tables are to who may not read them; `rows` are the product's.
 */
export function carriedRows(inputs: readonly CarriedInput[], rows: number): readonly CheckResult[] {
  // A plain table of the tenant's says of itself what its author wrote.
  const lacking = inputs.filter(({ rejected }) => Number.isSafeInteger(rejected) && rejected > 0)
  if (lacking.length === 0) return []
  const violations = stepOf(lacking.reduce((sum, { rejected }) => sum + rejected, 0))
  return [
    {
      name: 'rows_carried',
      severity: 'warn',
      dimension: 'completeness',
      weight: 1,
      onError: 'publish',
      passed: false,
      violations,
      total: null,
      reads: {
        output: [],
        raw: lacking.flatMap(({ input, columns }) => columns.map((column) => rawColumn(input, column))),
      },
      worth: rows / (rows + violations),
    },
  ]
}

/** Zero, or the next power of ten: what those are told of a number of rows who may not read them. */
export function stepOf(count: number): number {
  return count <= 0 ? 0 : 10 ** Math.ceil(Math.log10(count))
}
