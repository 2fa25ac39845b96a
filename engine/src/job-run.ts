import { once } from 'node:events'
import { SluiceError } from '@sluice/sdk'
import { memoryExceeded } from './driver-error.ts'
import type { EngineChild } from './engine-child.ts'
import {
  type EngineJob,
  type EngineOutput,
  type EngineRun,
  failsBeyondRows,
  type InspectOutput,
  type OutputSummary,
  type StepResult,
  type StreamOutput,
  type WrittenFile,
} from './job.ts'
import { untilMark } from './marked-output.ts'
import { OutputLines } from './output-lines.ts'
import type { FromChild, ToChild, WireFile } from './protocol.ts'
import type { RoomWatch } from './room-watch.ts'
import { decodeRows } from './rows.ts'
import { watchMemory } from './walls/memory-watch.ts'
import type { Wall } from './walls/walls.ts'
import { fromWireError } from './walls/wire-error.ts'

export interface JobHooks {
  /** What is said of a job that was not done at its deadline. */
  readonly late: () => SluiceError
  /** Called once the child has put up its walls. */
  readonly walls: (walls: readonly Wall[]) => void
  /** Turns what the child wrote into what stays; called after the child has ended well. */
  readonly keep: (files: readonly WireFile[]) => Promise<readonly WrittenFile[]>
  /** The child stays when the job is done. Called with what ends it then, at most once. */
  readonly stays?: (ended: unknown) => void
  /** The child may take another job once this one's output has been read to its end. */
  readonly kept?: KeptOutput
  /** Without a streamed output: the child may take another job. Called once this one is done; never for one that failed. */
  readonly frees?: () => void
}

export interface KeptOutput {
  /** What the child writes behind the output. */
  readonly mark: Uint8Array
  /** Called when all of it has been read; never for a job that failed, whose child has ended. */
  readonly free: () => void
}

type Opened = Extract<FromChild, { kind: 'opened' }>
type Done = Extract<FromChild, { kind: 'done' }>

/** One job in one child: everything that can end it, and the one reason that wins. */
export class JobRun {
  readonly #child: EngineChild
  readonly #job: EngineJob
  readonly #hooks: JobHooks
  readonly #opened = Promise.withResolvers<Opened>()
  readonly #done = Promise.withResolvers<Done>()
  readonly #stop = new AbortController()
  readonly #settled = new AbortController()
  readonly #read = new AbortController()
  #failure: unknown = null
  #outputBytes = 0

  constructor(child: EngineChild, job: EngineJob, hooks: JobHooks) {
    this.#child = child
    this.#job = job
    this.#hooks = hooks
    // Whoever waits for them is told; of a run that ends before anybody does, `start` tells.
    this.#opened.promise.catch(() => {})
    this.#done.promise.catch(() => {})
  }

