/** One writer at a time for each dataset; a newer one sends an older one away. */
import { SluiceError } from '@sluice/sdk'
import { fenced } from '../keyed-values/admission.ts'

export interface Turn {
  readonly fence: bigint
  /** Throws FENCED once a newer writer has asked for the turn, TRANSIENT once the store is closing. */
  check(): void
}

interface Running {
  readonly fence: bigint
  isOvertaken: boolean
  readonly ended: Promise<void>
}

/** Below every writer’s token: what the store does on its own account gives way to a writer. */
export const OWN_WORK = -1n

export class Turns {
  readonly #running = new Map<string, Running>()
  #isClosing = false

  /** Waits for the writer before it, which ends at its next step if its token is older. */
  async take<T>(prefix: string, fence: bigint, run: (turn: Turn) => Promise<T>): Promise<T> {
    for (let before = this.#running.get(prefix); before; before = this.#running.get(prefix)) {
      if (before.fence < fence) before.isOvertaken = true
      await before.ended
    }
    if (this.#isClosing) throw closing()
    const { promise, resolve } = Promise.withResolvers<void>()
    const running: Running = { fence, isOvertaken: false, ended: promise }
    this.#running.set(prefix, running)
    try {
      return await run({ fence, check: () => this.#check(running) })
    } finally {
      this.#running.delete(prefix)
      resolve()
    }
  }

  isFree(prefix: string): boolean {
    return !this.#running.has(prefix)
  }

  #check(running: Running): void {
    if (running.isOvertaken) throw fenced()
    if (this.#isClosing) throw closing()
  }

  /** Ends running writes at their next step. */
  async close(): Promise<void> {
    this.#isClosing = true
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
  }
}

function closing(): SluiceError {
  return new SluiceError('TRANSIENT', 'the realtime store is closing', { code: 'store_closing' })
}
