import type { DuckDBConnection } from '@duckdb/node-api'
import { filesOf } from '../job.ts'
import { type ChildJob, INPUT_FD, OUTPUT_FD } from '../protocol.ts'
import { quoteText } from '../sql-text.ts'
import { execute, lookForThreads } from './duckdb.ts'
import { descriptorPath } from './relations.ts'

/** DuckDB's own count leaves out strings, lists and its work areas; the rest of the limit is for those. */
const BUFFER_SHARE = 0.8

/** Fits the instance to the job and makes its settings final, but for the threads of a child that takes more own jobs. */
export async function lockSettings(connection: DuckDBConnection, job: ChildJob): Promise<void> {
  const settings = [
    "TimeZone = 'UTC'",
    `threads = ${job.limits.threads}`,
    // All of them are DuckDB's own: see `runInThreads`.
    'external_threads = 0',
    `memory_limit = ${quoteText(`${Math.ceil((job.limits.memoryBytes * BUFFER_SHARE) / 1024)}KiB`)}`,
    `temp_directory = ${quoteText(job.tempDir ?? '')}`,
    ...(job.tempDir === null ? [] : [`max_temp_directory_size = ${quoteText(`${job.limits.tempBytes ?? 0}B`)}`]),
    `allowed_paths = [${allowedFiles(job).map(quoteText).join(', ')}]`,
    `allowed_directories = [${allowedDirs(job).map(quoteText).join(', ')}]`,
    'enable_external_access = false',
    ...(job.grounds === null ? ['lock_configuration = true'] : []),
  ]
  for (const setting of settings) await execute(connection, `SET ${setting}`)
  await lookForThreads(connection)
}

/** For another own job over the same folders. */
export async function changeThreads(connection: DuckDBConnection, job: ChildJob): Promise<void> {
  await execute(connection, `SET threads = ${job.limits.threads}`)
}

function allowedFiles(job: ChildJob): string[] {
  if (job.grounds !== null) return [descriptorPath(INPUT_FD)]
  const files = job.tables.flatMap(filesOf)
  // The folder itself too: DuckDB looks at it before it writes into it.
  return [...files, ...writtenDirs(job), ...job.readPaths, descriptorPath(INPUT_FD), descriptorPath(OUTPUT_FD)]
}

function allowedDirs(job: ChildJob): string[] {
  const spill = job.tempDir === null ? [] : [job.tempDir]
  if (job.grounds !== null) return [...job.grounds.readTrees, ...job.grounds.writeTrees, ...spill]
  return [...job.readPaths, ...job.writeDirs, ...writtenDirs(job), ...spill]
}

function writtenDirs(job: ChildJob): string[] {
  return job.output?.kind === 'parquet-files' ? [job.output.dir] : []
}
