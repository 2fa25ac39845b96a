/** Children that stay: for a tenant's statements over the same tables (decision 133), or for own jobs over a tenant's files. */
import { createHash } from 'node:crypto'
import type { EngineJob } from './job.ts'
import { isStreamed } from './job-run.ts'
import { newMark } from './marked-output.ts'
import { residentBytes } from './walls/memory-watch.ts'

/** What a statement may leave behind in a child adds up; so many are enough to make its start cheap. */
const MAX_STATEMENTS = 500
/** Own jobs read more. */
const MAX_JOBS = 100
/** Of the job's memory, what a child may hold on to between two statements: pages of files, mostly. */
const HELD_SHARE = 0.25

/** A child with its walls up, which no other set of tables, or folders, will ever be read in. */
export class KeptChild {
  readonly set: string
  /** What it writes behind each output, in base64. */
  readonly mark = newMark()
  readonly #pid: number
  readonly #mostBytes: number
  readonly #mostJobs: number
  #jobs = 0

  /** To be made before the child's job is sent to it. */
  constructor(set: string, pid: number, { trust, limits: { memoryBytes } }: Pick<EngineJob, 'trust' | 'limits'>) {
    this.set = set
    this.#mostJobs = trust === 'own' ? MAX_JOBS : MAX_STATEMENTS
    this.#pid = pid
    this.#mostBytes = (residentBytes(pid) ?? 0) + memoryBytes * HELD_SHARE
  }

  /** Whether it may take another statement or job, now that one more is done. */
  goesOn(): boolean {
    this.#jobs += 1
    return this.#jobs < this.#mostJobs && (residentBytes(this.#pid) ?? Number.POSITIVE_INFINITY) <= this.#mostBytes
  }
}

/**
 * What a child of this job may read, and whose it is: jobs for which it is equal may follow each other in one child. Null
 * where a job has to have a child of its own.
 */
export function accessSet({
  trust,
  tenant,
  tables = [],
  steps,
  csvInput,
  output,
  ...others
}: EngineJob): string | null {
  const { readPaths, writeDirs, limits } = others
  const asksMore = [steps, csvInput, readPaths, writeDirs, limits.room].some((one) => one !== undefined)
  // Of some statements nobody says whose they are.
  const isOwned = trust === 'tenant' && tenant !== undefined && tenant !== ''
  if (!isOwned || asksMore || !isStreamed(output)) return null
  const { memoryBytes, threads } = limits
  return createHash('sha256')
    .update(JSON.stringify([tenant, memoryBytes, threads, tables]))
    .digest('base64')
}
