/** What is proved once in a while and told with figures, because it takes too long to be a test. */

export type Figure = string | number | boolean | null
export type Figures = { readonly [name: string]: Figure | Figures | readonly (Figure | Figures)[] }

export interface Request {
  /** The same seed gives the same run. */
  readonly seed: number
  /** What was said on the command line after the proof's name. */
  readonly args: readonly string[]
  /** Aborted when somebody interrupts the run: children end, and nothing is recorded. */
  readonly signal: AbortSignal
  /** Prints a line of progress. */
  readonly say: (line: string) => void
}

export interface Outcome {
  readonly holds: boolean
  readonly figures: Figures
}

export interface Proof {
  readonly name: string
  /** As a sentence. */
  readonly proves: string
  /** In minutes on two processors, and what it needs beyond npm. */
  readonly costs: string
  /** What it takes on the command line, one option an entry. */
  readonly options: readonly string[]
  /** Globs of the sources that it is of; a record of other sources is one of the past. */
  readonly of: readonly string[]
  /** Null where there is nothing to record, because only a part was asked for. Throws where it could not run. */
  run(request: Request): Promise<Outcome | null>
}
