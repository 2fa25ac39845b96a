/**
 * One session of an open connector, handed from call to call: a small sync of a log makes five calls one after the other, and a
 * login costs each of them more than its statements. Nothing of one call is left in it for the next.
 */
import type { Clock } from '@sluice/sdk'
import type { Session } from './session.ts'

/** A source has few places for sessions: so long one is held for nothing. */
export const IDLE_MS = 2_000

export class KeptSession {
  readonly #clock: Clock
  #idle: Session | null = null
  #stopWatch: () => void = () => undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Null where there is none, or the server has ended it meanwhile. */
  take(signal: AbortSignal): Session | null {
    const session = this.#idle
    this.#forget()
    return session?.goOnFor(signal) === true ? session : null
  }

  /** In place of `close`, by a call that has ended well: the session is as after a login, and waits for the next call. */
  async giveBack(session: Session): Promise<void> {
    const isClear = this.#idle === null && (await session.clear())
    // Another call may have left its own while this one was cleared.
    if (!isClear || this.#idle !== null) return session.close()
    this.#idle = session
    this.#stopWatch = this.#clock.every(IDLE_MS, () => {
      this.#forget()
      void session.close()
    })
  }

  #forget(): void {
    this.#stopWatch()
    this.#idle = null
  }
}
