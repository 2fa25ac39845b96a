/**
 * What the processes of one runtime tell and ask each other, over the channel that Node keeps between a process and those
 * that it has started. Values are copied by structured clone: dates, big integers and bytes arrive as they are.
 */
import type { Socket } from 'node:net'
import { isSluiceError, SluiceError, type SluiceErrorOptions } from '@sluice/sdk'

/** Either end: what `fork` gives, and `process` of who was forked. */
export interface ChannelEnd {
  readonly connected: boolean
  send?:
    | ((message: object, handle: Socket | undefined, options: object, onSent: (error: Error | null) => void) => boolean)
    | undefined
  on(event: 'message', listener: (message: unknown, handle?: unknown) => void): unknown
  on(event: 'disconnect', listener: () => void): unknown
}

type Message =
  | { readonly kind: 'ask'; readonly id: number; readonly what: string; readonly body: unknown }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'refusal'; readonly id: number; readonly error: ToldError }
  | { readonly kind: 'tell'; readonly what: string; readonly body: unknown }

export interface ChannelEars {
  /** What the other end may ask; what they throw is thrown there, SluiceErrors as such. */
  readonly answers: Readonly<Record<string, (body: never) => unknown>>
  /** What it may tell. */
  readonly hears: Readonly<Record<string, (body: never, socket: Socket | undefined) => void>>
}

interface Asked {
  resolve(value: unknown): void
  reject(error: Error): void
}

export class ProcessChannel {
  readonly #end: ChannelEnd
  readonly #ears: ChannelEars
  readonly #asked = new Map<number, Asked>()
  #last = 0

  constructor(end: ChannelEnd, ears: ChannelEars) {
    this.#end = end
    this.#ears = ears
    end.on('message', (message, handle) => this.#receive(message as Message, handle as Socket | undefined))
    end.on('disconnect', () => this.#close())
  }

  /** Rejected with what the other end throws, and with TRANSIENT `process_gone` where that ends before it answers. */
  ask<T>(what: string, body: unknown): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    this.#last += 1
    const id = this.#last
    this.#asked.set(id, { resolve: resolve as Asked['resolve'], reject })
    const failed = (error: Error | null) => {
      if (error !== null && this.#asked.delete(id)) reject(gone(error))
    }
    try {
      this.#send({ kind: 'ask', id, what, body }, undefined, failed)
    } catch (error) {
      // What cannot be copied is asked of nobody.
      this.#asked.delete(id)
      reject(error as Error)
    }
    return promise
  }

  /**
   * With a socket that both ends have from then on, until one closes what it has of it. What cannot be told is not: the other
   * end is gone.
   */
  tell(what: string, body: unknown, socket?: Socket): void {
    this.#send({ kind: 'tell', what, body }, socket, () => undefined)
  }

  #send(message: Message, socket: Socket | undefined, onSent: (error: Error | null) => void): void {
    if (this.#end.connected) this.#end.send?.(message, socket, { keepOpen: true }, onSent)
    else onSent(new Error('the channel is closed'))
  }

  #receive(message: Message, socket: Socket | undefined): void {
    if (message.kind === 'tell') this.#ears.hears[message.what]?.(message.body as never, socket)
    else if (message.kind === 'ask') void this.#answer(message.id, message.what, message.body)
    else {
      const asked = this.#asked.get(message.id)
      this.#asked.delete(message.id)
      if (message.kind === 'answer') asked?.resolve(message.value)
      else asked?.reject(errorOf(message.error))
    }
  }

  async #answer(id: number, what: string, body: unknown): Promise<void> {
    const failed = () => undefined
    try {
      const value = await this.#ears.answers[what]?.(body as never)
      this.#send({ kind: 'answer', id, value }, undefined, failed)
    } catch (error) {
      this.#send({ kind: 'refusal', id, error: toldError(error) }, undefined, failed)
    }
  }

  #close(): void {
    for (const { reject } of this.#asked.values()) reject(gone())
    this.#asked.clear()
  }
}

function gone(cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'another process of this runtime has ended', {
    code: 'process_gone',
    remedy: 'Ask again: it is started anew.',
    retryAfterMs: 1_000,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** An error as it goes from one process to another; its cause stays a text for the log. */
interface ToldError {
  readonly message: string
  readonly stack: string
  readonly sluice: { readonly kind: SluiceError['kind']; readonly options: SluiceErrorOptions } | null
}

function toldError(error: unknown): ToldError {
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error))
  if (!isSluiceError(error)) return { message, stack, sluice: null }
  const { kind, code, remedy, details, retryAfterMs } = error
  const options = {
    code,
    ...(remedy === undefined ? {} : { remedy }),
    ...(details === undefined ? {} : { details }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
  return { message, stack: causesOf(error), sluice: { kind, options } }
}

/** The stacks of an error and of what it came of. */
function causesOf(error: unknown): string {
  const stacks: string[] = []
  for (let at: unknown = error; at instanceof Error; at = at.cause) stacks.push(at.stack ?? at.message)
  return stacks.join('\ncaused by ')
}

function errorOf({ message, stack, sluice }: ToldError): Error {
  const cause = Object.assign(new Error(message), { stack })
  return sluice === null ? cause : new SluiceError(sluice.kind, message, { ...sluice.options, cause })
}
