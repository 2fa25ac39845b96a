/**
 * Follows the changes of connections with a continuous schedule: waits for them at the source, and begins a run when they have
 * come. One job for each connection, which the runtime that waits for it holds by its lease; what is applied, and by which
 * runtime, is a run's like any. While nothing changes there is no run, no epoch and no process of the engine.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChangeNews, type ChangePosition, type ChangeStream, type Connector, isSluiceError } from '@sluice/sdk'
import type { DatabaseAddress } from '../../database/address.ts'
import { type Listener, openListener } from '../../database/listener.ts'
import { inTransaction } from '../../database/pools.ts'
import { changesNotSupported } from '../../ingestion/ingest-log.ts'
import { PUSH_TYPE } from '../../ingestion/push/settings.ts'
import { followed } from '../../ingestion/run-ingestion.ts'
import { tablesOf } from '../../ingestion/source-tables.ts'
import { Bell } from '../../jobs/bell.ts'
import { forgetJob, type Job, type NextDue, renewJob } from '../../jobs/claims.ts'
import { openUntil, whyNot } from '../../jobs/ticks.ts'
import type { JobKind } from '../../jobs/worker.ts'
import { capture, captureStreams, savePosition } from '../../registry/captures.ts'
import { type Connection, findConnection } from '../../registry/connections.ts'
import {
  FOLLOW_INPUT,
  followOf,
  type Hold,
  holdsOf,
  noteBehind,
  noteCaughtUp,
  noteFollowed,
  noteReached,
  noteUnfollowed,
} from '../../registry/follows.ts'
import { closeIncidents, openIncident } from '../../registry/incidents.ts'
import { pushedTables } from '../../registry/push-spool.ts'
import { pruneFollowing } from '../../registry/run-retention.ts'
import { enqueueRun, RUNS_CHANNEL } from '../../registry/runs.ts'
import { FOLLOW_JOB } from '../../registry/schedule-job.ts'
import {
  failuresOf,
  isContinuous,
  type LockedSchedule,
  lockSchedule,
  NO_FAILURES,
  noteTick,
} from '../../registry/schedules.ts'
import type { Transaction } from '../../registry/sql.ts'
import { openConnector } from '../connections/connections.ts'
import { readersOf } from '../products/input-reads.ts'
import type { RunsDeps } from './deps.ts'

/** Of a runtime that died: so long nobody follows its connections. */
const LEASE_MS = 15_000
/** The end of a run is told; where that was missed, it is looked for. */
const BUSY_MS = 2_000
/** With a tenant that is away, or nothing that could be followed. */
const LATER_MS = 10_000
/** Without news of the registry, until it is asked again. */
const WAIT_MS = 60_000
/**
 * At the source, until it is looked at anew from here. What its log has of others' tables it keeps for us until then, and a log that
 * was lost is found so.
 */
const SOURCE_WAIT_MS = 20_000
/** Where other connections wait for a place. */
const TURN_MS = 5_000
/** After something was wrong, until it counts as over. */
const PROOF_MS = 2_000
const ACK_MS = 10_000
const PRUNE_EVERY = 25
/** Failures one after the other of which somebody is told. */
const INCIDENT_AFTER = 2

type Step =
  | { readonly kind: 'end'; readonly next: NextDue }
  | { readonly kind: 'run' | 'busy' }
  | { readonly kind: 'gather'; readonly ms: number }
  | Wait

interface Wait {
  readonly kind: 'wait'
  readonly connection: Connection
  readonly capture: string
  readonly after: ChangePosition
  readonly streams: readonly ChangeStream[]
  /** Until something that failed is to be tried again. */
  readonly mostMs: number
}

const LATER: Step = { kind: 'end', next: { from: 'end', ms: LATER_MS } }

export interface FollowerOptions {
  readonly platform: RunsDeps
  /** Of the registry, for a connection that hears of runs. */
  readonly address: DatabaseAddress
  /** Connections that are waited for at once; others take turns. */
  readonly places: number
}

export class ConnectionFollower {
  readonly kind: JobKind
  readonly #platform: RunsDeps
  readonly #address: DatabaseAddress
  readonly #places: number
  /** By tenant. */
  readonly #bells = new Map<string, Set<Bell>>()
  #waiting = 0
  #listener: Listener | null = null

  constructor({ platform, address, places }: FollowerOptions) {
    this.#platform = platform
    this.#address = address
    this.#places = places
    this.kind = {
      kind: FOLLOW_JOB,
      places,
      leaseMs: LEASE_MS,
      failed: 'the changes of a connection could not be followed; it is tried again',
      backOff: { firstMs: 1_000, lastMs: 60_000 },
      work: (job, signal) => this.#work(job, signal),
    }
  }

