/** One open connector in one child: its calls, one at a time, and everything that can end them. */

import type { Wall } from '@sluice/engine'
import { watchMemory } from '@sluice/engine/memory-watch'
import { toWireError } from '@sluice/engine/wire-error'
import { type ConnectorHost, isSluiceError, type ProgramRequest, SluiceError } from '@sluice/sdk'
import { type Programs, programsUnknown, type RunningProgram, tooManyPrograms } from './programs/programs.ts'
import { BrokenAnswer, checkedError, checkedQuestion, checkedWalls, fieldsOf } from './source-answers.ts'
import type { SourceChild } from './source-child.ts'
import { invalidAnswer, lineFailure, readerFailed, sourceTooLarge, sourceTooSlow, stopped } from './source-failure.ts'
import type { SourcePlaces } from './source-places.ts'
import type { Frame, OpenMessage, SourceCall } from './source-protocol.ts'

export interface SessionLimits {
  readonly memoryBytes: number
  /** How long a child may say nothing at all while something is asked of it. */
  readonly silenceMs: number
}

/** What a call brings, in order; the generator returns `next` of discover. */
export type Part = { readonly type: 'part'; readonly part: unknown } | Exclude<Frame, { readonly type: 'json' }>

/** How long a call that is stopped may take to say goodbye to its source. */
const GOODBYE_MS = 2_000
const MAX_QUESTIONS = 32
/** At a time; a call has one. */
const MAX_PROGRAMS = 2
const MAX_LOG_LINES = 100
const MAX_LOG_CHARS = 1000

export class SourceSession {
  readonly #child: SourceChild
  readonly #host: ConnectorHost
  readonly #places: SourcePlaces
  readonly #limits: SessionLimits
  readonly #onWalls: (walls: readonly Wall[]) => void
  readonly #programs: Programs | null
  readonly #gone = new AbortController()
  #failure: unknown = null
  readonly #running = new Map<number, RunningProgram>()
  #programCount = 0
  #questions = 0
  #logLines = 0
  #hasWalls = false

  constructor(
    child: SourceChild,
    parts: {
      readonly host: ConnectorHost
      readonly places: SourcePlaces
      readonly limits: SessionLimits
      readonly open: Omit<OpenMessage, 'kind' | 'memoryBytes'>
      readonly onWalls: (walls: readonly Wall[]) => void
      /** Null: its connector may start none. */
      readonly programs: Programs | null
    },
  ) {
    this.#child = child
    this.#host = parts.host
    this.#places = parts.places
    this.#limits = parts.limits
    this.#onWalls = parts.onWalls
    this.#programs = parts.programs
    const { memoryBytes } = parts.limits
    watchMemory(child.pid, memoryBytes, this.#gone.signal, () => this.#end(sourceTooLarge()))
    void child.ended.then(() => this.#gone.abort())
    child.send({ kind: 'open', memoryBytes, ...parts.open })
  }

  get usable(): boolean {
    return this.#failure === null && !this.#gone.signal.aborted
  }

  /**
   * Yields what the call brings, as it comes, and returns where a page ends. Whoever stops iterating stops the call.
   * Rejected with a SluiceError. One call at a time.
   */
  async *call(call: SourceCall, timeoutMs: number, signal: AbortSignal): AsyncGenerator<Part, string | null> {
    signal.throwIfAborted()
    let isOver = false
    let goodbye: NodeJS.Timeout | undefined
    let why: unknown = null
    const stop = (reason: unknown) => {
      if (why !== null) return
      why = reason
      this.#child.send({ kind: 'abort' })
      goodbye = setTimeout(() => this.#end(reason), GOODBYE_MS)
    }
    const onAbort = () => stop(stopped(signal.reason))
    signal.addEventListener('abort', onAbort, { once: true })
    const deadline = setTimeout(() => stop(sourceTooSlow(timeoutMs)), timeoutMs)
    try {
      this.#child.send({ kind: 'call', call })
      if (signal.aborted) onAbort()
      for (;;) {
        const frame = await this.#next()
        if (frame.type !== 'json') {
          if (why === null) yield frame
          continue
        }
        const said = fieldsOf(frame.value, 'a message')
        if (said['kind'] === 'part' && why === null) yield { type: 'part', part: said['part'] }
        else if (said['kind'] === 'done' || said['kind'] === 'failed') {
          isOver = true
          if (why !== null) throw why
          if (said['kind'] === 'failed') throw checkedError(said['error'])
          return typeof said['next'] === 'string' ? said['next'] : null
        } else this.#hear(said)
      }
    } catch (error) {
      if (isOver) throw error
      this.#end(lineFailure(error))
      isOver = true
      throw why ?? this.#failure
    } finally {
      clearTimeout(deadline)
      clearTimeout(goodbye)
      signal.removeEventListener('abort', onAbort)
      if (!isOver) await this.#abandon()
    }
  }

  /** Says goodbye to the source, and ends the process. */
  async close(): Promise<void> {
    if (this.usable) {
      try {
        for await (const _ of this.call({ method: 'close' }, GOODBYE_MS, new AbortController().signal)) {
          // Nothing comes of it.
        }
      } catch {
        // It ends either way.
      }
    }
    this.#end(new Error('closed'))
  }

  /** Whoever read has gone: the child may say goodbye, and then ends. */
  async #abandon(): Promise<void> {
    this.#child.send({ kind: 'abort' })
    const goodbye = setTimeout(() => this.#end(new Error('abandoned')), GOODBYE_MS)
    try {
      for (;;) {
        const frame = await this.#next()
        if (frame.type !== 'json') continue
        const said = fieldsOf(frame.value, 'a message')
        if (said['kind'] === 'done' || said['kind'] === 'failed') return
        this.#hear(said)
      }
    } catch (error) {
      this.#end(lineFailure(error))
    } finally {
      clearTimeout(goodbye)
    }
  }

  /** Rejected where the child has ended, or says nothing. */
  async #next(): Promise<Frame> {
    const { silenceMs } = this.#limits
    const silence = setTimeout(() => this.#end(invalidAnswer(`nothing was heard for ${silenceMs} ms`)), silenceMs)
    try {
      const frame = await this.#child.next()
      if (frame !== null) return frame
    } finally {
      clearTimeout(silence)
    }
    const how = await this.#child.ended
    throw this.#failure ?? this.#endOf(how)
  }

  #endOf(how: string): SluiceError {
    const { stderr } = this.#child
    if (/out of memory|allocation fail|bad_alloc/i.test(stderr)) return sourceTooLarge()
    return readerFailed(`the child ended ${how}: ${stderr}`)
  }

  #hear(said: Readonly<Record<string, unknown>>): void {
    switch (said['kind']) {
      case 'alive':
      case 'part':
        return
      case 'walls':
        // Said once, before anything of the source was seen; later it is the source's word.
        if (!this.#hasWalls) this.#onWalls(checkedWalls(said['walls']))
        this.#hasWalls = true
        return
      case 'ask':
        void this.#answer(said['id'], said['question'])
        return
      case 'log':
        this.#log(said)
        return
      case 'metric':
        this.#count(said)
        return
      case 'broken':
        throw invalidAnswer(`it threw: ${String(checkedError(said['error']).cause)}`)
      default:
        throw new BrokenAnswer('a message is of no known kind')
    }
  }

  async #answer(id: unknown, asked: unknown): Promise<void> {
    if (typeof id !== 'number' || this.#questions >= MAX_QUESTIONS) {
      this.#end(invalidAnswer('it asked too much at once'))
      return
    }
    this.#questions += 1
    try {
      const value = await this.#reply(asked)
      this.#child.send({ kind: 'answer', id, value })
    } catch (error) {
      if (error instanceof BrokenAnswer) this.#end(lineFailure(error))
      else this.#child.send({ kind: 'refusal', id, error: toWireError(asSluiceError(error)) })
    } finally {
      this.#questions -= 1
    }
  }

  async #reply(asked: unknown): Promise<unknown> {
    const question = checkedQuestion(asked)
    switch (question.what) {
      case 'resolve':
        return this.#places.resolve(question.host, question.port, this.#gone.signal)
      case 'connect': {
        const { address, family } = await this.#places.known(question.address, question.port, this.#gone.signal)
        const outcome = await this.#child.lend(address, question.port, family)
        if (outcome === 0) this.#places.reached()
        else this.#places.forget(address)
        return outcome
      }
      case 'fault-point':
        await this.#host.faultPoint(question.name)
        return null
      case 'program':
        return this.#startProgram(question.request)
      case 'program-end':
        return this.#programEnd(question.program)
      case 'program-stop':
        this.#running.get(question.program)?.stop()
        return null
    }
  }

