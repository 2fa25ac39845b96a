import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isSluiceError, type SluiceError } from '@sluice/sdk'
import { type JobPlace, toChildJob, toStatement } from './child-job.ts'
import { type ChildProgram, EngineChild } from './engine-child.ts'
import { type Grounds, groundsOf, type TenantFolders } from './grounds.ts'
import { Inspections, inspectionKey } from './inspections.ts'
import type { EngineJob, EngineRun, EngineSession, SessionJob } from './job.ts'
import { cancelledError, isStreamed, JobRun, type KeptOutput, timeoutError } from './job-run.ts'
import { accessSet, KeptChild } from './kept-child.ts'
import { Results, resultKey } from './results.ts'
import { RoomWatch } from './room-watch.ts'
import { twiceAtMost } from './second-try.ts'
import { ChildSession } from './session.ts'
import { SpillFolders } from './spill-folders.ts'
import { Staging } from './staging.ts'
import {
  busyError,
  ChildPool,
  closedError,
  LateStart,
  type PoolLimits,
  type PoolLoad,
  type TakenChild,
} from './walls/child-pool.ts'
import { memoryWatchWall } from './walls/memory-watch.ts'
import { pipeOpener } from './walls/pipe.ts'
import { UserIds } from './walls/user-ids.ts'
import type { Wall, WallName } from './walls/walls.ts'

/** Runs jobs in child processes; the engine itself never opens a database. */
export interface Engine {
  /**
   * Runs one job in a child of its own. Fulfilled when its steps are done and the output's columns are known; without
   * a streamed output when all is done. Rejected with a SluiceError: `sql_*`, `table_not_found`, `query_timeout`,
   * `query_memory_exceeded`, `query_cancelled`, `query_result_too_large`, `engine_busy`, `cpu_time_spent`; where the engine itself fails,
   * `engine_crashed`, or `query_failed` of a tenant's job, which is tried twice. May be repeated: a job that failed has
   * left nothing behind but what an own job's statements wrote themselves.
   */
  run(job: EngineJob, signal: AbortSignal): Promise<EngineRun>
  /** Runs an own job in a child that stays for requests over the same files. Rejected as `run` is. May be repeated. */
  open(job: SessionJob, signal: AbortSignal): Promise<EngineSession>
  /** The walls that the last tenant's child had put up. Empty before the first one, and before `probe`. */
  walls(): readonly Wall[]
  /** Starts a tenant's child for nothing but to see its walls. */
  probe(signal: AbortSignal): Promise<readonly Wall[]>
  /** Ends every child, those with a job too. */
  close(): Promise<void>
}

/** Who pays for the CPU time of jobs: asked before one is begun, told while its child lives. */
export interface JobAccounts {
  /** Throws where the owner of a job may ask for nothing more now. */
  refuseSpent(owner: string): void
  /** Who pays for what is begun here; null: nobody. */
  payerOf(owner: string | null): string | null
  /** @param seconds of all of the child's threads, since this was told last */
  charge(payer: string | null, process: 'engine', seconds: number): void
}

export interface EngineOptions extends PoolLimits, ChildProgram {
  /** A folder for spill files of own jobs; made when missing. */
  readonly scratchDir: string
  /**
   * Only as root: the first of `maxChildren` user ids that tenants' children run under, one each. They own nothing and
   * need no entry in /etc/passwd. Default 60800, from a range that Linux distributions leave unused.
   */
  readonly firstUserId?: number
  /** Whose work it is, and who may have no more of it now. Absent: nothing is counted. */
  readonly accounts?: JobAccounts
  /** Room for answers of tenants' statements that are given again while their tables are the same. Default: none are kept. */
  readonly resultBytes?: number
  /** Where `keepMs` is given: children of own jobs over the files of one tenant stay for further such jobs. Default: none do. */
  readonly tenantFolders?: TenantFolders
  /** Without these a tenant's job is refused (`walls_missing`). Default: none. */
  readonly neededWalls?: readonly WallName[]
}

/** Long enough for a store to ask for the next rows, short enough to keep no place from others. */
const SESSION_IDLE_MS = 1_000
const DEFAULT_FIRST_USER_ID = 60_800
const PROBE_LIMITS = { memoryBytes: 128 * 1024 * 1024, timeoutMs: 120_000, threads: 1 } as const

/** An engine whose children are its own. */
export interface PooledEngine extends Engine {
  load(): PoolLoad
}