  start(): void {
    const ringAll = () => {
      for (const tenant of this.#bells.keys()) this.#ring(tenant)
    }
    this.#listener = openListener(this.#address, {
      applicationName: 'sluice-follower',
      channels: { [RUNS_CHANNEL]: (tenant) => this.#ring(tenant) },
      onLost: () => undefined,
      onReady: ringAll,
    })
  }

  async stop(): Promise<void> {
    await this.#listener?.close()
  }

  #ring(tenant: string): void {
    for (const bell of this.#bells.get(tenant) ?? []) bell.ring()
  }

  async #work(job: Job, signal: AbortSignal): Promise<NextDue> {
    const tenant = job.tenant ?? ''
    const bell = new Bell()
    const bells = this.#bells.get(tenant) ?? new Set()
    this.#bells.set(tenant, bells.add(bell))
    const source = new FollowedSource(this.#platform)
    this.#waiting += 1
    let code: string | null = null
    try {
      return await this.#follow(job, source, bell, signal)
    } catch (error) {
      // Another runtime's, or nobody's any more.
      if (isSluiceError(error, 'FENCED')) return null
      if (!signal.aborted) {
        code = isSluiceError(error) ? error.code : 'internal_error'
        await this.#tellFailure(job, error, code)
      }
      throw error
    } finally {
      this.#waiting -= 1
      bells.delete(bell)
      if (bells.size === 0) this.#bells.delete(tenant)
      await source.close()
      // A registry that is away learns of it by the lease.
      if (source.wasOpened || code !== null) await noteUnfollowed(this.#platform.pool, job, code).catch(() => undefined)
    }
  }

  async #follow(job: Job, source: FollowedSource, bell: Bell, signal: AbortSignal): Promise<NextDue> {
    const { pool } = this.#platform
    let hasNews = false
    for (let begun = 0; ; ) {
      signal.throwIfAborted()
      bell.clear()
      const news = hasNews
      const step = await inTransaction(pool, (tx) => this.#look(tx, job, news), { signal })
      if (step.kind === 'end') return step.next
      if (step.kind === 'gather') {
        await sleep(step.ms, undefined, { signal })
        continue
      }
      if (step.kind !== 'wait') {
        if (step.kind === 'run') {
          begun += 1
          hasNews = false
          if (begun % PRUNE_EVERY === 0) await pruneFollowing(pool, job.key)
        }
        await bell.heard(BUSY_MS, signal)
        continue
      }
      const came = await this.#wait(job, step, source, bell, signal)
      if (came === null) continue
      if (came.kind === 'changed') hasNews = true
      else if (await this.#isCrowded()) return { from: 'end', ms: 0 }
      if (hasNews) await noteBehind(pool, job.key)
    }
  }

  /** What is to be done now. Whoever else would begin a run of the connection waits until it is known. */
  async #look(tx: Transaction, job: Job, hasNews: boolean): Promise<Step> {
    const row = await lockSchedule(tx, job.key)
    if (row === null || row.connectionId === null || !isContinuous(row.schedule)) {
      await forgetJob(tx, { kind: job.kind, key: job.key })
      return { kind: 'end', next: null }
    }
    await renewJob(tx, job, LEASE_MS)
    const until = openUntil((await failuresOf(tx, 'connection', [row.id])).get(row.id) ?? NO_FAILURES)
    const reason = whyNot(row, until)
    if (reason === 'run_in_progress') return { kind: 'busy' }
    if (reason !== null) {
      await noteTick(tx, row.id, { ...row, skipped: { at: row.now, reason } })
      return reason === 'backing_off' && until !== null ? { kind: 'end', next: { at: until } } : LATER
    }
    const connection = await findConnection(tx, row.tenant, row.connectionId)
    if (connection === null) return LATER
    return this.#next(tx, row, connection, { hasNews, maxDelayMs: row.schedule.maxDelayMs })
  }

  async #next(
    tx: Transaction,
    row: LockedSchedule,
    connection: Connection,
    { hasNews, maxDelayMs }: { readonly hasNews: boolean; readonly maxDelayMs: number },
  ): Promise<Step> {
    const tables = await wantedTables(tx, connection)
    if (tables.length === 0) return LATER
    const holds = await holdsOf(tx, connection.id)
    const open = withoutHeld(tables, holds)
    const again = holds.map(({ until }) => until.getTime() - row.now.getTime())
    const wait = connection.connectorType === PUSH_TYPE ? 'pushed' : await waitFor(tx, connection, open)
    const isPending =
      wait === 'pushed' ? (await pushedTables(tx, connection.id)).some((name) => open.includes(name)) : wait === null
    if (hasNews || isPending || again.some((ms) => ms <= 0)) {
      await noteBehind(tx, connection.id)
      const gatherMs = row.tickedAt.getTime() + maxDelayMs - row.now.getTime()
      // A clock that was set back counts for nothing.
      if (gatherMs > 0 && gatherMs <= maxDelayMs) return { kind: 'gather', ms: gatherMs }
      const { tenant, createdBy } = row
      const run = { tenant, trigger: 'schedule', createdBy, input: FOLLOW_INPUT } as const
      await enqueueRun(tx, { ...run, kind: 'ingestion', connectionId: connection.id })
      await noteTick(tx, row.id, { tickedAt: row.now, nextRunAt: row.now, skipped: null })
      return { kind: 'run' }
    }
    await noteCaughtUp(tx, connection.id)
    await noteFollowed(tx, connection.id)
    const mostMs = Math.min(SOURCE_WAIT_MS, ...again)
    // Whoever pushes rows asks for the job.
    if (wait === 'pushed' || wait === null)
      return { kind: 'end', next: again.length === 0 ? null : { from: 'end', ms: mostMs } }
    return { kind: 'wait', connection, ...wait, mostMs }
  }

