import { once } from 'node:events'
import type { Socket } from 'node:net'
import { fromWireError, toWireError, type WireError } from '@sluice/engine/wire-error'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import {
  ALIVE_EVERY_MS,
  FRAME,
  type FromSourceChild,
  frameHeader,
  jsonFrame,
  ROW_COUNT_BYTES,
  type SourceQuestion,
  type ToSourceChild,
} from '../source-protocol.ts'

/** How long a last word may take to leave. */
const LAST_WORD_MS = 1000

/** The child's end of the line: what it says, what it asks, and what it is told. */
export class ParentLine {
  readonly #channel: Socket
  readonly #asked = new Map<number, PromiseWithResolvers<unknown>>()
  #asks = 0
  #listener: ((message: ToSourceChild) => void) | null = null

  constructor(channel: Socket) {
    this.#channel = channel
    setInterval(() => {
      // While what was said waits to be taken, the parent is not waiting to hear more.
      if (!channel.writableNeedDrain) this.say({ kind: 'alive' })
    }, ALIVE_EVERY_MS).unref()
  }

  onMessage(listener: (message: ToSourceChild) => void): void {
    this.#listener = listener
  }

  receive(message: ToSourceChild): void {
    if (message.kind === 'answer') this.#settle(message.id)?.resolve(message.value)
    else if (message.kind === 'refusal') this.#settle(message.id)?.reject(fromWireError(message.error))
    else this.#listener?.(message)
  }

  say(message: FromSourceChild): void {
    this.#channel.write(jsonFrame(message))
  }

  /** Says it, and waits until the parent keeps up. */
  async tell(message: FromSourceChild): Promise<void> {
    this.say(message)
    await this.drained()
  }

  /** Rows as CSV; of a batch with how many they are. */
  sayRows(csv: Uint8Array, rowCount: number | null): void {
    if (csv.length === 0) return
    this.#channel.cork()
    if (rowCount === null) {
      this.#channel.write(frameHeader(FRAME.csv, csv.length))
    } else {
      const count = Buffer.alloc(ROW_COUNT_BYTES)
      count.writeUInt32BE(rowCount)
      this.#channel.write(frameHeader(FRAME.batch, csv.length + ROW_COUNT_BYTES))
      this.#channel.write(count)
    }
    this.#channel.write(csv)
    this.#channel.uncork()
  }

  /** Waits until the parent keeps up. */
  async drained(): Promise<void> {
    if (this.#channel.writableNeedDrain) await once(this.#channel, 'drain')
  }

  ask(question: SourceQuestion): Promise<unknown> {
    this.#asks += 1
    const answer = Promise.withResolvers<unknown>()
    this.#asked.set(this.#asks, answer)
    this.say({ kind: 'ask', id: this.#asks, question })
    return answer.promise
  }

  /** Something threw where nobody could catch it: what is open cannot be trusted any more. */
  breakOff(error: unknown): void {
    this.#channel.write(jsonFrame({ kind: 'broken', error: toWire(error) }), () => process.kill(process.pid, 'SIGKILL'))
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), LAST_WORD_MS)
  }

  #settle(id: number): PromiseWithResolvers<unknown> | undefined {
    const answer = this.#asked.get(id)
    this.#asked.delete(id)
    return answer
  }
}

/** What is no SluiceError is a defect of the connector; its text may hold anything. */
export function toWire(error: unknown): WireError {
  if (isSluiceError(error)) return toWireError(error)
  const cause = error instanceof Error ? error : new Error(String(error))
  return toWireError(
    new SluiceError('INTERNAL', 'the connector itself failed', {
      code: 'connector_defect',
      remedy: 'Report it with the log of this process.',
      cause,
    }),
  )
}
