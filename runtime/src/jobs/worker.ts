/**
 * Does jobs: one loop a runtime, for everything that is done by the clock beside runs. It claims what is due, renews the
 * lease while it is done, and notes when it is due again. Several runtimes share the jobs; what one that died had in hand
 * is another's when the lease ends.
 */
import { isSluiceError, type Logger } from '@sluice/sdk'
import type pg from 'pg'
import type { DatabaseAddress } from '../database/address.ts'
import { type Listener, openListener } from '../database/listener.ts'
import { Outage } from '../registry/outage.ts'
import { type BackOff, backOffMs } from './back-off.ts'
import { Bell } from './bell.ts'
import {
  claimJobs,
  delayJob,
  failJob,
  finishJob,
  forgetJob,
  JOBS_CHANNEL,
  type Job,
  type Lane,
  type NextDue,
  releaseJob,
  renewJob,
} from './claims.ts'

/** What is done with jobs of one kind. */
export interface JobKind {
  readonly kind: string
  /** Kinds of one lane share its places in a runtime. Default: a lane of its own. */
  readonly lane?: string
  /** How many jobs of its lane a runtime does at once, of all its kinds. Default 1. */
  readonly places?: number
  /**
   * The one job that is this runtime's, where each does its own; it goes when the runtime stops. Default: whichever is due.
   * Kinds of one lane have the same.
   */
  readonly key?: string
  /**
   * Repeatable: what fails, or is done twice by a runtime that froze, does no harm. Throws where it is to be tried again;
   * and with the signal's reason where that came.
   */
  work(job: Job, signal: AbortSignal): Promise<NextDue>
  /** When another runtime takes the job over from one that died. Kinds of one lane have the same. Default: that of all. */
  readonly leaseMs?: number
  /** How long a job waits after it failed. */
  readonly backOff: BackOff
  /** In the log, where a job has failed. */
  readonly failed: string
}

/** Notes jobs that are to be done and that nobody has noted: at the start, and from time to time. Repeatable. */
export interface JobSource {
  readonly everyMs: number
  enlist(signal: AbortSignal): Promise<void>
}

export type JobEnd = 'done' | 'failed' | 'released' | 'lost'

export interface JobWorkerOptions {
  readonly pool: pg.Pool
  /** Of the registry, for a connection that listens for the bell. Null: what is due is found by the clock alone. */
  readonly address: DatabaseAddress | null
  readonly logger: Logger
  readonly kinds: readonly JobKind[]
  readonly sources?: readonly JobSource[]
  /** Renewed at a third. Default 60 s. */
  readonly leaseMs?: number
  /** Between two looks at what is due; default 1 s. */
  readonly pollMs?: number
  onEnded?(kind: string, end: JobEnd): void
}

const LEASE_MS = 60_000
const POLL_MS = 1_000

class Stopping extends Error {}

export class JobWorker {
  readonly #options: JobWorkerOptions
  readonly #kinds: ReadonlyMap<string, JobKind>
  readonly #lanes: ReadonlyMap<string, Lane & { readonly places: number }>
  readonly #busy = new Map<string, Set<Promise<void>>>()
  readonly #enlistedMs = new Map<JobSource, number>()
  readonly #bell = new Bell()
  readonly #stop = new AbortController()
  #listener: Listener | null = null
  #loop: Promise<void> | null = null
  readonly #outage = new Outage()
  readonly #sourceOutages = new Map<JobSource, Outage>()

  constructor(options: JobWorkerOptions) {
    this.#options = options
    this.#kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]))
    this.#lanes = lanesOf(options.kinds)
  }

