/** One connection to one broker: requests, one after the other, each with a deadline and an answer that may not be larger than one is. */
import type { Socket } from 'node:net'
import type { Clock } from '@sluice/sdk'
import { orAbort, within } from '../../server/deadline.ts'
import { LineLost } from '../failure.ts'
import type { Api } from './answers.ts'
import { BrokenAnswer, WireReader, WireWriter } from './bytes.ts'

/** An answer holds one batch at least, and a batch is as large as its topic allows. */
export const MAX_ANSWER_BYTES = 96 * 1024 * 1024
const REQUEST_MS = 60_000
const CLIENT_ID = 'sluice'

export class BrokerLine {
  readonly #socket: Socket
  readonly #clock: Clock
  #correlation = 0
  #parts: Buffer[] = []
  #bytes = 0
  /** Of the answer that comes, its length not counted; null: not known yet. */
  #expected: number | null = null
  #waiting: PromiseWithResolvers<Buffer> | null = null
  #failure: Error | null = null
  #turn: Promise<unknown> = Promise.resolve()

  constructor(socket: Socket, clock: Clock) {
    this.#socket = socket
    this.#clock = clock
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    socket.on('error', () => this.#end(new LineLost('the line broke')))
    socket.on('close', () => this.#end(new LineLost('the line was closed')))
  }

  get isOpen(): boolean {
    return this.#failure === null
  }

  /** Throws BrokenAnswer, LineLost, OutOfTime or what aborted the signal; the line is closed then. */
  ask<Question, Answer>(api: Api<Question, Answer>, question: Question, signal: AbortSignal): Promise<Answer> {
    const asked = this.#turn.then(() => this.#ask(api, question, signal))
    this.#turn = asked.catch(() => undefined)
    return asked
  }

  async #ask<Question, Answer>(api: Api<Question, Answer>, question: Question, signal: AbortSignal): Promise<Answer> {
    if (this.#failure !== null) throw this.#failure
    signal.throwIfAborted()
    this.#correlation = (this.#correlation + 1) % 0x7fff_ffff
    const correlation = this.#correlation
    const head = new WireWriter().int16(api.key).int16(api.version).int32(correlation).string(CLIENT_ID)
    if (api.isFlexible) head.noTags()
    const message = head.raw(api.write(question)).done()
    const waiting = Promise.withResolvers<Buffer>()
    // Where the line breaks before anybody waits, the question fails by it below.
    waiting.promise.catch(() => undefined)
    this.#waiting = waiting
    try {
      this.#socket.write(new WireWriter().int32(message.length).raw(message).done())
      const answer = await within(this.#clock, signal, REQUEST_MS, (hurry) => orAbort(hurry, waiting.promise))
      const from = new WireReader(answer)
      if (from.int32() !== correlation) throw new BrokenAnswer('an answer belongs to no question')
      if (api.isFlexible) from.tags()
      return api.read(from)
    } catch (error) {
      this.#end(error instanceof Error ? error : new LineLost('it was given up'))
      throw error
    }
  }

  close(): void {
    this.#end(new LineLost('it was closed here'))
  }

  #take(chunk: Buffer): void {
    if (this.#failure !== null) return
    const waiting = this.#waiting
    if (waiting === null) {
      this.#end(new BrokenAnswer('an answer came that nobody asked for'))
      return
    }
    this.#parts.push(chunk)
    this.#bytes += chunk.length
    if (this.#expected === null) {
      if (this.#bytes < 4) return
      this.#expected = this.#joined().readInt32BE()
      if (this.#expected < 4 || this.#expected > MAX_ANSWER_BYTES) {
        this.#end(new BrokenAnswer(`an answer is announced with ${this.#expected} bytes`))
        return
      }
    }
    const left = 4 + this.#expected - this.#bytes
    if (left > 0) return
    if (left < 0) {
      this.#end(new BrokenAnswer('an answer goes on behind its end'))
      return
    }
    const answer = this.#joined().subarray(4)
    this.#parts = []
    this.#bytes = 0
    this.#expected = null
    this.#waiting = null
    waiting.resolve(answer)
  }

  #joined(): Buffer {
    if (this.#parts.length > 1) this.#parts = [Buffer.concat(this.#parts)]
    return this.#parts[0] ?? Buffer.alloc(0)
  }

  #end(error: Error): void {
    if (this.#failure !== null) return
    this.#failure = error
    this.#parts = []
    this.#waiting?.reject(error)
    this.#waiting = null
    this.#socket.destroy()
  }
}
