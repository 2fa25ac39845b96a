/**
 * Bounds that a measured value is expected within, learned from those of the last epochs. A robust line goes through them
 * (Theil 1950, Sen 1968: the median of all slopes), so that a product that grows is held against its growth and one odd epoch
 * moves nothing; how far the epochs lie from it (median absolute deviation) says how wide the bounds are, but for levels that
 * come back: of a minority such as weekends that deviation knows nothing.
 */
import type { Metric, Sensitivity } from '../manifest/manifest-set.ts'

export interface Bounds {
  readonly lower: number | null
  readonly upper: number | null
}

interface Strictness {
  readonly deviations: number
  /** By how much the floors are multiplied. */
  readonly floor: number
  /** What of a drift is never told: below 0.1 is commonly called none, above 0.25 a shift (Siddiqi, Credit Risk Scorecards). */
  readonly drift: number
}

const STRICTNESS: Readonly<Record<Sensitivity, Strictness>> = {
  low: { deviations: 8, floor: 2, drift: 0.5 },
  normal: { deviations: 5, floor: 1, drift: 0.25 },
  high: { deviations: 3.5, floor: 0.5, drift: 0.1 },
}

/** Makes the median absolute deviation what the standard deviation is of normal noise. */
const NORMAL_DEVIATION = 1.4826

/**
 * Of counts and shares. Shown as they are judged: counts are whole, shares have six decimals, both outwards.
 *
 * @param values of the epochs before, oldest first; two at least
 * @param rows that a share is of
 */
export function levelBounds(
  metric: Exclude<Metric, 'drift'>,
  values: readonly number[],
  rows: number,
  sensitivity: Sensitivity,
): Bounds {
  const strictness = STRICTNESS[sensitivity]
  const { floor } = strictness
  const isShare = metric === 'null_share'
  const most = isShare ? 1 : Number.MAX_SAFE_INTEGER
  // No count that was never nothing is expected to be nothing, whatever its line or its noise: a table that is emptied is told of.
  const fewest = metric === 'row_count' && !values.includes(0) ? 1 : 0
  const { now, next, deviation, residuals } = lineOf(values, isShare ? 0 : 0.5)
  const within = (value: number) => Math.min(Math.max(value, 0), most)
  const untold = (value: number) => (isShare ? shareFloor(value, rows) : countFloor(value))
  const width = (end: number, by: Strictness) => Math.max(by.deviations * deviation, by.floor * untold(end))
  // A trend may go on, and may end here.
  const ends = [within(Math.min(now, next)), within(Math.max(now, next))] as const
  // The same ones at every sensitivity, so that bounds are never the narrower the less is asked. From half the width on: of a level
  // that lies about as far away as is told, some values were within it and the next may not be.
  const beside = values.filter((value, at) => {
    const residual = residuals[at] as number
    return Math.abs(residual) > width(within(value - residual), STRICTNESS.normal) / 2
  })
  const levels = beside.filter((value) => isRecurring(value, values, floor * untold(value)))
  const lower = [ends[0] - width(ends[0], strictness), ...levels.map((level) => level - floor * untold(level))]
  const upper = [ends[1] + width(ends[1], strictness), ...levels.map((level) => level + floor * untold(level))]
  const scale = isShare ? 1e6 : 1
  return {
    lower: Math.max(fewest, Math.floor(Math.min(...lower) * scale) / scale),
    upper: Math.min(most, Math.ceil(Math.max(...upper) * scale) / scale),
  }
}

/** Whether it was there before or again, give or take what nobody is told of. */
function isRecurring(value: number, values: readonly number[], untold: number): boolean {
  return values.filter((other) => Math.abs(other - value) <= untold).length > 1
}

/** Of a tenth nobody is told, nor of what counts vary by of themselves (their square root). */
function countFloor(count: number): number {
  return Math.max(count / 10, 2 * Math.sqrt(count), 2)
}

/** Of a hundredth of the rows nobody is told, nor of what a share of so few rows varies by. */
function shareFloor(share: number, rows: number): number {
  const some = Math.max(rows, 1)
  return Math.max(0.01, 2 * Math.sqrt((share * (1 - share)) / some), 2 / some)
}

/**
 * Of a drift. Samples of one distribution have a drift, too: of `buckets` and so many values on both sides it is that of
 * chi-square, scaled (Yurdakul and Naranjo, Statistical Properties of the Population Stability Index, 2020).
 *
 * @param values of the epochs before
 * @param noise the sum of one by the number of values, on both sides
 */
export function driftBounds(
  values: readonly number[],
  { buckets, noise }: { readonly buckets: number; readonly noise: number },
  sensitivity: Sensitivity,
): Bounds {
  const { deviations, drift } = STRICTNESS[sensitivity]
  const middle = values.length === 0 ? 0 : median(values)
  const spread = values.length === 0 ? 0 : NORMAL_DEVIATION * median(values.map((value) => Math.abs(value - middle)))
  const chance = chiSquareBound(Math.max(buckets - 1, 1)) * noise
  const upper = Math.max(drift, chance, middle + deviations * spread)
  return { lower: null, upper: Math.ceil(upper * 1e6) / 1e6 }
}

/** What one of 10,000 exceeds, by Wilson and Hilferty's approximation (1931). */
function chiSquareBound(freedom: number): number {
  const part = 2 / (9 * freedom)
  return freedom * (1 - part + 3.719 * Math.sqrt(part)) ** 3
}

interface Line {
  /** Its value at the newest epoch. */
  readonly now: number
  /** What it expects next. */
  readonly next: number
  /** How far such a value lies from it by chance. */
  readonly deviation: number
  /** How far each value lies above it. */
  readonly residuals: readonly number[]
}

/** @param least what a falling line keeps at least from one epoch to the next, as a share: no count falls below nothing */
function lineOf(values: readonly number[], least: number): Line {
  const n = values.length
  const slopes: number[] = []
  for (let right = 1; right < n; right += 1) {
    for (let left = 0; left < right; left += 1) {
      slopes.push(((values[right] as number) - (values[left] as number)) / (right - left))
    }
  }
  const slope = slopes.length === 0 ? 0 : median(slopes)
  const base = median(values.map((value, at) => value - slope * at))
  const residuals = values.map((value, at) => value - slope * at - base)
  const residual = median(residuals.map(Math.abs))
  // As of least squares: what comes next is less sure than what was fitted, the less the fewer epochs there are.
  const ahead = n < 3 ? 2 : Math.sqrt((1 + 1 / n + (3 * (n + 1)) / (n * (n - 1))) * (n / (n - 2)))
  // No further than a step beyond what was there.
  const [lowest, highest] = [Math.min(...values) - Math.abs(slope), Math.max(...values) + Math.abs(slope)]
  const seen = (value: number) => Math.min(Math.max(value, lowest), highest)
  const now = seen(base + slope * (n - 1))
  const next = Math.max(seen(base + slope * n), Math.min(now, now * least))
  return { now, next, deviation: NORMAL_DEVIATION * residual * ahead, residuals }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  const upper = sorted[Math.floor(middle)] as number
  return Number.isInteger(middle) ? ((sorted[middle - 1] as number) + upper) / 2 : upper
}
