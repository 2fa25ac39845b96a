/** Starts things in order and stops them in the opposite one, whatever went wrong in between. */
import type { Logger } from '@sluice/sdk'

interface Started {
  readonly name: string
  stop(): Promise<void> | void
}

export class Lifecycle {
  readonly #started: Started[] = []
  readonly #logger: Logger
  #stopping: Promise<void> | null = null

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Starts one thing; it is stopped after everything that was started later. */
  async start<T>(name: string, start: () => Promise<T> | T, stop: (started: T) => Promise<void> | void): Promise<T> {
    const started = await start()
    this.#started.push({ name, stop: () => stop(started) })
    return started
  }

  /** Stops everything, the newest first; a failure is logged and the rest is stopped all the same. Repeatable. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll()
    return this.#stopping
  }

  async #stopAll(): Promise<void> {
    for (const { name, stop } of this.#started.reverse()) {
      try {
        await stop()
      } catch (error) {
        this.#logger.error(`stopping ${name} failed`, { error: (error as Error).message })
      }
    }
  }
}
