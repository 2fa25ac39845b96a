/** Whether what was measured lies within what the epochs before have taught. */
import type { AnomalyRule, Check } from '../manifest/manifest-set.ts'
import type { CheckReading, CheckResult } from './check-result.ts'
import { bucketsOf, sum } from './distribution.ts'
import { type Bounds, driftBounds, levelBounds } from './learned-bounds.ts'
import type { Measurement } from './measures.ts'
import type { Taught } from './taught.ts'

export interface Observed {
  readonly measurement: Measurement
  readonly taught: Taught
  readonly basis: string
}

/** @param observed null: it could not be run, and has not passed */
export function judgeAnomaly(
  check: Check & { readonly rule: AnomalyRule },
  observed: Observed | null,
  reads: CheckReading | null,
): CheckResult {
  const { name, severity, dimension, weight, onError, rule } = check
  const told = { name, severity, dimension, weight, onError, reads }
  if (observed === null) return { ...told, passed: false, violations: null, total: null }
  const { measurement, taught, basis } = observed
  const { value } = measurement
  const isTaught = taught.epochs >= rule.minHistory
  const known = isTaught && value !== null ? boundsOf(rule, measurement, taught) : null
  const isLearning = known === null && !(isTaught && isGone(measurement, taught))
  const { lower, upper } = known ?? { lower: null, upper: null }
  const passed = isLearning || (value !== null && value >= (lower ?? value) && value <= (upper ?? value))
  const measured = { metric: rule.metric, column: rule.column, value, lower, upper, epochs: taught.epochs, basis }
  return {
    ...told,
    passed,
    violations: passed ? 0 : 1,
    total: 1,
    measured,
    ...(isLearning ? { learning: true } : {}),
  }
}

/** Whether there is nothing to measure where each epoch had something. */
function isGone({ value, rows, profile }: Measurement, { epochs, values, profiles }: Taught): boolean {
  if (value !== null || rows > 0) return false
  if (profile === undefined) return values.length === epochs
  return profiles.length > 0 && profiles.every((past) => sum(bucketsOf(past)) > 0)
}

/** Null where too few of the epochs had anything to measure. */
function boundsOf(
  { metric, sensitivity, minHistory }: AnomalyRule,
  { rows, chance }: Measurement,
  { values, profiles }: Taught,
): Bounds | null {
  if (metric === 'drift') {
    return chance === undefined || profiles.length === 0 ? null : driftBounds(values, chance, sensitivity)
  }
  return values.length < minHistory ? null : levelBounds(metric, values, rows, sensitivity)
}