  start(): void {
    const { address } = this.#options
    if (address !== null) {
      const channels = { [JOBS_CHANNEL]: this.#bell.ring }
      const onLost = () => undefined
      this.#listener = openListener(address, {
        applicationName: 'sluice-jobs',
        channels,
        onLost,
        onReady: this.#bell.ring,
      })
    }
    this.#loop = this.#run()
  }

  /** Ends what is under way at its next step, and gives it back. Repeatable. */
  async stop(): Promise<void> {
    this.#stop.abort(new Stopping('the runtime stops'))
    await this.#loop
    await Promise.all([...this.#busy.values()].flatMap((jobs) => [...jobs]))
    await this.#listener?.close()
    for (const { kind, key } of this.#kinds.values()) {
      // What a runtime that died has left is removed by the others.
      if (key !== undefined) await forgetJob(this.#options.pool, { kind, key }).catch(() => undefined)
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      this.#bell.clear()
      if ((await this.#begun(signal)) === 0) await this.#bell.heard(this.#options.pollMs ?? POLL_MS, signal)
    }
  }

  /** How many jobs were begun. */
  async #begun(signal: AbortSignal): Promise<number> {
    try {
      await this.#enlist(signal)
      const lanes = [...this.#lanes]
        .filter(([name, { places }]) => (this.#busy.get(name)?.size ?? 0) < places)
        .map(([, { places: _, ...lane }]) => lane)
      if (lanes.length === 0) return 0
      const jobs = await claimJobs(this.#options.pool, lanes, this.#leaseMs())
      for (const job of jobs) this.#begin(job)
      this.#outage.over()
      return jobs.length
    } catch (error) {
      if (!signal.aborted) {
        this.#outage.tell(() => this.#warn('jobs could not be looked for; it is tried again', error))
      }
      return 0
    }
  }

  /** One source's failure keeps no job of the others waiting. */
  async #enlist(signal: AbortSignal): Promise<void> {
    for (const source of this.#options.sources ?? []) {
      if (
        signal.aborted ||
        performance.now() < (this.#enlistedMs.get(source) ?? Number.NEGATIVE_INFINITY) + source.everyMs
      )
        continue
      this.#enlistedMs.set(source, performance.now())
      const outage = this.#sourceOutages.get(source) ?? new Outage()
      this.#sourceOutages.set(source, outage)
      try {
        await source.enlist(signal)
        outage.over()
      } catch (error) {
        if (!signal.aborted) outage.tell(() => this.#warn('jobs could not be noted; it is tried again', error))
      }
    }
  }

  #begin(job: Job): void {
    const kind = this.#kinds.get(job.kind) as JobKind
    const lane = laneOf(kind)
    const busy = this.#busy.get(lane) ?? new Set()
    const done = this.#do(kind, job).finally(() => {
      busy.delete(done)
      this.#bell.ring()
    })
    this.#busy.set(lane, busy.add(done))
  }

  async #do(kind: JobKind, job: Job): Promise<void> {
    try {
      const end = await this.#outcome(kind, job)
      this.#options.onEnded?.(job.kind, end)
    } catch (error) {
      // The lease ends by itself, and the job is begun again.
      this.#warn('the end of a job could not be noted', error, job)
    }
  }

  async #outcome(kind: JobKind, job: Job): Promise<JobEnd> {
    const { pool } = this.#options
    if (job.isTakenOver && job.attempts > 1) {
      await delayJob(pool, job, backOffMs(job.attempts - 1, kind.backOff))
      return 'failed'
    }
    const held = new AbortController()
    const leaseMs = kind.leaseMs ?? this.#leaseMs()
    const renewal = setInterval(() => void this.#renew(job, held, leaseMs), leaseMs / 3)
    const signal = AbortSignal.any([this.#stop.signal, held.signal])
    try {
      const next = await kind.work(job, signal)
      return (await finishJob(pool, job, next)) ? 'done' : 'lost'
    } catch (error) {
      if (held.signal.aborted) return 'lost'
      if (this.#stop.signal.aborted) {
        await releaseJob(pool, job)
        return 'released'
      }
      this.#warn(kind.failed, error, job)
      await failJob(pool, job, error, backOffMs(job.attempts, kind.backOff))
      return 'failed'
    } finally {
      clearInterval(renewal)
    }
  }

  async #renew(job: Job, held: AbortController, leaseMs: number): Promise<void> {
    try {
      await renewJob(this.#options.pool, job, leaseMs)
    } catch (error) {
      // Without an answer nobody knows: it is asked again, and what the job writes is fenced by itself.
      if (isSluiceError(error, 'FENCED')) held.abort(error)
    }
  }

  #leaseMs(): number {
    return this.#options.leaseMs ?? LEASE_MS
  }

  #warn(message: string, error: unknown, job?: Job): void {
    const about = job === undefined ? {} : { job: job.kind, key: job.key }
    const code = isSluiceError(error) ? { code: error.code } : {}
    const text = error instanceof Error ? error.message : String(error)
    this.#options.logger.warn(message, { ...about, ...code, error: text })
  }
}

const laneOf = ({ kind, lane }: JobKind): string => lane ?? kind

function lanesOf(kinds: readonly JobKind[]): ReadonlyMap<string, Lane & { readonly places: number }> {
  const lanes = new Map<string, Lane & { readonly places: number }>()
  for (const kind of kinds) {
    const { kinds: others, places } = lanes.get(laneOf(kind)) ?? { kinds: [], places: 1 }
    const { key, leaseMs } = kind
    const own = { ...(key === undefined ? {} : { key }), ...(leaseMs === undefined ? {} : { leaseMs }) }
    lanes.set(laneOf(kind), { kinds: [...others, kind.kind], places: Math.max(places, kind.places ?? 1), ...own })
  }
  return lanes
}
