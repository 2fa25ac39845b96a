/** What a run is asked to try again, as its row in the registry has it. */
import type { RowChoice } from '../../registry/quarantine-replay.ts'
import type { Run } from '../../registry/runs.ts'

export interface ReplayInput {
  readonly replay: RowChoice & {
    /** `schema.table`; null: all that have rows to try again. */
    readonly tables: readonly string[] | null
  }
}

/** Null of a run that reads its source. */
export function replayOf(run: Pick<Run, 'input'>): ReplayInput['replay'] | null {
  return (run.input as Partial<ReplayInput>).replay ?? null
}