  #startProgram(request: ProgramRequest): number {
    if (this.#programs === null) throw programsUnknown()
    if (this.#running.size >= MAX_PROGRAMS) throw tooManyPrograms()
    const take = (descriptors: readonly number[]) => this.#child.handOver(descriptors)
    const program = this.#programs.start(request, this.#gone.signal, take)
    this.#programCount += 1
    const id = this.#programCount
    this.#running.set(id, program)
    program.onKnock(() => this.#child.send({ kind: 'knock', program: id }))
    return id
  }

  async #programEnd(id: number): Promise<unknown> {
    try {
      return await this.#program(id).ended
    } finally {
      this.#running.delete(id)
    }
  }

  #program(id: number): RunningProgram {
    const program = this.#running.get(id)
    if (program !== undefined) return program
    throw new BrokenAnswer('there is no such program')
  }

  #log(said: Readonly<Record<string, unknown>>): void {
    this.#logLines += 1
    const { level, message } = said
    if (this.#logLines > MAX_LOG_LINES || typeof message !== 'string') return
    const fields = JSON.stringify(said['fields'] ?? {})
    const write = level === 'error' || level === 'warn' || level === 'info' ? level : 'debug'
    // As one text: names of fields of the log are not a source's to choose.
    this.#host.logger[write](message.slice(0, MAX_LOG_CHARS), { connector: fields.slice(0, MAX_LOG_CHARS) })
  }

  #count(said: Readonly<Record<string, unknown>>): void {
    const { type, name, value, labels } = said
    if (typeof name !== 'string' || typeof value !== 'number') throw new BrokenAnswer('a metric has no name or value')
    const texts = Object.entries(fieldsOf(labels ?? {}, 'labels')).filter(([, label]) => typeof label === 'string')
    const known = Object.fromEntries(texts) as Readonly<Record<string, string>>
    if (type === 'count') this.#host.metrics.count(name, value, known)
    else this.#host.metrics.observe(name, value, known)
  }

  /** The first reason is the one that is told. */
  #end(reason: unknown): void {
    this.#failure ??= reason
    this.#child.kill()
  }
}

function asSluiceError(error: unknown): SluiceError {
  if (isSluiceError(error)) return error
  const cause = error instanceof Error ? error : undefined
  return new SluiceError('INTERNAL', 'the runtime could not do what the connector asked of it', {
    code: 'connector_defect',
    cause,
  })
}
