/** What a child is told of a job. */
import type { EngineJob, EngineOutput } from './job.ts'
import { type ChildJob, type ToChild, toWire, toWireSteps, type WireOutput, type WireStreamOutput } from './protocol.ts'
import type { WallName } from './walls/walls.ts'

export interface JobPlace {
  readonly tempDir: string | null
  readonly stagingDir: string | null
  readonly userId: number | null
  readonly neededWalls: readonly WallName[]
}

export function toChildJob(job: EngineJob, { tempDir, stagingDir, userId, neededWalls }: JobPlace): ChildJob {
  return {
    trust: job.trust,
    tables: job.tables ?? [],
    csvInput: job.csvInput ? { name: job.csvInput.name, columns: job.csvInput.columns } : null,
    steps: toWireSteps(job.steps),
    output: toWireOutput(job.output, stagingDir),
    readPaths: job.readPaths ?? [],
    writeDirs: job.writeDirs ?? [],
    neededWalls,
    limits: limitsOf(job),
    tempDir,
    userId,
    stays: false,
    grounds: null,
    mark: null,
  }
}

/** For a child that has the job's tables. */
export function toStatement(job: EngineJob): ToChild {
  return {
    kind: 'statement',
    statement: { output: toWireOutput(job.output, null) as WireStreamOutput, limits: limitsOf(job) },
  }
}

function limitsOf({ limits: { room: _, ...limits } }: EngineJob): ChildJob['limits'] {
  return limits
}

function toWireOutput(output: EngineOutput | undefined, stagingDir: string | null): WireOutput | null {
  if (!output) return null
  const parameters = (output.parameters ?? []).map(toWire)
  if (output.kind !== 'parquet-files') return { ...output, parameters }
  return { ...output, parameters, dir: stagingDir ?? output.dir }
}
