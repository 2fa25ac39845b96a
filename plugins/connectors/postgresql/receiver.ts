/**
 * Takes the place of the driver's parser while a server sends what is no answer to a query: rows of a COPY, messages of a
 * log. What was taken waits in a bounded queue; above it the socket is paused, and TCP tells the server to wait.
 */
import type { Connection, Submittable } from 'pg'

export const COPY_DATA = 'd'.charCodeAt(0)
/** Of each message of the protocol: its type, and its length. */
export const HEADER_BYTES = 5
const HIGH_WATER_BYTES = 1 << 20
const MAX_QUEUED = 4096

/** `error` is thrown after what was taken before it; without one the items end. */
export interface Finish {
  readonly error?: unknown
}

export abstract class Receiver<Item> implements Submittable, AsyncIterable<Item> {
  readonly #sql: string
  readonly #bytesOf: (item: Item) => number
  readonly #queue: Item[] = []
  #queuedBytes = 0
  #wake: (() => void) | null = null
  #finish: Finish | null = null
  #connection: Connection | null = null
  #driver: ((chunk: Buffer) => void) | null = null

  constructor(sql: string, bytesOf: (item: Item) => number) {
    this.#sql = sql
    this.#bytesOf = bytesOf
  }

  /** Takes what the server has sent, as it lies in the buffer that the socket filled. */
  protected abstract receive(data: Buffer): void

  /** Called once, where all has ended well; throws where it has not. */
  protected abstract checkEnd(): void

  abstract handleCommandComplete(message: { readonly text?: string }): void

  abstract handleReadyForQuery(): void

  /** True until the server has ended the statement, one way or the other. */
  get running(): boolean {
    return this.#finish === null
  }

  /** Whether what the server sends is taken now, and does not wait for what was taken before. */
  protected get isListening(): boolean {
    return this.running && this.#connection?.stream.isPaused() === false
  }

  submit(connection: Connection): void {
    this.#connection = connection
    this.#driver = connection.stream.listeners('data')[0] as (chunk: Buffer) => void
    connection.stream.on('data', this.#onData)
    connection.stream.off('data', this.#driver)
    connection.query(this.#sql)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item> {
    for (;;) {
      const item = this.#queue.shift()
      if (item !== undefined) {
        this.#release(item)
        yield item
      } else if (this.#finish) {
        if ('error' in this.#finish) throw this.#finish.error
        this.checkEnd()
        return
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }

  handleError(error: unknown): void {
    this.giveBack()
    this.end({ error })
  }

  /** To the server, while the driver has not taken over again. */
  protected send(message: Buffer): void {
    if (this.running && this.#driver !== null) this.#connection?.stream.write(message)
  }

  /** What follows is the driver's business again. */
  protected giveBack(rest?: Buffer): void {
    const stream = this.#connection?.stream
    const driver = this.#driver
    if (!stream || !driver) return
    this.#driver = null
    stream.on('data', driver)
    stream.off('data', this.#onData)
    stream.resume()
    if (rest && rest.length > 0) driver(rest)
  }

  protected push(item: Item): void {
    this.#queue.push(item)
    this.#queuedBytes += this.#bytesOf(item)
    this.#notify()
  }

  /** The first end counts. */
  protected end(finish: Finish): void {
    this.#finish ??= finish
    this.#notify()
  }

  /** What was sent cannot be read: nothing that follows is to be believed. */
  protected breakOff(error: unknown): void {
    this.end({ error })
    this.#connection?.stream.destroy()
  }

  readonly #onData = (data: Buffer): void => {
    this.receive(data)
    if (this.#queuedBytes > HIGH_WATER_BYTES || this.#queue.length > MAX_QUEUED) this.#connection?.stream.pause()
  }

  #release(item: Item): void {
    this.#queuedBytes -= this.#bytesOf(item)
    const low = this.#queuedBytes < HIGH_WATER_BYTES / 2 && this.#queue.length < MAX_QUEUED / 2
    if (low && this.#connection?.stream.isPaused()) this.#connection.stream.resume()
  }

  #notify(): void {
    this.#wake?.()
    this.#wake = null
  }
}
