import type { Threshold } from './manifest-set.ts'

/** Rows, or a percentage such as `1%`; absent: none. */
export function thresholdOf(written: number | string | undefined): Threshold {
  if (written === undefined) return { rows: 0 }
  return typeof written === 'number' ? { rows: written } : { percent: Number.parseFloat(written) }
}
