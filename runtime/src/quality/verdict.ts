import { DIMENSIONS } from '../manifest/files/quality.ts'
import type { Check, Dimension, OnError, Severity, Threshold } from '../manifest/manifest-set.ts'
import type { Measured } from './anomaly.ts'
import type { CheckCount } from './check-plan.ts'
import type { Compared } from './new-version.ts'

/** What a check looks at, directly or to choose what it looks at. */
export interface CheckReading {
  /** Columns of the product. */
  readonly output: readonly string[]
  /** Columns of raw tables, each as a JSON array of connection, table and column. */
  readonly raw: readonly string[]
  /** Classes that hide what it looks at besides: of rows of a version before. Absent: none. */
  readonly classes?: readonly string[]
}

/** Whose expectation a result is of. */
export interface Expected {
  readonly productId: string
  /** `namespace.name` */
  readonly product: string
  /** Who owns it: its team, or an address; null: it does not say. */
  readonly owner: string | null
  /** What it calls the expectation. */
  readonly name: string
  /** As it says; what its failure comes to is the severity of the result. */
  readonly severity: Severity
  /** Whether the rows in service fail it, too; absent: nobody has looked. Null: it could not be said. */
  readonly alsoServed?: boolean | null
}

/** How a check came out, as it is kept for every materialization: counts, never rows. */
export interface CheckResult {
  readonly name: string
  readonly severity: Severity
  readonly dimension: Dimension
  readonly weight: number
  readonly onError: OnError
  readonly passed: boolean
  /** Null where the check could not be run; it has then not passed. */
  readonly violations: number | null
  readonly total: number | null
  /** Null or absent where it is not known. */
  readonly reads?: CheckReading | null
  /** What one that has not passed is worth for the score all the same, 0 to 1; absent: nothing. */
  readonly worth?: number
  /** Of an anomaly check that could be run. */
  readonly measured?: Measured
  /** Of a bound of a new version, beside the checks. It counts for no score. */
  readonly compared?: Compared
  /** Of what a product made of this one expects of its rows. It counts for no score. */
  readonly expected?: Expected
  /** It knows too little to judge: `passed` keeps nothing from being published, and it counts for no score. */
  readonly learning?: true
}

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
