/** What the runtime and the process that keeps a program's room say to each other: lines of JSON. */

/** In the keeper. */
export const CONTROL_FD = 3
/** In the keeper: connections that the program has made go out over it. */
export const GATE_FD = 4

/** Sent once, first. */
export interface KeepMessage {
  readonly command: readonly string[]
  readonly words: readonly (string | { readonly file: string })[]
  readonly files: Readonly<Record<string, string>>
  readonly userId: number | null
  readonly runTrees: readonly string[]
  readonly readFiles: readonly string[]
  readonly memoryBytes: number
  readonly folderBytes: number
  readonly processes: number
  readonly openFiles: number
}

export type FromKeeper =
  | { readonly kind: 'started' }
  /** A connection that the program has made lies in the gate's line. */
  | { readonly kind: 'knock' }
  /** Seconds of processors since the last time. */
  | { readonly kind: 'cpu'; readonly seconds: number }
  | { readonly kind: 'ended'; readonly how: 'exited' | 'killed' | 'memory' | 'processes'; readonly code: number | null }
