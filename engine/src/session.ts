/** A child that stays when its job is done, and what its requests are told. */
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { EngineChild } from './engine-child.ts'
import type { EngineRun, EngineSession, SessionRequest, StepResult } from './job.ts'
import { cancelledError, decodeResult, noBytes, timeoutError } from './job-run.ts'
import { type ChildRequest, type FromChild, toWire, toWireSteps, type WireSessionOutput } from './protocol.ts'
import { fromWireError } from './walls/wire-error.ts'

type Answer = Extract<FromChild, { kind: 'answered' }>

export interface SessionPlace {
  readonly child: EngineChild
  /** Where the child may write outputs; removed by whoever made it, when the child has ended. */
  readonly directory: string
  /** Of each request. */
  readonly timeoutMs: number
  readonly idleMs: number
  /** Aborted with the reason where the child was ended: by its caller, for its memory, or by a crash. */
  readonly failed: AbortSignal
  /** Lets the child go on without the session. False where it is to end. */
  release(): boolean
  /** Whether others wait for a child. */
  isWanted(): boolean
}

export class ChildSession implements EngineSession {
  readonly results: readonly StepResult[]
  readonly #place: SessionPlace
  readonly #end = new AbortController()
  readonly #ended = Promise.withResolvers<void>()
  #last: Promise<void> = Promise.resolve()
  #asked = 0
  #pending = 0
  #idle: NodeJS.Timeout | null = null

  constructor(results: readonly StepResult[], place: SessionPlace) {
    this.results = results
    this.#place = place
    const { failed } = place
    const end = () => this.#finish(failed.reason)
    failed.addEventListener('abort', end, { once: true })
    if (failed.aborted) end()
    this.#wait()
  }

  get isOpen(): boolean {
    return !this.#end.signal.aborted
  }

  get ended(): Promise<unknown> {
    return this.#ended.promise
  }

  run(request: SessionRequest): Promise<EngineRun> {
    this.#pending += 1
    if (this.#idle !== null) clearTimeout(this.#idle)
    const run = this.#last.then(() => this.#run(request))
    const rest = () => {
      this.#pending -= 1
      this.#rest()
    }
    this.#last = run.then(rest, rest)
    return run
  }

  /** Ends it where it has nothing to do: others want its place. */
  giveWay(): void {
    if (this.#pending === 0) this.#leave()
  }

  async close(): Promise<void> {
    if (this.#pending === 0) this.#leave()
    else this.#finish(cancelledError(null))
    await this.#ended.promise
  }

  async #run({ tables, steps, output }: SessionRequest): Promise<EngineRun> {
    const path = join(this.#place.directory, `output-${this.#asked++}`)
    const wanted = output
      ? ({ ...output, parameters: (output.parameters ?? []).map(toWire) } as WireSessionOutput)
      : null
    const answer = await this.#ask({ tables, steps: toWireSteps(steps), output: wanted, path })
    const { columns, lineage, rows } = answer
    const told = { results: answer.results.map(decodeResult), columns, lineage, files: [] }
    const bytes = output && rows > 0 ? await openAndRemove(path) : null
    return {
      ...told,
      output: bytes ?? noBytes(),
      finished: Promise.resolve({ rows, bytes: bytes?.size ?? 0, truncated: false }),
    }
  }

  async #ask(request: ChildRequest): Promise<Answer> {
    this.#end.signal.throwIfAborted()
    const { child, timeoutMs } = this.#place
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const late = setTimeout(() => this.#finish(timeoutError(timeoutMs)), timeoutMs)
    const end = () => reject(this.#end.signal.reason)
    this.#end.signal.addEventListener('abort', end, { once: true })
    child.onMessage((message) => {
      if (message.kind === 'answered') resolve(message)
      if (message.kind === 'refused') reject(fromWireError(message.error))
    })
    child.send({ kind: 'request', request })
    try {
      return await promise
    } finally {
      clearTimeout(late)
      this.#end.signal.removeEventListener('abort', end)
    }
  }

  #rest(): void {
    if (this.#pending > 0) return
    if (this.#place.isWanted()) this.giveWay()
    this.#wait()
  }

  #wait(): void {
    if (!this.isOpen) return
    this.#idle = setTimeout(() => this.#leave(), this.#place.idleMs).unref()
  }

  /** With nothing under way: the child may go on with something else. */
  #leave(): void {
    this.#finish(cancelledError(null), this.isOpen && this.#place.release())
  }

  /** The first reason is the one that is told. */
  #finish(reason: unknown, isReleased = false): void {
    if (!this.isOpen) return
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#end.abort(reason)
    const { child } = this.#place
    if (isReleased) {
      this.#ended.resolve()
      return
    }
    void child.ended.then(() => this.#ended.resolve())
    child.kill()
  }
}

/** The file's bytes, to be read once; it has no name any more, and is gone when they are read. */
async function openAndRemove(path: string): Promise<AsyncIterable<Uint8Array> & { readonly size: number }> {
  const file = await open(path, 'r')
  await rm(path)
  const { size } = await file.stat()
  return Object.assign(file.createReadStream(), { size })
}
