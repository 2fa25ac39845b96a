/**
 * What a new version means for those who read the product: nothing, something more, or that what worked may not.
 * A breaking change needs a new major version.
 */
export type Verdict = 'compatible' | 'additive' | 'breaking'

export interface Change {
  readonly verdict: Verdict
  /** What it concerns: `output.schema.email`, `serving.lookup.index_columns`. */
  readonly subject: string
  /** The column, where it concerns one. */
  readonly column?: string
  /** What changes and, where it breaks something, for whom. */
  readonly reason: string
}
