/**
 * Takes runs from the registry, a bounded number of each kind at a time, and sees them to an end that is recorded. No tenant
 * has all places of a kind where there are two or more, so that what runs for long keeps nobody else waiting.
 */
import { randomUUID } from 'node:crypto'
import { isSluiceError, type Logger, type SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { recordedError } from '../materializer/materialize.ts'
import {
  type ClaimedRun,
  claimRun,
  finishRun,
  type RunOutcome,
  releaseRun,
  renewLease,
  retryRunLater,
} from '../registry/run-claims.ts'
import { RUN_KINDS, RUNS_CHANNEL, type RunKind } from '../registry/runs.ts'

export interface WorkerDeps {
  readonly pool: pg.Pool
  readonly logger: Logger
  /** Runs at once of each kind; of two or more a tenant has one less at most. */
  readonly slots: number
  readonly leaseMs: number
  /** Does the run's work; what it returns is kept as the run's result. */
  execute(claimed: ClaimedRun, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>>
  /** Tells of the end of a run, in words for clients. */
  onFinished?(claimed: ClaimedRun, outcome: RunOutcome): Promise<void>
  /** Called about once a second when there is time: stores that wait for another try. */
  onIdle?(signal: AbortSignal): Promise<void>
}

const POLL_MS = 1_000
const RETRY_MS = 2_000

/** Another moment may give another outcome; anything else fails at once, with its remedy. */
function isWorthRetrying(error: SluiceError): boolean {
  return error.kind === 'TRANSIENT' || error.code === 'lake_commit_conflict'
}

interface Running {
  readonly tenant: string
  readonly kind: RunKind
  readonly controller: AbortController
  readonly done: Promise<void>
}

class Cancelled extends Error {}
class Stopping extends Error {}

export class Worker {
  readonly #deps: WorkerDeps
  readonly #id = `${process.pid}-${randomUUID().slice(0, 8)}`
  readonly #running = new Map<string, Running>()
  readonly #stop = new AbortController()
  #wake: () => void = () => {}
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
    const ends = [...this.#running.values()].map((run) => run.done)
    const timer = setTimeout(() => {
      for (const run of this.#running.values()) run.controller.abort(new Stopping())
    }, graceMs)
    await Promise.allSettled(ends)
    clearTimeout(timer)
    this.#listener?.release(true)
  }

  async #listen(): Promise<pg.PoolClient | null> {
    try {
      const client = await this.#deps.pool.connect()
      client.on('notification', () => this.#wake())
      client.on('error', () => {
        this.#listener = null
      })
      await client.query(`listen ${RUNS_CHANNEL}`)
      return client
    } catch {
      // Polling goes on without it.
      return null
    }
  }

  async #work(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const claimed = await this.#claim()
      if (claimed) this.#begin(claimed)
      else {
        await this.#idle()
        await this.#pause()
      }
    }
  }

  async #claim(): Promise<ClaimedRun | null> {
    const kinds = this.#kindsWithRoom()
    if (kinds.length === 0) return null
    const except = Object.fromEntries(kinds.map((kind) => [kind, this.#tenantsWithEnough(kind)]))
    try {
      return await claimRun(this.#deps.pool, { workerId: this.#id, leaseMs: this.#deps.leaseMs, kinds, except })
    } catch (error) {
      this.#deps.logger.warn('no run could be claimed', { error: (error as Error).message })
      return null
    }
  }

  #tenantsOf(kind: RunKind): readonly string[] {
    return [...this.#running.values()].filter((run) => run.kind === kind).map(({ tenant }) => tenant)
  }

  #kindsWithRoom(): readonly RunKind[] {
    return RUN_KINDS.filter((kind) => this.#tenantsOf(kind).length < this.#deps.slots)
  }

  #tenantsWithEnough(kind: RunKind): readonly string[] {
    const most = Math.max(1, this.#deps.slots - 1)
    const tenants = this.#tenantsOf(kind)
    return [...new Set(tenants)].filter((tenant) => tenants.filter((other) => other === tenant).length >= most)
  }

  async #idle(): Promise<void> {
    if (!this.#deps.onIdle || this.#kindsWithRoom().length === 0) return
    try {
      await this.#deps.onIdle(this.#stop.signal)
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#deps.logger.warn('idle work failed', { error: (error as Error).message })
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, POLL_MS)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
      if (this.#stop.signal.aborted) this.#wake()
    })
  }

  #begin(claimed: ClaimedRun): void {
    const controller = new AbortController()
    const done = this.#run(claimed, controller).finally(() => {
      this.#running.delete(claimed.run.id)
      this.#wake()
    })
    const { id, tenant, kind } = claimed.run
    this.#running.set(id, { tenant, kind, controller, done })
  }

  async #run(claimed: ClaimedRun, controller: AbortController): Promise<void> {
    const renewal = setInterval(() => void this.#renew(claimed, controller), this.#deps.leaseMs / 3)
    try {
      const result = await this.#deps.execute(claimed, controller.signal)
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
