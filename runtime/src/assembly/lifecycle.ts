/**
 * Starts things in order and stops them in the opposite one, whatever went wrong in between. One deadline is for the whole
 * stop: what takes its time leaves less to what comes after it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '@sluice/sdk'

interface Started {
  readonly name: string
  stop(): Promise<void> | void
}

/** What everything has to stop in even where the deadline is over: to say goodbye, not to finish. */
const LEAST_MS = 1_000

/** Nobody who starts it waits longer without a word of what for, and of what takes longer it is said from time to time. */
const TELL_AFTER_MS = 1_000
const TELL_AGAIN_MS = 10_000

export class Lifecycle {
  readonly #started: Started[] = []
  readonly #logger: Logger
  readonly #tellAfterMs: number
  #stopping: Promise<void> | null = null
  #untilMs = Number.POSITIVE_INFINITY

  constructor(logger: Logger, tellAfterMs = TELL_AFTER_MS) {
    this.#logger = logger
    this.#tellAfterMs = tellAfterMs
  }

  /** Starts one thing; it is stopped after everything that was started later. */
  async start<T>(name: string, start: () => Promise<T> | T, stop: (started: T) => Promise<void> | void): Promise<T> {
    const started = await this.during(name, start)
    this.#started.push({ name, stop: () => stop(started) })
    return started
  }

  /** A part of the start that leaves nothing to stop. What takes long is told while it lasts. */
  async during<T>(name: string, work: () => Promise<T> | T): Promise<T> {
    const sinceMs = performance.now()
    const tell = () => {
      const seconds = Math.round((performance.now() - sinceMs) / 1000)
      this.#logger.info(`starting: ${name}`, { seconds })
      timer = setTimeout(tell, TELL_AGAIN_MS)
    }
    let timer = setTimeout(tell, this.#tellAfterMs)
    try {
      return await work()
    } finally {
      clearTimeout(timer)
    }
  }

  /** What is left of the time to stop in, but for `reserveMs`; never less than nothing. */
  leftMs(reserveMs = 0): number {
    return Math.max(0, this.#untilMs - reserveMs - performance.now())
  }

  /** From now on the time to stop in runs. The first call counts. */
  endWithin(ms: number): void {
    if (this.#untilMs === Number.POSITIVE_INFINITY) this.#untilMs = performance.now() + ms
  }

  /**
   * Stops everything, the newest first; what fails or takes longer than there is time is logged, and the rest is stopped
   * all the same. Repeatable.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll()
    return this.#stopping
  }

  async #stopAll(): Promise<void> {
    for (const { name, stop } of this.#started.reverse()) {
      try {
        await this.#inTime(stop)
      } catch (error) {
        this.#logger.error(`stopping ${name} failed`, { error: (error as Error).message })
      }
    }
  }

  async #inTime(stop: Started['stop']): Promise<void> {
    if (this.#untilMs === Number.POSITIVE_INFINITY) return stop()
    const over = new AbortController()
    const late = sleep(Math.max(LEAST_MS, this.leftMs()), undefined, { signal: over.signal }).then(() => {
      throw new Error('it took too long and was left behind')
    })
    // Told by the race, where it is lost; where it is won, the abort is nobody's error.
    late.catch(() => undefined)
    try {
      await Promise.race([stop(), late])
    } finally {
      over.abort()
    }
  }
}
