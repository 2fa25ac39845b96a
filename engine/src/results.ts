/** Answers that are given again while nothing of what they were made of has changed (decision 134). */
import { createHash } from 'node:crypto'
import type { EngineJob, EngineRun, OutputSummary, StreamOutput } from './job.ts'
import { cancelledError } from './job-run.ts'
import { toWire } from './protocol.ts'

/** One answer may take so much of the room for all. */
const LARGEST_SHARE = 1 / 16
/** Files never change, so no answer is ever wrong; what is gone from the lake is gone from here, too, by then. */
const KEEP_MS = 300_000

interface Kept {
  readonly run: Pick<EngineRun, 'columns' | 'lineage' | 'parameterTypes'>
  readonly bytes: Uint8Array
  readonly summary: OutputSummary
  readonly untilMs: number
}

/** By tenant, tables, statement and limits: the bytes that it gave, the longest unused forgotten first. */
export class Results {
  readonly #maxBytes: number
  readonly #nowMs: () => number
  readonly #kept = new Map<string, Kept>()
  #bytes = 0

  constructor(maxBytes: number, nowMs: () => number = () => performance.now()) {
    this.#maxBytes = maxBytes
    this.#nowMs = nowMs
  }

  get(key: string): EngineRun | null {
    const kept = this.#kept.get(key)
    if (kept === undefined) return null
    this.#forget(key)
    if (kept.untilMs <= this.#nowMs()) return null
    this.#keep(key, kept)
    const { run, bytes, summary } = kept
    return { ...run, results: [], files: [], output: once(bytes), finished: Promise.resolve(summary) }
  }

  /** The run, whose output is kept once it has been read to its end. */
  kept(key: string, run: EngineRun): EngineRun {
    const finished = Promise.withResolvers<OutputSummary>()
    // Whoever reads the output is told by it; nobody has to wait for this one.
    finished.promise.catch(() => {})
    return { ...run, output: this.#watched(key, run, finished), finished: finished.promise }
  }

  async *#watched(
    key: string,
    run: EngineRun,
    finished: PromiseWithResolvers<OutputSummary>,
  ): AsyncGenerator<Uint8Array> {
    const largest = this.#maxBytes * LARGEST_SHARE
    const chunks: Uint8Array[] = []
    let size = 0
    try {
      for await (const chunk of run.output) {
        size += chunk.length
        if (size <= largest) chunks.push(chunk)
        yield chunk
      }
      const summary = await run.finished
      const { columns, lineage, parameterTypes } = run
      const told = { columns, lineage, ...(parameterTypes === undefined ? {} : { parameterTypes }) }
      const untilMs = this.#nowMs() + KEEP_MS
      if (size <= largest) this.#keep(key, { run: told, bytes: Buffer.concat(chunks), summary, untilMs })
      finished.resolve(summary)
    } catch (error) {
      finished.reject(error)
      throw error
    } finally {
      finished.reject(cancelledError(null))
    }
  }

  #keep(key: string, kept: Kept): void {
    this.#forget(key)
    this.#kept.set(key, kept)
    this.#bytes += kept.bytes.length
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= this.#maxBytes) return
      this.#forget(oldest)
    }
  }

  #forget(key: string): void {
    this.#bytes -= this.#kept.get(key)?.bytes.length ?? 0
    this.#kept.delete(key)
  }
}

/** Jobs of this access set for which it is equal have the same answer, if the statement is stable. */
export function resultKey(set: string, job: EngineJob): string {
  const { parameters = [], ...output } = job.output as StreamOutput
  const { timeoutMs: _, ...limits } = job.limits
  const asked = JSON.stringify([set, output, parameters.map(toWire), limits])
  return createHash('sha256').update(asked).digest('base64')
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes
}
