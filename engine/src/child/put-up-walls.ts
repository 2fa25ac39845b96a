import { filesOf } from '../job.ts'
import { type ChildJob, INPUT_FD, OUTPUT_FD } from '../protocol.ts'
import type { OpenPaths } from '../walls/landlock.ts'
import { allDown, type Native, shutIn } from '../walls/shut-in.ts'
import type { Wall } from '../walls/walls.ts'
import { lendFiles } from './lend.ts'

export interface Walled {
  /** The job, its files named as they can be opened behind the walls. */
  readonly job: ChildJob
  readonly walls: readonly Wall[]
}

/** What the allocators may take on top of the job's memory before the kernel says no; the watch kills long before. */
const MEMORY_HEADROOM = 1.5
const MEMORY_HEADROOM_BYTES = 512 * 1024 * 1024

/** Shuts a job's process in. Called once, after every module is loaded and before anything of a tenant is looked at. */
export async function putUpWalls(job: ChildJob, native: Native | null): Promise<Walled> {
  if (!native) return { job, walls: job.trust === 'tenant' ? allDown() : [] }
  // What the job shares is opened by name before it is lent.
  const open = paths(job)
  const lent = job.trust === 'tenant' ? lendFiles(job) : job
  const { userId, limits } = job
  const moreBytes = limits.memoryBytes * MEMORY_HEADROOM + MEMORY_HEADROOM_BYTES
  return { job: lent, walls: await shutIn({ open, userId, pipes: [INPUT_FD, OUTPUT_FD], moreBytes }, native) }
}

/** The files and folders that stay open; temporary and output folders can be written. */
function paths(job: ChildJob): OpenPaths {
  const temp = job.tempDir === null ? [] : [job.tempDir]
  if (job.grounds !== null) {
    return { files: [], readTrees: job.grounds.readTrees, writeTrees: [...job.grounds.writeTrees, ...temp] }
  }
  const output = job.output?.kind === 'parquet-files' ? [job.output.dir] : []
  return {
    files: job.tables.flatMap((table) => filesOf(table)),
    readTrees: job.readPaths,
    writeTrees: [...job.writeDirs, ...output, ...temp],
  }
}