  /** Null: something else is to be looked at first. */
  async #wait(
    job: Job,
    wait: Wait,
    source: FollowedSource,
    bell: Bell,
    signal: AbortSignal,
  ): Promise<ChangeNews | null> {
    const { pool } = this.#platform
    const failed = (await followOf(pool, job.key))?.errorCode ?? null
    const turnMs = this.#waiting >= this.#places ? TURN_MS : SOURCE_WAIT_MS
    const waitMs = Math.max(1, Math.min(wait.mostMs, turnMs, failed === null ? SOURCE_WAIT_MS : PROOF_MS))
    const left = new AbortController()
    const watching = this.#leaveFor(wait, bell, left, AbortSignal.any([signal, left.signal]))
    try {
      const news = await source.awaitChanges(wait, waitMs, AbortSignal.any([signal, left.signal]))
      if (failed !== null) await this.#tellReached(job.key, failed)
      if (news.kind === 'quiet' && news.position.order !== wait.after.order) {
        left.abort()
        await this.#movedOn(job, wait, news.position, source, signal)
      }
      return news
    } catch (error) {
      signal.throwIfAborted()
      if (left.signal.aborted) return null
      // The run begins it anew.
      if (isSluiceError(error) && error.code === 'position_lost') return { kind: 'changed' }
      throw error
    } finally {
      left.abort()
      await watching
    }
  }

  /** Ends the wait where a run of the connection is under way, which reads the log itself, or other tables are asked for. */
  async #leaveFor({ connection, streams }: Wait, bell: Bell, left: AbortController, ended: AbortSignal): Promise<void> {
    const { pool } = this.#platform
    const before = streams
      .map(({ schema, table }) => `${schema}.${table}`)
      .toSorted()
      .join()
    while (!ended.aborted) {
      bell.clear()
      await bell.heard(WAIT_MS, ended)
      if (ended.aborted) return
      const isAsBefore = await inTransaction(pool, async (tx) => {
        if (await isRunUnderWay(tx, connection.id)) return false
        const open = withoutHeld(await wantedTables(tx, connection), await holdsOf(tx, connection.id))
        return open.toSorted().join() === before
      }).catch(() => true)
      if (!isAsBefore) left.abort()
      // Runs of others of the tenant ring, too.
      else await sleep(QUIET_MS, undefined, { signal: ended }).catch(() => undefined)
    }
  }

  /** The log had nothing of ours: the source may forget it. First it is kept that we will not ask for it again. */
  async #movedOn(
    job: Job,
    { connection, capture: name, after }: Wait,
    position: ChangePosition,
    source: FollowedSource,
    signal: AbortSignal,
  ): Promise<void> {
    const { pool } = this.#platform
    const isOurs = async (tx: Transaction, at: ChangePosition): Promise<boolean> => {
      if ((await lockSchedule(tx, job.key)) === null) return false
      await renewJob(tx, job, LEASE_MS)
      if (await isRunUnderWay(tx, connection.id)) return false
      const known = (await capture(tx, connection.id))?.position
      return known?.lineage === at.lineage && known.order === at.order
    }
    await inTransaction(pool, async (tx) => {
      if (await isOurs(tx, after)) await savePosition(tx, connection.id, position)
    })
    // No run begins to read the log while the source is told.
    await inTransaction(pool, async (tx) => {
      if (!(await isOurs(tx, position))) return
      await source.ack(name, position, AbortSignal.any([signal, AbortSignal.timeout(ACK_MS)]))
    })
  }

  /** Others wait for a place here, or anywhere. */
  async #isCrowded(): Promise<boolean> {
    if (this.#waiting < this.#places) return false
    const { rows } = await this.#platform.pool.query(
      'select from jobs where kind = $1 and lease_until is null and due_at <= now() limit 1',
      [FOLLOW_JOB],
    )
    return rows.length > 0
  }

  async #tellFailure({ key, tenant, attempts }: Job, error: unknown, cause: string): Promise<void> {
    // A tenant that has used what it may is told so by its limits.
    if (attempts < INCIDENT_AFTER || tenant === null || isSluiceError(error, 'QUOTA')) return
    await inTransaction(this.#platform.pool, (tx) => openIncident(tx, tenant, { connectionId: key }, { cause })).catch(
      () => undefined,
    )
  }

  async #tellReached(connectionId: string, only: string): Promise<void> {
    await inTransaction(this.#platform.pool, async (tx) => {
      await noteReached(tx, connectionId)
      await closeIncidents(tx, { connectionId }, { only })
    })
  }
}

