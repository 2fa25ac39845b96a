import { DIMENSIONS } from '../manifest/files/quality.ts'
import type { Check, Dimension, OnError, Threshold } from '../manifest/manifest-set.ts'
import type { CheckReading, CheckResult } from './check-result.ts'
import type { CheckCount } from './check-tables.ts'

/**
 * Holds what was counted against the check's threshold; `null` says that the check could not be run. More violations than
 * rows are not kept: a query may give any number, and a number may be anything.
 */
export function judge(
  check: Check,
  count: Pick<CheckCount, 'violations' | 'total'> | null,
  reads: CheckReading | null = null,
): CheckResult {
  const { name, severity, dimension, weight, onError } = check
  const passed = count !== null && bears(check.threshold, count)
  const most = Math.max(count?.total ?? 0, 1)
  const violations = count === null ? null : Math.min(count.violations, most)
  const counted = { violations, total: count?.total ?? null }
  return { name, severity, dimension, weight, onError, passed, ...counted, reads }
}

function bears(threshold: Threshold, { violations, total }: Pick<CheckCount, 'violations' | 'total'>): boolean {
  if ('rows' in threshold) return violations <= threshold.rows
  return violations * 100 <= threshold.percent * total
}

export interface Score {
  /** 0–100, two decimals; null where there is nothing to score. */
  readonly overall: number | null
  readonly byDimension: Readonly<Partial<Record<Dimension, number>>>
}

/** The weighted share of checks that passed, and of what others are worth, as a whole and by dimension. */
export function scoreOf(all: readonly CheckResult[]): Score {
  const results = all.filter(
    ({ learning, compared, expected }) => learning !== true && compared === undefined && expected === undefined,
  )
  const byDimension: Partial<Record<Dimension, number>> = {}
  for (const dimension of DIMENSIONS) {
    const share = shareOf(results.filter((result) => result.dimension === dimension))
    if (share !== null) byDimension[dimension] = share
  }
  return { overall: shareOf(results), byDimension }
}

function shareOf(results: readonly CheckResult[]): number | null {
  const weight = (some: readonly CheckResult[]): number => some.reduce((sum, result) => sum + result.weight, 0)
  const all = weight(results)
  if (all === 0) return null
  const share = results.reduce((sum, { weight, passed, worth = 0 }) => sum + weight * (passed ? 1 : worth), 0) / all
  // Rounded down: only when every check has passed is the score 100.
  const isWhole = results.every(({ passed }) => passed)
  return Math.min(Math.floor(share * 10_000 + 1e-6) / 100, isWhole ? 100 : 99.99)
}

/** What becomes of the staged snapshot, and because of which checks. */
export type Decision =
  | { readonly action: 'publish' }
  | { readonly action: 'quarantine'; readonly checks: readonly string[] }
  | { readonly action: 'block'; readonly checks: readonly string[] }

/**
 * The gravest consequence of the checks of severity error that have not passed. One that could not be run cannot
 * tell bad rows from good, so its `quarantine` means `block`.
 */
export function decide(results: readonly CheckResult[]): Decision {
  const failed = results.filter((result) => !result.passed && result.severity === 'error')
  const consequence = (result: CheckResult): OnError =>
    result.onError === 'quarantine' && result.violations === null ? 'block' : result.onError
  const named = (action: OnError): readonly string[] =>
    failed.filter((result) => consequence(result) === action).map((result) => result.name)
  const blocking = named('block')
  if (blocking.length > 0) return { action: 'block', checks: blocking }
  const quarantining = named('quarantine')
  return quarantining.length > 0 ? { action: 'quarantine', checks: quarantining } : { action: 'publish' }
}

/** One condition for the rows that any of the named checks finds bad, over the output under the alias `this`. */
export function quarantineCondition(checks: readonly string[], badRows: ReadonlyMap<string, string>): string {
  const conditions = checks.map((name) => {
    const condition = badRows.get(name)
    if (condition === undefined) throw new Error(`the check "${name}" does not say which rows are bad`)
    return `(${condition})`
  })
  return conditions.join(' OR ')
}
