import { setTimeout as sleep } from 'node:timers/promises'

/** Remembers a ring that came while nobody listened, so that none is lost between looking and waiting. */
export class Bell {
  #rung = false
  #wake: (() => void) | null = null

  readonly ring = (): void => {
    this.#rung = true
    this.#wake?.()
  }

  clear(): void {
    this.#rung = false
  }

  /** Resolves with a ring since `clear`, the time or the signal, whichever comes first. One listener at a time. */
  async heard(atMostMs: number, signal: AbortSignal): Promise<void> {
    if (this.#rung) return
    const rung = new AbortController()
    this.#wake = () => rung.abort()
    // A ring and the signal end the sleep by aborting it.
    await sleep(atMostMs, undefined, { signal: AbortSignal.any([signal, rung.signal]) }).catch(() => undefined)
    this.#wake = null
  }
}
