/**
 * Takes runs from the registry, a bounded number of each kind at a time, and sees them to an end that is recorded. No tenant
 * has all places of a kind where there are two or more, so that what runs for long keeps nobody else waiting. An ingestion
 * that has come to its transforms changes places: the one that it had is the next ingestion's.
 */
import { randomUUID } from 'node:crypto'
import { isSluiceError, type Logger, type SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { recordedError } from '../registry/deployments.ts'
import { leftBy } from '../registry/left-runs.ts'
import { Outage } from '../registry/outage.ts'
import {
  type ClaimedRun,
  claimRun,
  enterTransforms,
  finishRun,
  leavePlace,
  type RunOutcome,
  releaseRun,
  renewLease,
  retryRunLater,
} from '../registry/run-claims.ts'
import { RUN_KINDS, RUNS_CHANNEL, type RunKind } from '../registry/runs.ts'

/** Of one run. */
export interface RunPlace {
  /**
   * Gives the place for ingestions back and waits for one among materializations; at once where it has one. Rejected with
   * the reason of the run's signal.
   */
  readonly toTransforms: () => Promise<void>
}

export interface WorkerDeps {
  readonly pool: pg.Pool
  readonly logger: Logger
  /** Runs at once of each kind; of two or more a tenant has one less at most. */
  readonly slots: number
  readonly leaseMs: number
  /** Does the run's work; what it returns is kept as the run's result. */
  execute(claimed: ClaimedRun, signal: AbortSignal, place: RunPlace): Promise<Readonly<Record<string, unknown>>>
  /** Tells of the end of a run, in words for clients. */
  onFinished?(claimed: ClaimedRun, outcome: RunOutcome): Promise<void>
}

const POLL_MS = 1_000
const RETRY_MS = 2_000

/** Another moment may give another outcome; anything else fails at once, with its remedy. */
export function isWorthRetrying(error: SluiceError): boolean {
  return error.kind === 'TRANSIENT' || error.code === 'lake_commit_conflict'
}

/**
 * Ingestions of a worker that may wait for a place among transforms without a place of their own: what they hold is a
 * lease, which is renewed. Those above it keep the place for ingestions meanwhile.
 */
const MAX_PARKED = 64
const MAX_PARKED_OF_ONE = 16

interface Running {
  readonly tenant: string
  /** A wave has left products to it. */
  readonly isLeft: boolean
  /** What it has a place for; null while it waits for one. */
  place: RunKind | null
  readonly controller: AbortController
  done: Promise<void>
}

/** An ingestion that waits for a place among transforms. */
interface Waiting {
  readonly claimed: ClaimedRun
  readonly running: Running
  readonly enter: () => void
}

class Cancelled extends Error {}
class Stopping extends Error {}

export class Worker {
  readonly #deps: WorkerDeps
  readonly #id = `${process.pid}-${randomUUID().slice(0, 8)}`
  readonly #outage = new Outage()
  readonly #running = new Map<string, Running>()
  /** Whoever has waited longest comes first. */
  readonly #waiting: Waiting[] = []
  /** So that the next place goes to one of them, and the one after it to a run that is queued. */
  #isTurnOfWaiting = false
  #isWoken = false
  readonly #stop = new AbortController()
  #resume: () => void = () => {}
  #loop: Promise<void> | null = null
  #stopped: Promise<void> | null = null
  #listener: pg.PoolClient | null = null

  constructor(deps: WorkerDeps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    this.#listener = await this.#listen()
    this.#loop = this.#work()
  }

  /** Takes nothing new, gives running work back within `graceMs`, and returns when nothing runs. The first call counts. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#end(graceMs)
    return this.#stopped
  }

  async #end(graceMs: number): Promise<void> {
    this.#stop.abort(new Stopping())
    this.#wake()
    await this.#loop
    for (const { running } of [...this.#waiting]) running.controller.abort(new Stopping())
    const ends = [...this.#running.values()].map((run) => run.done)
    const timer = setTimeout(() => {
      for (const run of this.#running.values()) run.controller.abort(new Stopping())
    }, graceMs)
    await Promise.allSettled(ends)
    clearTimeout(timer)
    const listener = this.#listener
    this.#listener = null
    listener?.release(true)
  }

  async #listen(): Promise<pg.PoolClient | null> {
    let client: pg.PoolClient | null = null
    try {
      const opened = await this.#deps.pool.connect()
      client = opened
      opened.on('notification', () => this.#wake())
      // One that is kept of the pool is waited for when that closes: for ever, where nobody gives it back.
      opened.once('error', (error) => {
        if (this.#listener !== opened) return
        this.#listener = null
        opened.release(error)
      })
      await opened.query(`listen ${RUNS_CHANNEL}`)
      return opened
    } catch {
      client?.release(true)
      // Polling goes on without it, and it is tried again.
      return null
    }
  }

  async #work(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      if ((await this.#giveOne()) || (await this.#parkOne())) continue
      this.#listener ??= await this.#listen()
      await this.#pause()
    }
  }

  /** One place to one run. For those among transforms, ingestions that have come to theirs take turns with queued runs. */
  async #giveOne(): Promise<boolean> {
    if (this.#isTurnOfWaiting && (await this.#admitOne())) {
      this.#isTurnOfWaiting = false
      return true
    }
    const kinds = this.#kindsWithRoom()
    const claimed = await this.#claim(kinds)
    // A place that was given back meanwhile has not been offered to queued runs, whose turn it may be.
    if (claimed === null) return kinds.includes('materialization') && this.#admitOne()
    this.#begin(claimed)
    if (claimed.run.kind === 'materialization') this.#isTurnOfWaiting = true
    return true
  }

  async #admitOne(): Promise<boolean> {
    if (!this.#kindsWithRoom().includes('materialization')) return false
    const passed = new Set(this.#tenantsWithEnough('materialization'))
    const transforms = this.#tenantsOf('materialization')
    const busy = ({ running }: Waiting) => transforms.filter((tenant) => tenant === running.tenant).length
    for (const waiting of this.#waiting.toSorted((one, other) => busy(one) - busy(other))) {
      const { tenant } = waiting.running
      if (passed.has(tenant)) continue
      if (await this.#mayTransform(waiting)) {
        waiting.enter()
        return true
      }
      passed.add(tenant)
    }
    return false
  }

  async #mayTransform({ claimed, running }: Waiting): Promise<boolean> {
    try {
      return (await enterTransforms(this.#deps.pool, claimed.lease)) && !running.controller.signal.aborted
    } catch (error) {
      const { message } = error as Error
      this.#outage.tell(() => this.#deps.logger.warn('no place for transforms could be taken', { error: message }))
      return false
    }
  }

  /** Where there is no place among transforms yet: that for ingestions is the next one's. */
  async #parkOne(): Promise<boolean> {
    const parked = this.#waiting.filter(({ running }) => running.place === null)
    if (parked.length >= MAX_PARKED) return false
    const isFull = (tenant: string) =>
      parked.filter(({ running }) => running.tenant === tenant).length >= MAX_PARKED_OF_ONE
    const next = this.#waiting.find(({ running }) => running.place !== null && !isFull(running.tenant))
    if (next === undefined) return false
    next.running.place = null
    // The tier counts it no more, either. A lease that is lost is found out by its renewal.
    await leavePlace(this.#deps.pool, next.claimed.lease).catch(() => undefined)
    return true
  }

  /** What the loop above gives. */
  async #toTransforms(claimed: ClaimedRun, running: Running): Promise<void> {
    const { signal } = running.controller
    signal.throwIfAborted()
    // A worker that stops gives no places any more: what is under way goes on for as long as there is time.
    if (running.place === 'materialization' || this.#stop.signal.aborted) return
    const { promise: entered, resolve, reject } = Promise.withResolvers<void>()
    const leave = () => reject(signal.reason)
    const enter = () => {
      running.place = 'materialization'
      resolve()
    }
    const waiting: Waiting = { claimed, running, enter }
    signal.addEventListener('abort', leave, { once: true })
    this.#waiting.push(waiting)
    this.#wake()
    try {
      await entered
    } finally {
      signal.removeEventListener('abort', leave)
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
    }
  }

  async #claim(kinds: readonly RunKind[]): Promise<ClaimedRun | null> {
    if (kinds.length === 0) return null
    const except = Object.fromEntries(kinds.map((kind) => [kind, this.#tenantsWithEnough(kind)]))
    try {
      const claimed = await claimRun(this.#deps.pool, {
        workerId: this.#id,
        leaseMs: this.#deps.leaseMs,
        kinds,
        except,
        exceptLeft: this.#tenantsWithEnoughLeft(),
      })
      this.#outage.over()
      return claimed
    } catch (error) {
      this.#outage.tell(() => this.#deps.logger.warn('no run could be claimed', { error: (error as Error).message }))
      return null
    }
  }

  #tenantsOf(kind: RunKind): readonly string[] {
    return [...this.#running.values()].filter((run) => run.place === kind).map(({ tenant }) => tenant)
  }

  #kindsWithRoom(): readonly RunKind[] {
    return RUN_KINDS.filter((kind) => this.#tenantsOf(kind).length < this.#deps.slots)
  }

  #tenantsWithEnough(kind: RunKind): readonly string[] {
    const most = Math.max(1, this.#deps.slots - 1)
    const tenants = this.#tenantsOf(kind)
    return [...new Set(tenants)].filter((tenant) => tenants.filter((other) => other === tenant).length >= most)
  }

  /** What products are left to leaves a place to the waves that do not wait for it, where the tenant has two or more. */
  #tenantsWithEnoughLeft(): readonly string[] {
    const most = Math.max(1, this.#deps.slots - 2)
    const tenants = [...this.#running.values()].filter(({ isLeft }) => isLeft).map(({ tenant }) => tenant)
    return [...new Set(tenants)].filter((tenant) => tenants.filter((other) => other === tenant).length >= most)
  }

  /** Also where it is told to before it pauses. */
  #wake(): void {
    this.#isWoken = true
    this.#resume()
  }

  async #pause(): Promise<void> {
    if (!this.#isWoken && !this.#stop.signal.aborted) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, POLL_MS)
        this.#resume = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#isWoken = false
  }

  #begin(claimed: ClaimedRun): void {
    const { id, tenant, kind } = claimed.run
    const controller = new AbortController()
    const isLeft = leftBy(claimed.run) !== null
    const running: Running = { tenant, isLeft, place: kind, controller, done: Promise.resolve() }
    this.#running.set(id, running)
    running.done = this.#run(claimed, running).finally(() => {
      this.#running.delete(id)
      this.#wake()
    })
  }

  async #run(claimed: ClaimedRun, running: Running): Promise<void> {
    const { controller } = running
    const toTransforms = () => this.#toTransforms(claimed, running)
    const renewal = setInterval(() => void this.#renew(claimed, controller), this.#deps.leaseMs / 3)
    try {
      const result = await this.#deps.execute(claimed, controller.signal, { toTransforms })
      await this.#finish(claimed, { state: 'succeeded', result })
    } catch (error) {
      await this.#fail(claimed, controller.signal.aborted ? controller.signal.reason : error)
    } finally {
      clearInterval(renewal)
    }
  }

  async #renew(claimed: ClaimedRun, controller: AbortController): Promise<void> {
    try {
      const { cancelRequested } = await renewLease(this.#deps.pool, claimed.lease, this.#deps.leaseMs)
      if (cancelRequested) controller.abort(new Cancelled())
    } catch (error) {
      if (isSluiceError(error, 'FENCED')) controller.abort(error)
    }
  }

  async #fail(claimed: ClaimedRun, error: unknown): Promise<void> {
    const { logger } = this.#deps
    try {
      if (isSluiceError(error, 'FENCED') && error.code === 'fenced') {
        // Either somebody else has the run, or a deploy has fenced the product: the latter is computed again.
        await retryRunLater(this.#deps.pool, claimed.lease, recordedError(error), 0).catch(() => undefined)
      } else if (error instanceof Stopping) await releaseRun(this.#deps.pool, claimed.lease)
      else if (error instanceof Cancelled) await this.#finish(claimed, { state: 'cancelled' })
      else if (isSluiceError(error) && isWorthRetrying(error)) {
        const wait = error.retryAfterMs ?? RETRY_MS * 2 ** Math.min(claimed.run.attempt, 6)
        const run = await retryRunLater(this.#deps.pool, claimed.lease, recordedError(error), wait)
        if (run.state === 'failed')
          await this.#deps.onFinished?.(claimed, { state: 'failed', error: recordedError(error) })
      } else await this.#finish(claimed, { state: 'failed', error: recordedError(error) })
    } catch (failure) {
      logger.warn('the end of a run could not be recorded', { run: claimed.run.id, error: (failure as Error).message })
    }
    if (!isSluiceError(error) && !(error instanceof Stopping) && !(error instanceof Cancelled)) {
      logger.error('a run failed unexpectedly', { run: claimed.run.id, error: (error as Error)?.stack })
    } else if (isSluiceError(error)) {
      const cause = error.cause instanceof Error ? error.cause.message : undefined
      logger.warn('a run ended early', { run: claimed.run.id, code: error.code, message: error.message, cause })
    }
  }

  async #finish(claimed: ClaimedRun, outcome: RunOutcome): Promise<void> {
    await finishRun(this.#deps.pool, claimed.lease, outcome)
    await this.#deps.onFinished?.(claimed, outcome)
  }
}
