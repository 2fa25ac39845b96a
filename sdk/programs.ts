/** Programs of others that a connector may start, where the operator allows it and the runtime can wall them off. */

export interface ProgramRequest {
  /** As the operator's configuration names it for this type of connector. */
  readonly program: string
  /** What follows the configured command; `{ file }` stands for the path of one of `files`. */
  readonly words: readonly (string | { readonly file: string })[]
  /** Texts that the program alone may read, by name; gone when it ends. */
  readonly files: Readonly<Record<string, string>>
}

export interface ProgramEnd {
  /** `memory` and `processes`: it had more than the operator allows it. `lost`: the room that it ran in could not be made, or is gone. */
  readonly how: 'exited' | 'killed' | 'memory' | 'processes' | 'lost'
  /** Where it exited. */
  readonly code: number | null
  /** Whether it was kept from an address that connections may not go to. */
  readonly addressRefused: boolean
}

export interface RunningProgram {
  /** What it writes to its standard output, as it comes; it waits where nobody reads. To be iterated once. */
  readonly output: AsyncIterable<Uint8Array>
  readonly ended: Promise<ProgramEnd>
  /** Ends it, and whatever it has started. Repeatable. */
  stop(): void
}

export interface ProgramStarter {
  /** Throws PERMISSION `program_refused`, CONFIG `walls_missing`, QUOTA `too_many_programs`. The signal ends the program. */
  start(request: ProgramRequest, signal: AbortSignal): Promise<RunningProgram>
}
