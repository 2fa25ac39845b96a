/**
 * One instant for every read of an opened connector: one session, whose transaction began with a snapshot, reads one table after
 * the other. Neither product lends a snapshot to another session.
 */
import { orAbort } from '../server/deadline.ts'
import { momentLost } from '../server/failure.ts'
import { errnoOf } from './failure.ts'
import type { Session } from './session.ts'

/** The table was altered or made anew after the snapshot. */
const DEFINITION_CHANGED = 1412

export class Moment {
  #session: Session | null = null
  #isRead = false
  #isLost = false
  #turn: Promise<void> = Promise.resolve()

  /** Waits until nobody else reads; to be followed by `end` or `fail`, then by `leave`. */
  async take(
    open: () => Promise<Session>,
    signal: AbortSignal,
  ): Promise<{ readonly session: Session; readonly leave: () => void }> {
    const before = this.#turn
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#turn = promise
    await orAbort(signal, before).catch((error: unknown) => {
      // Whoever waits for this one waits for those before it.
      void before.then(resolve)
      throw error
    })
    try {
      if (this.#isLost) throw momentLost(null)
      if (this.#session === null) {
        this.#session = await open()
        await this.#session.begin()
      }
      return { session: this.#session, leave: resolve }
    } catch (error) {
      await this.fail()
      resolve()
      throw error
    }
  }

  /** A read has ended well. */
  end(): void {
    this.#isRead = true
  }

  /** A read has not come to its end, and the session is of no use. What was read before it is of a moment that is gone. */
  async fail(): Promise<void> {
    const session = this.#session
    this.#session = null
    this.#isLost = this.#isRead
    await session?.close()
  }

  /** What a read failed by, where that was the moment. */
  told(error: unknown): unknown {
    return errnoOf(error) === DEFINITION_CHANGED ? momentLost(error) : error
  }
}
