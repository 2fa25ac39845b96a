/**
 * The process behind the catalogue: begun when somebody uses it, ended when nobody has for a while. Its folder stays meanwhile, so
 * that it comes back with the databases that it had, under the numbers that clients have read there.
 */
import type { Logger } from '@sluice/sdk'
import type { EmbeddedServer } from '../../database/embedded-server.ts'

export interface Begun {
  readonly server: EmbeddedServer
  /** Of its one login of statements. */
  readonly password: string
  /** By name, asked longest ago first. */
  readonly databases: Map<string, Promise<void>>
}

type Kept = Omit<Begun, 'server'>

export interface RestingServerOptions {
  /** Since its last use. */
  readonly idleMs: number
  /** On what it left when it was ended, or where that is false on an empty folder. Rejects where it does not start. */
  start(isKept: boolean): Promise<EmbeddedServer>
  /** Makes of a new one what is used, and returns the password of its one login. */
  prepare(server: EmbeddedServer): Promise<string>
  readonly logger: Logger
}

export class RestingServer {
  readonly #options: RestingServerOptions
  #begun: Promise<Begun> | null = null
  /** Of the one that rests. */
  #kept: Kept | null = null
  /** Until what is being ended has ended: the folder is one server's at a time. */
  #ended: Promise<void> = Promise.resolve()
  /** The last that was started, whose folder is there. */
  #last: EmbeddedServer | null = null
  #uses = 0
  #idle: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: RestingServerOptions) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Keeps it from being ended. Returns what says that the use is over, which may be repeated. */
  use(): () => void {
    clearTimeout(this.#idle)
    this.#uses += 1
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#uses -= 1
      if (this.#uses === 0) this.#idle = setTimeout(() => this.#rest(), this.#options.idleMs).unref()
    }
  }

  /** Begun where it is not. Only within a use of it; rejects where it does not start. */
  begun(): Promise<Begun> {
    this.#begun ??= this.#begin()
    return this.#begun
  }

  /** For good, with its folder. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#idle)
    // Where it did not start there is nothing to end.
    await this.#begun?.catch(() => null)
    await this.#ended
    await this.#last?.destroy()
  }

  #begin(): Promise<Begun> {
    const begun = this.#wokenOrNew()
    // Where it did not start, or has ended unasked, whoever comes next begins another.
    const forget = (): void => {
      if (this.#begun === begun) this.#begun = null
    }
    begun.then(({ server }) => server.ended.then(forget), forget)
    return begun
  }

  async #wokenOrNew(): Promise<Begun> {
    await this.#ended
    return (await this.#woken()) ?? (await this.#new())
  }

  /** Null where none rests, or its folder is as nobody left it. */
  async #woken(): Promise<Begun | null> {
    const kept = this.#kept
    this.#kept = null
    if (kept === null) return null
    try {
      return { server: await this.#start(true), ...kept }
    } catch (error) {
      this.#options.logger.warn('the PostgreSQL of the catalogue is made anew, as it did not start on what it had', {
        error: error instanceof Error ? error.message : String(error),
      })
      return null
    }
  }

  async #new(): Promise<Begun> {
    const server = await this.#start(false)
    try {
      return { server, password: await this.#options.prepare(server), databases: new Map() }
    } catch (error) {
      await server.destroy()
      throw error
    }
  }

  async #start(isKept: boolean): Promise<EmbeddedServer> {
    const server = await this.#options.start(isKept)
    this.#last = server
    return server
  }

  /** Whoever comes from here on waits for its end, and begins it again. */
  #rest(): void {
    const begun = this.#begun
    if (begun === null || this.#isClosed) return
    this.#begun = null
    this.#ended = this.#end(begun)
  }

  async #end(begun: Promise<Begun>): Promise<void> {
    // Whoever asked for one that did not start was told.
    const resting = await begun.catch(() => null)
    if (resting === null) return
    const { server, ...kept } = resting
    await server.stop()
    this.#kept = kept
    this.#options.logger.info('the PostgreSQL of the catalogue was ended, as nobody has asked it for a while')
  }
}