  /** Sends the job and waits until its steps are done (without a streamed output: until all is done). */
  async start(
    message: ToChild,
    room: RoomWatch | null,
    deadline: AbortSignal,
    caller: AbortSignal,
  ): Promise<EngineRun> {
    this.#endOn(deadline, this.#hooks.late, this.#settled.signal)
    this.#endOn(caller, () => cancelledError(caller.reason), this.#stop.signal)
    this.#child.onMessage((message) => this.#receive(message))
    void this.#child.ended.then((how) => this.#childEnded(how))
    watchMemory(this.#child.pid, watchedBytes(this.#job), this.#stop.signal, () => this.#fail(memoryExceeded()))
    void room?.watch(this.#stop.signal, (error) => this.#fail(error))
    this.#child.send(message)
    if (this.#job.csvInput) void this.#feed(this.#job.csvInput.source, room)
    const opened = await this.#opened.promise
    const results = opened.results.map((result) => decodeResult(result))
    if (isStreamed(this.#job.output)) return this.#streamingRun(results, opened, deadline)
    return await this.#settledRun(results, opened, room)
  }

  async #settledRun(
    results: readonly StepResult[],
    { columns, lineage, textColumns, isRowWise, parts }: Opened,
    room: RoomWatch | null,
  ): Promise<EngineRun> {
    const done = await this.#done.promise
    // What a tenant's statements have begun may go on until then; our own have written what they write.
    if (this.#job.trust === 'tenant') await this.#child.ended
    this.#child.output.destroy()
    const excess = await room?.check()
    if (excess) throw excess
    const files = await this.#hooks.keep(done.files)
    const { frees } = this.#hooks
    if (frees !== undefined && this.release()) frees()
    const summary = { rows: done.rows, bytes: 0, truncated: false }
    const inspected = {
      ...(textColumns === undefined ? {} : { textColumns }),
      ...(isRowWise === undefined ? {} : { isRowWise }),
      ...(parts === undefined ? {} : { parts }),
    }
    return { results, columns, lineage, ...inspected, files, output: noBytes(), finished: Promise.resolve(summary) }
  }

  #streamingRun(results: readonly StepResult[], opened: Opened, deadline: AbortSignal): EngineRun {
    // Bytes that nobody takes hold neither their pipe open for ever, nor a child that is kept.
    const late = () => {
      this.#fail(this.#hooks.late())
      this.#child.output.destroy(this.#hooks.late())
    }
    deadline.addEventListener('abort', late, { once: true })
    this.#read.signal.addEventListener('abort', () => deadline.removeEventListener('abort', late), { once: true })
    const finished = Promise.withResolvers<OutputSummary>()
    // Whoever reads the output is told by it; nobody has to wait for this one.
    finished.promise.catch(() => {})
    const output = this.#bytes(finished)
    const { columns, lineage, isStable, parameterTypes } = opened
    const told = {
      ...(isStable === undefined ? {} : { isStable }),
      ...(parameterTypes === undefined ? {} : { parameterTypes }),
    }
    return { results, columns, lineage, ...told, files: [], output, finished: finished.promise }
  }

  async *#bytes(finished: PromiseWithResolvers<OutputSummary>): AsyncGenerator<Uint8Array> {
    let complete = false
    try {
      yield* this.#bounded()
      // The pipe also ends when the child crashes; only its word says that the rows are complete.
      const done = await this.#done.promise
      complete = true
      finished.resolve(this.#summary(done))
      this.#free()
    } catch (error) {
      finished.reject(this.#failure ?? error)
      throw this.#failure ?? error
    } finally {
      if (!complete) this.#fail(cancelledError(null))
      finished.reject(this.#failure)
    }
  }

  #summary(done: Done): OutputSummary {
    const maxRows = this.#job.limits.maxRows ?? Number.POSITIVE_INFINITY
    return { rows: Math.min(done.rows, maxRows), bytes: this.#outputBytes, truncated: done.rows > maxRows }
  }

  /** The pipe's bytes up to the child's end, or up to the limit. */
  async *#bounded(): AsyncGenerator<Uint8Array> {
    const limit = this.#job.limits.maxOutputBytes ?? Number.POSITIVE_INFINITY
    const { kind } = this.#job.output as StreamOutput
    // What fails beyond its rows is not cut: looking for the ends of its lines would take longer than all else here.
    const lines = new OutputLines(kind, failsBeyondRows(kind, this.#job.limits) ? undefined : this.#job.limits.maxRows)
    for await (const raw of this.#piped()) {
      const chunk = lines.take(raw)
      this.#outputBytes += chunk.length
      if (this.#outputBytes > limit) this.#fail(tooLargeError(limit))
      if (this.#failure) throw this.#failure
      if (chunk.length > 0) yield chunk
    }
    if (this.#failure) throw this.#failure
  }

  #piped(): AsyncIterable<Uint8Array> {
    const { kept } = this.#hooks
    return kept === undefined ? this.#child.output : untilMark(this.#child.output, kept.mark)
  }

  async #feed(source: AsyncIterable<Uint8Array>, room: RoomWatch | null): Promise<void> {
    const input = this.#child.input
    let bytes = 0
    try {
      for await (const chunk of source) {
        if (this.#stop.signal.aborted) return
        bytes += chunk.length
        const excess = room?.checkInput(bytes)
        if (excess) throw excess
        if (!input.write(chunk)) await once(input, 'drain', { signal: this.#stop.signal })
      }
      input.end()
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#fail(error)
    }
  }

  #receive(message: FromChild): void {
    if (message.kind === 'walls') this.#hooks.walls(message.walls)
    if (message.kind === 'opened') this.#opened.resolve(message)
    if (message.kind === 'done') this.#complete(message)
    if (message.kind === 'failed') this.#fail(fromWireError(message.error))
  }

  #childEnded(how: string): void {
    this.#fail(crashedError(how, this.#child.stderr))
  }

  #endOn(signal: AbortSignal, reason: () => unknown, until: AbortSignal): void {
    const end = () => this.#fail(reason())
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    // Not by the option `signal`: of several listeners to one signal Node forgets to remove all but the last.
    until.addEventListener('abort', () => signal.removeEventListener('abort', end), { once: true })
  }

  /** The first reason is the one that is told; a job that is done cannot fail any more. */
  #fail(reason: unknown): void {
    if (this.#stop.signal.aborted) return
    this.#failure = reason
    this.#settled.abort()
    this.#stop.abort()
    this.#child.kill()
    this.#child.output.destroy()
    this.#opened.reject(reason)
    this.#done.reject(reason)
    this.#hooks.stays?.(reason)
  }

  /** Nothing of this job touches the child any more. */
  #free(): void {
    this.#read.abort()
    if (this.#hooks.kept === undefined) return
    this.#stop.abort()
    this.#hooks.kept.free()
  }

  /** From now on nothing that would end this job ends its child. False where something has ended it already. */
  release(): boolean {
    if (this.#failure !== null || !this.#child.alive) return false
    this.#stop.abort()
    return true
  }

  /** The child has nothing more to do, unless it stays: then it is watched on. What it wrote stays in the pipe, which ends with the child. */
  #complete(message: Done): void {
    this.#settled.abort()
    const { stays, kept, frees } = this.#hooks
    if (stays === undefined && kept === undefined && frees === undefined) {
      this.#stop.abort()
      this.#child.kill()
    }
    this.#done.resolve(message)
  }
}

const OWN_SLACK_BYTES = 128 * 1024 * 1024

/**
 * A tenant's job is ended at its limit. The runtime's own statements spill at the limit, and while they do so the
 * process holds more than DuckDB counts.
 */
function watchedBytes({ trust, limits: { memoryBytes } }: EngineJob): number {
  return trust === 'tenant' ? memoryBytes : memoryBytes * 1.25 + OWN_SLACK_BYTES
}

/** Whether a job's output is bytes to be read, and not files or columns. */
export function isStreamed(output: EngineOutput | undefined): output is StreamOutput {
  return output !== undefined && output.kind !== 'parquet-files' && !isInspection(output)
}

export function isInspection(output: EngineOutput | undefined): output is InspectOutput {
  return output?.kind === 'inspect' || output?.kind === 'inspect-condition'
}

export function decodeResult(result: Opened['results'][number]): StepResult {
  return { columns: result.columns, rows: decodeRows(result.rowsJson, result.columns) }
}

/** Of a run that streams nothing. */
export async function* noBytes(): AsyncGenerator<Uint8Array> {}

export function timeoutError(timeoutMs: number): SluiceError {
  return new SluiceError('QUOTA', `the statement took longer than ${timeoutMs} ms`, {
    code: 'query_timeout',
    remedy: 'Read fewer rows, or ask for a longer time where that is allowed.',
    details: { timeout_ms: timeoutMs },
  })
}

export function cancelledError(cause: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the statement was cancelled', { code: 'query_cancelled', cause })
}

function tooLargeError(limitBytes: number): SluiceError {
  return new SluiceError('QUOTA', `the result is larger than ${limitBytes} bytes`, {
    code: 'query_result_too_large',
    details: { limit_bytes: limitBytes },
  })
}

function crashedError(how: string, stderr: string): SluiceError {
  // Out of memory shows in three ways: V8's own message, the allocator's, and the kernel's kill.
  if (/out of memory|bad_alloc|allocation fail/i.test(stderr)) return memoryExceeded(new Error(stderr))
  return new SluiceError('TRANSIENT', 'the engine process ended in the middle of the statement', {
    code: 'engine_crashed',
    cause: new Error(`the child ended ${how}: ${stderr}`),
  })
}