export function createEngine(options: EngineOptions): PooledEngine {
  return new ChildEngine(options)
}

class ChildEngine implements PooledEngine {
  readonly #pool: ChildPool<EngineChild>
  readonly #spills: SpillFolders
  readonly #users: UserIds | null
  readonly #neededWalls: readonly WallName[]
  readonly #accounts: JobAccounts | null
  readonly #keeps: boolean
  readonly #tenantFolders: TenantFolders | null
  readonly #results: Results | null
  readonly #inspections = new Inspections()
  readonly #sessions = new Set<ChildSession>()
  readonly #kept = new WeakMap<EngineChild, KeptChild>()
  readonly #scratchOf = new WeakMap<EngineChild, string>()
  readonly #removals = new Set<Promise<void>>()
  #opened = 0
  #walls: readonly Wall[] = []

  constructor(options: EngineOptions) {
    const openPipe = pipeOpener()
    const onWait = () => {
      for (const session of this.#sessions) session.giveWay()
    }
    this.#pool = new ChildPool(() => new EngineChild(openPipe, options), { ...options, onWait })
    this.#neededWalls = options.neededWalls ?? []
    this.#accounts = options.accounts ?? null
    this.#keeps = options.keepMs !== undefined
    this.#tenantFolders = (this.#keeps ? options.tenantFolders : undefined) ?? null
    this.#results = options.resultBytes ? new Results(options.resultBytes) : null
    this.#spills = new SpillFolders(options.scratchDir)
    const isRoot = process.getuid?.() === 0
    this.#users = isRoot ? new UserIds(options.firstUserId ?? DEFAULT_FIRST_USER_ID) : null
  }

  async run(job: EngineJob, signal: AbortSignal): Promise<EngineRun> {
    // What asks for rows; a text that is only looked at takes next to nothing, and may be what mends the others.
    if (job.tenant !== undefined && isStreamed(job.output)) this.#accounts?.refuseSpent(job.tenant)
    const inspection = inspectionKey(job)
    const known = inspection === null ? null : this.#known(this.#inspections, inspection, signal)
    if (known !== null) return known
    // Once for both: it is made of all the names of files.
    const set = this.#results !== null || this.#keeps ? accessSet(job) : null
    if (inspection !== null) return this.#inspect(inspection, job, set, signal)
    if (this.#results === null || set === null) return await this.#try(job, set, signal)
    const key = resultKey(set, job)
    const kept = this.#known(this.#results, key, signal)
    if (kept !== null) return kept
    const run = await this.#try(job, set, signal)
    return run.isStable === true ? this.#results.kept(key, run) : run
  }

  /** Of a shape the child may stay, for the statement itself that comes next. */
  async #inspect(key: string, job: EngineJob, set: string | null, signal: AbortSignal): Promise<EngineRun> {
    const run = await this.#try(job, set, signal)
    this.#inspections.keep(key, run)
    return run
  }

  /** Who may ask for nothing more is not told what is known either. */
  #known(kept: { get(key: string): EngineRun | null }, key: string, signal: AbortSignal): EngineRun | null {
    if (this.#pool.closed) throw closedError()
    if (signal.aborted) throw cancelledError(signal.reason)
    return kept.get(key)
  }

  async #try(job: EngineJob, set: string | null, signal: AbortSignal): Promise<EngineRun> {
    const deadline = AbortSignal.timeout(job.limits.timeoutMs)
    const grounds = this.#groundsOf(job)
    if (grounds !== null) return this.#runOnGrounds(job, grounds, deadline, signal)
    // An input can be read once only.
    if (job.trust === 'own' || job.csvInput !== undefined) return this.#run(job, null, deadline, signal)
    // The second try has a child of its own.
    const sets = [this.#keeps ? set : null]
    return twiceAtMost(() => this.#run(job, sets.pop() ?? null, deadline, signal), isStreamed(job.output))
  }

  /** @param set which tables a child must have been given to be taken again; null: a new child, which ends */
  async #run(job: EngineJob, set: string | null, deadline: AbortSignal, signal: AbortSignal): Promise<EngineRun> {
    const { child, isKept, queuedMs } = await this.#take(job, set, deadline, signal)
    if (!isKept) this.#count(job, child)
    let staging: Staging | null = null
    try {
      if (job.output?.kind === 'parquet-files') staging = await Staging.open(job.output.dir)
      const kept = set === null ? null : this.#keptAs(child, set, job)
      const run = new JobRun(child, job, {
        late: () => lateError(job.limits.timeoutMs, queuedMs),
        walls: (walls) => this.#seen(walls),
        keep: async (files) => (await staging?.keep(files)) ?? [],
        ...(kept === null ? {} : { kept: this.#keptOutput(job, child, kept) }),
      })
      if (isKept) return await run.start(toStatement(job), null, deadline, signal)
      const place = { tempDir: await this.#tempDir(job, child), stagingDir: staging?.dir ?? null }
      const room = await openRoom(job, place)
      const process = { ...place, userId: this.#userFor(job, child), neededWalls: this.#neededWalls }
      const childJob = { ...toChildJob(job, process), mark: kept?.mark ?? null }
      return await run.start({ kind: 'job', job: childJob }, room, deadline, signal)
    } catch (error) {
      child.kill()
      await child.ended
      throw this.#pool.closed ? closedError(error) : error
    } finally {
      await staging?.discard()
    }
  }

  /** In a child that may be there from another such job, and is there for the next. */
  async #runOnGrounds(
    job: EngineJob,
    grounds: Grounds,
    deadline: AbortSignal,
    signal: AbortSignal,
  ): Promise<EngineRun> {
    // The pipe of an input can be read once in a child's life.
    const kind = job.csvInput === undefined ? grounds.kind : null
    const { child, isKept, queuedMs } = await this.#take(job, kind, deadline, signal)
    if (!isKept) this.#count(job, child)
    try {
      const kept = this.#keptAs(child, grounds.kind, job)
      const run = new JobRun(child, job, {
        late: () => lateError(job.limits.timeoutMs, queuedMs),
        walls: () => undefined,
        keep: async () => [],
        frees: () => this.#free(child, job, kept),
      })
      const place = { tempDir: await this.#ownScratch(child), stagingDir: null }
      const childJob = { ...toChildJob(job, { ...place, userId: null, neededWalls: this.#neededWalls }), grounds }
      const room = await openRoom(job, place)
      return await run.start({ kind: 'job', job: childJob }, room, deadline, signal)
    } catch (error) {
      child.kill()
      await child.ended
      throw this.#pool.closed ? closedError(error) : error
    }
  }

  async open(job: SessionJob, signal: AbortSignal): Promise<EngineSession> {
    const deadline = AbortSignal.timeout(job.limits.timeoutMs)
    const grounds = this.#groundsOf(job)
    const { child, isKept, queuedMs } = await this.#take(job, grounds?.kind ?? null, deadline, signal)
    if (!isKept) this.#count(job, child)
    try {
      const kept = grounds === null ? null : this.#keptAs(child, grounds.kind, job)
      const tempDir = await this.#ownScratch(child)
      const directory = join(tempDir, `session-${this.#opened++}`)
      await mkdir(directory, { mode: 0o700 })
      const failed = new AbortController()
      const run = new JobRun(child, job, {
        late: () => lateError(job.limits.timeoutMs, queuedMs),
        walls: () => undefined,
        keep: async () => [],
        stays: (reason) => failed.abort(reason),
      })
      const process = { tempDir, stagingDir: null, userId: null, neededWalls: this.#neededWalls }
      const childJob = { ...toChildJob(job, process), stays: true, grounds }
      const { results } = await run.start({ kind: 'job', job: childJob }, null, deadline, signal)
      const session = new ChildSession(results, {
        child,
        directory,
        timeoutMs: job.limits.timeoutMs,
        idleMs: job.idleMs ?? SESSION_IDLE_MS,
        failed: failed.signal,
        release: () => {
          if (kept === null || !run.release()) return false
          this.#free(child, job, kept)
          return true
        },
        isWanted: () => this.#pool.load.waiting > 0,
      })
      this.#sessions.add(session)
      void session.ended.then(() => this.#sessions.delete(session))
      return session
    } catch (error) {
      child.kill()
      await child.ended
      throw this.#pool.closed ? closedError(error) : error
    }
  }

  walls(): readonly Wall[] {
    return this.#walls
  }

  load(): PoolLoad {
    return this.#pool.load
  }

  async probe(signal: AbortSignal): Promise<readonly Wall[]> {
    await this.run({ trust: 'tenant', steps: [{ sql: 'SELECT 1' }], limits: PROBE_LIMITS }, signal)
    return this.#walls
  }

  async close(): Promise<void> {
    await this.#pool.close()
    await Promise.all(this.#removals)
  }

  /** What is known of the child that this set's statements run in. */
  #keptAs(child: EngineChild, set: string, job: EngineJob): KeptChild {
    const known = this.#kept.get(child) ?? new KeptChild(set, child.pid, job)
    // Nothing may ever bring a statement to a child that has other tables: better no answer.
    if (known.set !== set) throw new Error('an engine process was given a statement over other tables than its own')
    this.#kept.set(child, known)
    return known
  }

  #keptOutput(job: EngineJob, child: EngineChild, kept: KeptChild): KeptOutput {
    return { mark: Buffer.from(kept.mark, 'base64'), free: () => this.#free(child, job, kept) }
  }

  #free(child: EngineChild, job: EngineJob, kept: KeptChild): void {
    if (kept.goesOn()) this.#pool.giveBack(child, job.tenant ?? null, kept.set)
    else child.kill()
  }

  #groundsOf(job: EngineJob): Grounds | null {
    if (this.#tenantFolders === null) return null
    return groundsOf(job, this.#tenantFolders, this.#accounts?.payerOf(job.tenant ?? null) ?? null)
  }

  async #take(
    job: EngineJob,
    set: string | null,
    deadline: AbortSignal,
    signal: AbortSignal,
  ): Promise<TakenChild<EngineChild>> {
    try {
      return await this.#pool.take(job.tenant ?? null, deadline, signal, set)
    } catch (error) {
      if (this.#pool.closed) throw closedError(error)
      if (signal.aborted) throw cancelledError(error)
      if (deadline.aborted && job.limits.timeoutMs < SHORTEST_WAIT_MS) throw timeoutError(job.limits.timeoutMs)
      if (isSluiceError(error)) throw error
      if (error instanceof LateStart) throw lateError(job.limits.timeoutMs, error.queuedMs)
      if (deadline.aborted) throw timeoutError(job.limits.timeoutMs)
      throw error
    }
  }

  #count(job: EngineJob, child: EngineChild): void {
    const accounts = this.#accounts
    if (accounts === null) return
    const payer = accounts.payerOf(job.tenant ?? null)
    child.cpu.tell((seconds) => accounts.charge(payer, 'engine', seconds))
  }

  #seen(walls: readonly Wall[]): void {
    this.#walls = [...walls, memoryWatchWall()]
  }

  #userFor(job: EngineJob, child: EngineChild): number | null {
    if (!this.#users || job.trust === 'own') return null
    const userId = this.#users.take()
    void child.ended.then(() => this.#users?.giveBack(userId))
    return userId
  }

  async #tempDir(job: EngineJob, child: EngineChild): Promise<string | null> {
    return job.trust !== 'own' || job.limits.tempBytes === undefined ? null : this.#scratch(child)
  }

  /** One for all jobs of the child. */
  async #ownScratch(child: EngineChild): Promise<string> {
    const dir = this.#scratchOf.get(child) ?? (await this.#scratch(child))
    this.#scratchOf.set(child, dir)
    return dir
  }

  /** A folder that is gone soon after the child. */
  async #scratch(child: EngineChild): Promise<string> {
    const dir = await this.#spills.make()
    // What cannot be removed now is cleared away by the next runtime.
    const removal = child.ended.then(() => rm(dir, { recursive: true, force: true })).catch(() => undefined)
    this.#removals.add(removal)
    void removal.then(() => this.#removals.delete(removal))
    return dir
  }
}

/** Whoever gives a statement less time than this has asked for too little, however short it had to wait. */
const SHORTEST_WAIT_MS = 250

/** A statement that had to wait for most of its time was not slow itself; whoever reads less is not helped. */
function lateError(timeoutMs: number, queuedMs: number): SluiceError {
  if (timeoutMs < SHORTEST_WAIT_MS || queuedMs <= timeoutMs / 2) return timeoutError(timeoutMs)
  return busyError('the engine was busy with other statements for most of the time')
}

async function openRoom(
  job: EngineJob,
  { tempDir, stagingDir }: Pick<JobPlace, 'tempDir' | 'stagingDir'>,
): Promise<RoomWatch | null> {
  const { room } = job.limits
  if (room === undefined) return null
  const written = [...(job.writeDirs ?? []), ...(stagingDir === null ? [] : [stagingDir])]
  return RoomWatch.open(room, { written, spill: tempDir })
}