/** Between two looks at what a tenant's runs have changed. */
const QUIET_MS = 500

async function isRunUnderWay(tx: Transaction, connectionId: string): Promise<boolean> {
  const { rows } = await tx.query(
    `select from runs where connection_id = $1 and state in ('queued', 'running') limit 1`,
    [connectionId],
  )
  return rows.length > 0
}

/** Without those that failed by themselves and wait for another try. */
function withoutHeld(tables: readonly string[], holds: readonly Hold[]): readonly string[] {
  return tables.filter((name) => !holds.some(({ kind, part, isHeld }) => kind === 'table' && part === name && isHeld))
}

/** Tables that products in service read, and whose changes come by themselves. */
async function wantedTables(tx: Transaction, connection: Connection): Promise<readonly string[]> {
  const inputs = (await readersOf(tx, connection)).flatMap(({ manifests }) => manifests.inputs)
  const tables = tablesOf(inputs.filter((input) => input.connection === connection.name))
  return followed(connection, tables).map(({ name }) => name)
}

/** Null: a run has to read first what the log does not tell of. */
async function waitFor(
  tx: Transaction,
  connection: Connection,
  tables: readonly string[],
): Promise<Pick<Wait, 'capture' | 'after' | 'streams'> | null> {
  const known = await capture(tx, connection.id)
  if (known === null || known.position === null || known.spool.pieces > 0) return null
  const read = await captureStreams(tx, connection.id)
  const isRead = (name: string) => read.some(({ tableName, settled }) => tableName === name && settled)
  if (!tables.every(isRead)) return null
  const streams = read
    .filter(({ tableName }) => tables.includes(tableName))
    .map(({ tableName, primaryKey }) => {
      const dot = tableName.indexOf('.')
      return { schema: tableName.slice(0, dot), table: tableName.slice(dot + 1), primaryKey }
    })
  return { capture: known.name, after: known.position, streams }
}

/** The connection's source, open for as long as it is followed by the same settings. */
class FollowedSource {
  readonly #platform: RunsDeps
  /** Since this was made. */
  wasOpened = false
  #open: { readonly of: Connection; readonly connector: Connector } | null = null

  constructor(platform: RunsDeps) {
    this.#platform = platform
  }

  async awaitChanges(
    { connection, capture: name, after, streams }: Wait,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<ChangeNews> {
    if (this.#open !== null && this.#open.of.updatedAt.getTime() !== connection.updatedAt.getTime()) await this.close()
    this.wasOpened = true
    this.#open ??= { of: connection, connector: await openConnector(this.#platform, connection) }
    const { changes: source } = this.#open.connector
    if (source?.awaitChanges === undefined) throw changesNotSupported(connection.connectorType)
    return source.awaitChanges({ capture: name, after, streams, waitMs, signal })
  }

  async ack(name: string, position: ChangePosition, signal: AbortSignal): Promise<void> {
    await this.#open?.connector.changes?.ack({ capture: name, position, signal })
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = null
    await open?.connector.close()
  }
}
