import type { Dimension, Metric, OnError, Severity, VersionBound } from '../manifest/manifest-set.ts'
import type { Bounds } from './learned-bounds.ts'

/** What a bound of a new version came to, as it is kept with its result. */
export interface Compared {
  readonly metric: VersionBound['metric']
  readonly column: string | null
  /** Of `rows` rows, of `null_share` a share from 0 to 1; null of the others, and where it could not be known. */
  readonly former: number | null
  readonly now: number | null
  /** As quality.yaml has it: rows, or a percentage. */
  readonly atMost: number | string
  /** Somebody has accepted the differences beforehand: they keep nothing from being published. */
  readonly accepted: boolean
}

/** What an anomaly check measured, as it is kept with its result: it teaches the epochs to come. */
export interface Measured extends Bounds {
  readonly metric: Metric
  readonly column: string | null
  /** Null where there was nothing to measure: where every epoch that it knows had something, it has not passed. */
  readonly value: number | null
  /** How many epochs it has learned from. */
  readonly epochs: number
  /** Of what its rows are made, as a fingerprint: where that is another one, so is what was learned. */
  readonly basis: string
}

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
