/** What checks found as JSON, without what its reader may not see. */
import type { InputExpectation } from '../../../operations/products/input-expectations.ts'
import type { ShownRows } from '../../../operations/products/violating-rows.ts'
import type { CheckResult } from '../../../quality/check-result.ts'
import { iso } from './times.ts'

/** Results of checks as they were kept with a materialization. */
export function qualityJson(kept: unknown, rows: ReadonlyMap<string, ShownRows>) {
  const quality = kept as { readonly checks: readonly CheckResult[]; readonly by_dimension: unknown } | null
  if (quality === null) return null
  return {
    checks: quality.checks.map(
      ({ onError, reads: _, worth: __, learning = false, measured, compared, expected, ...check }) => ({
        ...check,
        on_error: onError,
        learning,
        measured: measuredJson(measured),
        compared: comparedJson(compared),
        ...(expected === undefined ? {} : { expected: expectedJson(expected) }),
        violating: violatingJson(rows.get(check.name)),
      }),
    ),
    by_dimension: quality.by_dimension,
  }
}

/** What a product expects of an input. */
export function expectationJson({ last, ...told }: InputExpectation) {
  if (last === null) return { ...told, last }
  const { passed, violations, total } = last.result
  const { state, epoch, committedAt } = last.of
  return { ...told, last: { passed, violations, total, state, epoch, committed_at: iso(committedAt) } }
}

function expectedJson({ productId, alsoServed = null, ...told }: NonNullable<CheckResult['expected']>) {
  return { product_id: productId, ...told, also_served: alsoServed }
}

function comparedJson(compared: CheckResult['compared']) {
  if (compared === undefined) return null
  const { atMost: at_most, ...told } = compared
  return { ...told, at_most }
}

function measuredJson(measured: CheckResult['measured']) {
  if (measured === undefined) return null
  const { basis: _, ...told } = measured
  return told
}

function violatingJson(shown: ShownRows | undefined) {
  return shown === undefined ? null : { columns: shown.columns, masked_columns: shown.masked, rows: shown.rows }
}
