/** How old rows are that somebody is shown. */

export interface Freshness {
  /** RFC 3339: since when the rows are. */
  readonly read_at: string
  readonly age_s: number
}

/** In whole seconds; of what a clock that was set back says is to come, 0. */
export function ageS(readAt: string): number {
  return Math.max(0, Math.round((Date.now() - Date.parse(readAt)) / 1000))
}

export function freshnessOf(readAt: string): Freshness {
  return { read_at: readAt, age_s: ageS(readAt) }
}
