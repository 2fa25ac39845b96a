/**
 * What is wrong with a table's files, said so that whoever may know can look: errors carry the table, the file below the
 * tenant's bucket and the snapshot in their details, of which the HTTP layer tells developers only.
 */
import type { Engine, EngineJob, EngineRun } from '@sluice/engine'
import { isSluiceError, type SluiceError } from '@sluice/sdk'
import { unreadableFiles } from './data-check.ts'
import { type Scan, type ScanFile, scanOf } from './scan.ts'
import type { ObjectStore } from './store/object-store.ts'
import { lakeDamage } from './table-files.ts'

const STATS_AT_ONCE = 16
/** Of one job; a failure is not to cost much more than the job did. */
const MAX_LOOKED_AT = 2_000

/** Failures that a broken file can be the cause of, and those that its content alone would show. */
const SUSPECT = ['sql_invalid_input', 'object_missing', 'object_truncated', 'object_store_refused']
const DEEPLY_SUSPECT = ['engine_io_failed', 'engine_failed', 'engine_crashed', 'query_failed']

/**
 * The engine, whose failures are looked into where a file of the lake may be their cause: then they are INTERNAL
 * `lake_file_corrupted`, and name it.
 */
export function namingBrokenFiles(engine: Engine, store: ObjectStore): Engine {
  return {
    async run(job, signal) {
      const named = (error: unknown) => causeOf(engine, store, job, error, signal)
      try {
        return withNames(await engine.run(job, signal), named)
      } catch (error) {
        throw await named(error)
      }
    },
    async open(job, signal) {
      const named = (error: unknown) => causeOf(engine, store, job, error, signal)
      const session = await engine.open(job, signal).catch(async (error) => {
        throw await named(error)
      })
      return {
        results: session.results,
        ended: session.ended,
        get isOpen() {
          return session.isOpen
        },
        run: (request) =>
          session.run(request).catch(async (error) => {
            throw await named(error)
          }),
        close: () => session.close(),
      }
    },
    walls: () => engine.walls(),
    probe: (signal) => engine.probe(signal),
    close: () => engine.close(),
  }
}

/** The same for what fails while the output is read. */
function withNames(run: EngineRun, named: (error: unknown) => Promise<unknown>): EngineRun {
  let cause: Promise<unknown> | null = null
  const once = async (error: unknown): Promise<never> => {
    cause ??= named(error)
    throw await cause
  }
  const finished = run.finished.catch(once)
  // Whoever reads the output learns of it there.
  finished.catch(() => undefined)
  return {
    ...run,
    finished,
    output: {
      async *[Symbol.asyncIterator]() {
        try {
          yield* run.output
        } catch (error) {
          await once(error)
        }
      },
    },
  }
}

/** The failure of a broken file, where the job read one; else the error as it was. */
async function causeOf(
  engine: Engine,
  store: ObjectStore,
  job: Pick<EngineJob, 'tables'>,
  error: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  if (!isSluiceError(error) || signal.aborted) return error
  const isDeep = DEEPLY_SUSPECT.includes(error.code)
  if (!isDeep && !SUSPECT.includes(error.code)) return error
  const scans = (job.tables ?? []).flatMap(({ files }) => scanOf(files) ?? [])
  try {
    for (const scan of scans) {
      const file = (await unlikeItsManifest(store, scan)) ?? (isDeep ? await undecodable(engine, scan, signal) : null)
      if (file !== null) return damaged(scan, file, error)
    }
  } catch {
    // What cannot be looked into stays what it was.
  }
  return error
}

function damaged(scan: Scan, { path }: ScanFile, cause: SluiceError): SluiceError {
  return lakeDamage('lake_file_corrupted', scan.ref, { path, snapshotId: scan.snapshotId }, cause)
}

/** A file that is missing, or of another length. */
async function unlikeItsManifest(store: ObjectStore, scan: Scan): Promise<ScanFile | null> {
  const files = [...scan.files, ...scan.deletes].slice(0, MAX_LOOKED_AT)
  for (let at = 0; at < files.length; at += STATS_AT_ONCE) {
    const some = files.slice(at, at + STATS_AT_ONCE)
    const sizes = await Promise.all(some.map(async ({ path }) => (await store.stat(path))?.sizeBytes))
    const wrong = some.find(({ sizeBytes }, index) => sizes[index] !== sizeBytes)
    if (wrong !== undefined) return wrong
  }
  return null
}

async function undecodable(engine: Engine, scan: Scan, signal: AbortSignal): Promise<ScanFile | null> {
  const files = scan.files.slice(0, MAX_LOOKED_AT)
  const [uri] = await unreadableFiles(engine, { ...scan, files }, signal)
  return files.find((file) => file.uri === uri) ?? null
}
