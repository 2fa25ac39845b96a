/** The further processes that serve HTTP: started, given connections, started anew where one ends, and ended with the first. */
import { type ChildProcess, fork } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isSluiceError, type Logger, SluiceError } from '@sluice/sdk'
import type { Config } from '../config.ts'
import type { Reception, Seat } from '../http/reception.ts'
import { FURTHER_PROCESS } from './further-command.ts'
import { type ChannelEars, ProcessChannel } from './process-channel.ts'
import type { Databases } from './storage.ts'
import type { OptionalCalls } from './store-elsewhere.ts'

const LAUNCHER = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../bin/sluice.js' : '../../../bin/sluice.js', import.meta.url),
)

const FIRST_WAIT_MS = 100
const LAST_WAIT_MS = 30_000
/** What has run for so long has not ended by what ended it the last time. */
const STEADY_MS = 60_000
/** Who asks for metrics waits no longer for a process that is held up. */
const SCRAPE_MS = 2_000

/** Who has been asked to end what it has begun says so a little after its time at the latest; who does not is held up. */
const SAYS_MS = 250

/** Far longer than a connection takes to reach a process that is not held up. */
const LOOK_AFTER_MS = 500

/** Until it is said that rows could not be forgotten. */
const FORGET_MS = 60_000

/** All that a further process needs to know. It is told, and not read again: the file may be another by now. */
export interface Begin {
  /** As the first process has it, undivided. */
  readonly config: Config
  readonly index: number
  readonly url: string
  readonly stores: OptionalCalls
  readonly databases: Pick<Databases, 'registry' | 'serving'> & {
    readonly embedded: Pick<NonNullable<Databases['embedded']>, 'address' | 'tcpAddress'> | null
  }
}

export interface FurtherOptions {
  readonly begin: Omit<Begin, 'index'>
  readonly reception: Reception
  readonly logger: Logger
  /** What they may ask the first one. */
  readonly answers: ChannelEars['answers']
  /** Removes what one that has ended wrote for itself alone. */
  clear(index: number): Promise<void>
  /** A whole line of the log of one of them. */
  relay(line: string, index: number): void
}

interface HowItEnded {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

interface Running {
  readonly child: ChildProcess
  readonly channel: ProcessChannel
  readonly ended: Promise<HowItEnded>
  seat: Seat | null
  /** The last connection that it was given. */
  given: number
  isLookedAfter: boolean
}

export class FurtherProcesses {
  readonly #options: FurtherOptions
  readonly #running = new Map<number, Running>()
  /** What those that have ended wrote for themselves goes: before another takes the place, and before an erasure is proved. */
  readonly #clearing = new Map<number, Promise<void>>()
  readonly #stopping = new AbortController()
  #keeping: readonly Promise<void>[] = []
  /** How often one that ended by itself was started anew. */
  restarts = 0

  constructor(options: FurtherOptions) {
    this.#options = options
  }

  /** Resolves when all serve; rejected, with none left, where one does not start. */
  async start(): Promise<void> {
    const { processes } = this.#options.begin.config.http
    const indices = Array.from({ length: processes - 1 }, (_, at) => at + 2)
    const started = await Promise.allSettled(indices.map((index) => this.#start(index)))
    const failed = started.find((one) => one.status === 'rejected')
    if (failed !== undefined) {
      await this.stop(0)
      throw failed.reason
    }
    this.#keeping = indices.map((index) => this.#keep(index))
  }

  /** How many serve now. */
  get serving(): number {
    return [...this.#running.values()].filter(({ seat }) => seat !== null).length
  }

  /** Of those that answer in time. */
  async metrics(): Promise<readonly string[]> {
    const late = sleep(SCRAPE_MS, null, { ref: false })
    const asked = this.#serving().map(({ channel }) =>
      // One that ends meanwhile has no metrics.
      Promise.race([channel.ask<string>('metrics', null).catch(() => null), late]),
    )
    return (await Promise.all(asked)).filter((text) => text !== null)
  }

  /** Resolves when none keeps rows of the tenant on disk, those that have ended neither. Rejected where one is held up for too long. */
  async forgetRows(tenant: string): Promise<void> {
    const late = sleep(FORGET_MS, 'late', { ref: false })
    const forgotten = this.#serving().map(async ({ channel, ended }) => {
      try {
        await channel.ask('forget', tenant)
      } catch (error) {
        ignoreGone(error)
        await ended
      }
    })
    if ((await Promise.race([Promise.all(forgotten), late])) === 'late') throw heldUp()
    await Promise.all(this.#clearing.values())
  }

  drain(): void {
    for (const { channel } of this.#serving()) channel.tell('drain', null)
  }

  /** Lets requests under way end for up to that long. One that is held up is killed then: the time to stop in is of all. */
  async end(graceMs: number): Promise<void> {
    await Promise.all(
      this.#serving().map(async ({ child, channel }) => {
        const late = sleep(graceMs + SAYS_MS, 'late' as const, { ref: false })
        const said = channel.ask('end', graceMs).catch(ignoreGone)
        if ((await Promise.race([said, late])) === 'late') child.kill('SIGKILL')
      }),
    )
  }

