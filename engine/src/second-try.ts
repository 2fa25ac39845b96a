/**
 * A tenant's statement in which the engine itself fails is tried once more, in another process. What fails twice fails
 * by the statement, and whoever wrote it is told so.
 */
import { SluiceError } from '@sluice/sdk'
import type { EngineRun, OutputSummary } from './job.ts'
import { cancelledError } from './job-run.ts'

/** So much of an output is held back until it is sure that no second try has to stand in for it. */
const HELD_BYTES = 64 * 1024

/** Fulfilled and rejected as `Engine.run`; the code of what fails twice is `query_failed`. */
export async function twiceAtMost(attempt: () => Promise<EngineRun>, isStreamed: boolean): Promise<EngineRun> {
  const first = await attempt().catch((error: unknown) => {
    if (isFaultOfEngine(error)) return null
    throw error
  })
  const second = () => attempt().catch((error: unknown) => Promise.reject(failedTwice(error)))
  const run = first ?? (await second())
  if (!isStreamed) return run
  const finished = Promise.withResolvers<OutputSummary>()
  // Whoever reads the output is told by it; nobody has to wait for this one.
  finished.promise.catch(() => {})
  return {
    ...run,
    finished: finished.promise,
    output: settling(finished, heldBack(run, first === null ? null : second)),
  }
}

/** The output, and at its end how it ended. */
async function* settling(
  finished: PromiseWithResolvers<OutputSummary>,
  output: AsyncGenerator<Uint8Array, OutputSummary>,
): AsyncGenerator<Uint8Array> {
  try {
    finished.resolve(yield* output)
  } catch (error) {
    finished.reject(error)
    throw error
  } finally {
    finished.reject(cancelledError(null))
  }
}

/** The run's output. Where it fails before anything of it was given away, `second` stands in for it; null: is the second. */
async function* heldBack(
  run: EngineRun,
  second: (() => Promise<EngineRun>) | null,
): AsyncGenerator<Uint8Array, OutputSummary> {
  let held: Uint8Array[] | null = []
  let bytes = 0
  try {
    for await (const chunk of run.output) {
      bytes += chunk.length
      if (held !== null && bytes <= HELD_BYTES) {
        held.push(chunk)
        continue
      }
      if (held !== null) yield* held
      held = null
      yield chunk
    }
    if (held !== null) yield* held
    return await run.finished
  } catch (error) {
    if (held === null || !isFaultOfEngine(error)) throw error
    if (second === null) throw failedTwice(error)
  }
  return yield* heldBack(await second(), null)
}

function isFaultOfEngine(error: unknown): error is SluiceError {
  if (!(error instanceof SluiceError)) return false
  return error.code === 'engine_crashed' || (error.code === 'engine_failed' && isDuckDbs(error.cause))
}

/** DuckDB has found a fault in its own state, or fails in a way that has no words of ours; a fault of ours has no such kind in front. */
function isDuckDbs(cause: unknown): boolean {
  return cause instanceof Error && /^(?:Failure running pending result task: )?[A-Za-z -]+ Error:/.test(cause.message)
}

function failedTwice(error: unknown): unknown {
  if (!isFaultOfEngine(error)) return error
  return new SluiceError('INVALID_DATA', 'the engine ended twice in the middle of this statement', {
    code: 'query_failed',
    remedy: 'Write the statement in another way, or in smaller parts: the same text would fail again.',
    cause: error.cause ?? error,
  })
}
