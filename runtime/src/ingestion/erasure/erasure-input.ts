/** What a run is asked to erase, as its row in the registry has it: never the key. */
import type { Run } from '../../registry/runs.ts'

export interface ErasureInput {
  readonly erasure: string
}

/** Null of any other run. */
export function erasureOf(run: Pick<Run, 'input'>): string | null {
  return (run.input as Partial<ErasureInput>).erasure ?? null
}