  /** What has not ended by then is killed. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort()
    await Promise.all(
      [...this.#running.values()].map(async ({ child, channel, ended }) => {
        channel.tell('stop', graceMs)
        const late = sleep(graceMs, 'late' as const, { ref: false })
        if ((await Promise.race([ended, late])) === 'late') child.kill('SIGKILL')
        await ended
      }),
    )
    await Promise.all(this.#keeping)
  }

  #serving(): readonly Running[] {
    return [...this.#running.values()].filter(({ seat }) => seat !== null)
  }

  async #start(index: number): Promise<void> {
    const { begin, reception, answers, logger } = this.#options
    // Whoever takes the place removes what is left there.
    await this.#clearing.get(index)?.catch(() => undefined)
    this.#stopping.signal.throwIfAborted()
    const child = fork(LAUNCHER, [FURTHER_PROCESS], {
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      serialization: 'advanced',
      // Another debugger could not listen where the first one's does.
      execArgv: process.execArgv.filter((flag) => !flag.startsWith('--inspect')),
    })
    this.#relay(child, index)
    const seatOf = () => running.seat
    const hears = {
      // What this process has of it is of no use any more.
      taken: (id: number) => seatOf()?.taken(id)?.destroy(),
      left: (id: number) => seatOf()?.left(id),
    }
    const channel = new ProcessChannel(child, { answers, hears })
    const ended = endOf(child)
    const running: Running = { child, channel, ended, seat: null, given: 0, isLookedAfter: false }
    this.#running.set(index, running)
    void ended.then(() => {
      running.seat?.remove()
      running.seat = null
      this.#clear(index)
    })
    child.on('error', (error) => logger.error('a process that serves cannot be reached', { error: error.message }))
    try {
      await channel.ask('begin', { ...begin, index } satisfies Begin)
    } catch (error) {
      child.kill('SIGKILL')
      await ended
      this.#running.delete(index)
      throw error
    }
    this.#clearing.delete(index)
    running.seat = reception.admit((socket, id) => {
      channel.tell('connection', id, socket)
      running.given = id
      if (!running.isLookedAfter) void this.#lookAfter(running)
    })
  }

  /** Until it has taken what it was given: of a connection that does not reach it the system tells neither end. */
  async #lookAfter(running: Running): Promise<void> {
    running.isLookedAfter = true
    try {
      do {
        await sleep(LOOK_AFTER_MS, undefined, { ref: false })
        const { given } = running
        // What was told before has been heard when this is answered.
        if (running.seat?.isAwaited) await running.channel.ask('hear', null)
        running.seat?.heard(given)
      } while (running.seat?.isAwaited)
    } catch (error) {
      // What it was given goes to others when it has ended.
      ignoreGone(error)
    } finally {
      running.isLookedAfter = false
    }
  }

  /** Until the runtime stops. */
  async #keep(index: number): Promise<void> {
    const { signal } = this.#stopping
    for (let waitMs = FIRST_WAIT_MS; !signal.aborted; ) {
      const sinceMs = performance.now()
      const how = await this.#running.get(index)?.ended
      if (signal.aborted) return
      const told = { process: index, ...how }
      this.#options.logger.error('a process that serves has ended by itself; another takes its place', told)
      if (performance.now() - sinceMs > STEADY_MS) waitMs = FIRST_WAIT_MS
      for (let isBack = false; !isBack && !signal.aborted; waitMs = Math.min(2 * waitMs, LAST_WAIT_MS)) {
        isBack = await this.#startAgain(index, waitMs)
      }
    }
  }

  /** False: it is to be tried again, unless the runtime stops. */
  async #startAgain(index: number, waitMs: number): Promise<boolean> {
    const { logger } = this.#options
    try {
      await sleep(waitMs, undefined, { signal: this.#stopping.signal })
      await this.#start(index)
      this.restarts += 1
      logger.warn('a process that serves works again', { process: index })
      return true
    } catch (error) {
      if (this.#stopping.signal.aborted) return false
      logger.error('a process that serves could not be started; it is tried again', {
        process: index,
        error: (error as Error).message,
        ...(isSluiceError(error) ? { code: error.code, remedy: error.remedy } : {}),
      })
      return false
    }
  }

  #clear(index: number): void {
    const clearing = this.#options.clear(index)
    this.#clearing.set(index, clearing)
    // An erasure is told of it, and whoever takes the place tries again.
    clearing.catch(() => undefined)
  }

  #relay(child: ChildProcess, index: number): void {
    // Without one where the system has no room for a pipe.
    if (!child.stderr) return
    createInterface({ input: child.stderr }).on('line', (line) => this.#options.relay(line, index))
  }
}

/** Never rejects: one that the system does not start has ended, too. Why is told to who asks it something, and in the log. */
function endOf(child: ChildProcess): Promise<HowItEnded> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    if (child.pid === undefined) resolve({ code: null, signal: null })
  })
}

function heldUp(): SluiceError {
  return new SluiceError('TRANSIENT', 'a process that serves does not answer', {
    code: 'process_held_up',
    remedy: 'End it, by its number in the log or in a list of processes: another takes its place.',
  })
}

/** One that has ended has nothing to answer, and none of what it was asked about. */
function ignoreGone(error: unknown): void {
  if (!isSluiceError(error) || error.code !== 'process_gone') throw error
}
