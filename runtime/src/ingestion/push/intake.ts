/**
 * Takes rows that are pushed into the registry. Requests of one connection that come while others are written are written
 * together, in one transaction: they share its cost, and however many come, a connection has one session of the registry.
 */
import { createHash } from 'node:crypto'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../../database/pools.ts'
import type { FaultPoint } from '../../fault-points.ts'
import { hurryJob, hurryNow, ringForJobs } from '../../jobs/claims.ts'
import type { MasterKeys } from '../../registry/master-keys.ts'
import {
  lockPushSpool,
  type NewPush,
  type PushedAnswer,
  type PushKey,
  type PushSpool,
  pushedBefore,
  storePushes,
} from '../../registry/push-spool.ts'
import { FOLLOW_JOB } from '../../registry/schedule-job.ts'
import type { Transaction } from '../../registry/sql.ts'
import type { PushedRows } from './changes.ts'

/** The job that begins a run for rows that were pushed; its key is the connection. */
export const PUSH_JOB = 'push'

export interface PushLimits {
  /** That a connection may have in the registry. */
  readonly rows: number
  readonly bytes: number
  /** Answers that are kept of a connection. */
  readonly keys: number
  readonly keepKeysMs: number
  /** How long after rows came a run begins. */
  readonly syncAfterMs: number
}

export interface PushRequest extends PushedRows {
  readonly tenant: string
  readonly connectionId: string
  /** Of the connection whose settings say what the rows are. */
  readonly changedAt: Date
  readonly table: string
  readonly key: PushKey | null
  readonly signal: AbortSignal
}

export interface Stored {
  readonly answer: PushedAnswer
  /** It had been stored before, by a request with the same key. */
  readonly isReplay: boolean
}

interface Pending {
  readonly request: PushRequest
  readonly settle: PromiseWithResolvers<Stored>
}

const WRITTEN_AT_ONCE = 4
const REQUESTS_AT_ONCE = 100
const BYTES_AT_ONCE = 8 * 1024 * 1024
const WAITING_BYTES = 64 * 1024 * 1024
const RETRY_MS = 1_000

export class PushIntake {
  readonly #pool: pg.Pool
  readonly #masters: MasterKeys
  readonly #limits: PushLimits
  readonly #faultPoint: FaultPoint
  /** By connection, those that wait; one that is written has an entry, be it empty. */
  readonly #waiting = new Map<string, Pending[]>()
  /** Connections whose turn has not come. */
  readonly #turns: string[] = []
  #writing = 0
  #waitingBytes = 0

  constructor(deps: {
    readonly pool: pg.Pool
    readonly masters: MasterKeys
    readonly limits: PushLimits
    readonly faultPoint: FaultPoint
  }) {
    this.#pool = deps.pool
    this.#masters = deps.masters
    this.#limits = deps.limits
    this.#faultPoint = deps.faultPoint
  }

  /**
   * Settles once the rows are durable, or are found to have been. Throws CONFLICT `idempotency_key_reused` and
   * `connection_changed`, QUOTA `push_full` and `push_busy`, INVALID_DATA `connection_not_found`.
   */
  store(request: PushRequest): Promise<Stored> {
    if (this.#waitingBytes + request.changes.length > WAITING_BYTES) throw busy()
    this.#waitingBytes += request.changes.length
    const pending = { request, settle: Promise.withResolvers<Stored>() }
    const waiting = this.#waiting.get(request.connectionId)
    if (waiting === undefined) {
      this.#waiting.set(request.connectionId, [pending])
      this.#turns.push(request.connectionId)
      this.#next()
    } else waiting.push(pending)
    return pending.settle.promise.finally(() => {
      this.#waitingBytes -= request.changes.length
    })
  }

  #next(): void {
    while (this.#writing < WRITTEN_AT_ONCE) {
      const connectionId = this.#turns.shift()
      if (connectionId === undefined) return
      this.#writing += 1
      void this.#write(this.#taken(connectionId)).finally(() => {
        this.#writing -= 1
        if (this.#waiting.get(connectionId)?.length === 0) this.#waiting.delete(connectionId)
        else this.#turns.push(connectionId)
        this.#next()
      })
    }
  }

  #taken(connectionId: string): readonly Pending[] {
    const waiting = this.#waiting.get(connectionId) ?? []
    let count = 0
    let bytes = 0
    while (count < Math.min(waiting.length, REQUESTS_AT_ONCE) && (count === 0 || bytes < BYTES_AT_ONCE)) {
      bytes += waiting[count]?.request.changes.length ?? 0
      count += 1
    }
    return waiting.splice(0, count)
  }

  /** Never rejected: what fails is told to those who wait. */
  async #write(taken: readonly Pending[]): Promise<void> {
    const wanted = taken.filter(({ request, settle }) => {
      if (request.signal.aborted) settle.reject(request.signal.reason)
      return !request.signal.aborted
    })
    const [first] = wanted
    if (first === undefined) return
    try {
      await this.#faultPoint('push.before-store')
      const outcomes = await inTransaction(this.#pool, (tx) => this.#storeAll(tx, first.request, wanted))
      await this.#faultPoint('push.stored')
      for (const [index, outcome] of outcomes.entries()) {
        const { settle } = wanted[index] as Pending
        if (isSluiceError(outcome)) settle.reject(outcome)
        else settle.resolve(outcome)
      }
    } catch (error) {
      for (const { settle } of wanted) settle.reject(error)
    }
  }

  async #storeAll(
    tx: Transaction,
    place: PushRequest,
    wanted: readonly Pending[],
  ): Promise<readonly (Stored | SluiceError)[]> {
    const spool = await lockPushSpool(tx, place)
    if (spool === null) return wanted.map(() => connectionGone())
    const hashes = wanted.flatMap(({ request: { key } }) => (key === null ? [] : [key.keyHash]))
    const former = hashes.length === 0 ? [] : await pushedBefore(tx, place.connectionId, hashes)
    const known = new Map(former.map((kept) => [kept.keyHash.toString('hex'), kept]))
    const filling = new Filling(spool, this.#limits)
    const pushes: NewPush[] = []
    const outcomes = wanted.map(({ request }): Stored | SluiceError => {
      const { table, rows, changes, key } = request
      const before = key === null ? undefined : known.get(key.keyHash.toString('hex'))
      if (before !== undefined && key !== null)
        return before.requestHash.equals(key.requestHash) ? { answer: before.answer, isReplay: true } : keyReused()
      if (request.changedAt.getTime() !== spool.changedAt.getTime()) return connectionChanged()
      const refusal = filling.take(request)
      if (refusal !== null) return refusal
      const answer = { table, rows, sequence: filling.sequence }
      pushes.push({ ...answer, changes: Buffer.from(changes), key })
      if (key !== null) known.set(key.keyHash.toString('hex'), { ...key, answer })
      return { answer, isReplay: false }
    })
    if (pushes.length > 0) {
      await storePushes(tx, this.#masters, place, pushes, this.#limits.keepKeysMs)
      const { connectionId: key, tenant } = place
      if (await hurryNow(tx, { kind: FOLLOW_JOB, key })) await ringForJobs(tx)
      else await hurryJob(tx, { kind: PUSH_JOB, key, tenant }, this.#limits.syncAfterMs)
    }
    return outcomes
  }
}

/** What the spool comes to with the requests of one transaction. */
class Filling {
  readonly #limits: PushLimits
  #spool: Omit<PushSpool, 'changedAt'>

  constructor(spool: PushSpool, limits: PushLimits) {
    this.#spool = spool
    this.#limits = limits
  }

  get sequence(): number {
    return this.#spool.sequence
  }

  /** Null where there is room for it. */
  take({ rows, changes, key }: PushRequest): SluiceError | null {
    const next = {
      sequence: this.#spool.sequence + 1,
      rows: this.#spool.rows + rows,
      bytes: this.#spool.bytes + changes.length,
      keys: this.#spool.keys + (key === null ? 0 : 1),
    }
    if (next.rows > this.#limits.rows || next.bytes > this.#limits.bytes) return full(this.#limits)
    if (next.keys > this.#limits.keys) return tooManyKeys(this.#limits)
    this.#spool = next
    return null
  }
}

/** Keys are of whoever sends them; a request is all that decides what is done. Neither is kept in clear. */
export function pushKey(of: readonly string[], request: readonly (string | Uint8Array)[]): PushKey {
  const requestHash = createHash('sha256')
  for (const part of request) {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part
    requestHash.update(`${bytes.length} `).update(bytes)
  }
  return { keyHash: createHash('sha256').update(JSON.stringify(of)).digest(), requestHash: requestHash.digest() }
}

function keyReused(): SluiceError {
  return new SluiceError('CONFLICT', 'this key was used for another request', { code: 'idempotency_key_reused' })
}

function connectionChanged(): SluiceError {
  return new SluiceError('CONFLICT', 'the settings of the connection were changed while the request was read', {
    code: 'connection_changed',
    remedy: 'Send the request again.',
  })
}

function connectionGone(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such connection', { code: 'connection_not_found' })
}

function full({ rows, bytes, syncAfterMs }: PushLimits): SluiceError {
  return new SluiceError('QUOTA', `${rows} rows or ${bytes} bytes of the connection wait for a run to take them`, {
    code: 'push_full',
    remedy: 'Send it again later. Rows are taken by runs, of tables that a product in service reads.',
    retryAfterMs: Math.max(RETRY_MS, syncAfterMs),
  })
}

function tooManyKeys({ keys, keepKeysMs }: PushLimits): SluiceError {
  return new SluiceError('QUOTA', `${keys} keys of requests to the connection are kept already`, {
    code: 'push_full',
    remedy: 'Send more rows with a request, so that there are fewer keys.',
    retryAfterMs: Math.min(keepKeysMs, 3_600_000),
  })
}

function busy(): SluiceError {
  return new SluiceError('QUOTA', 'too many rows wait to be stored', {
    code: 'push_busy',
    remedy: 'Send it again after the time in Retry-After.',
    retryAfterMs: RETRY_MS,
  })
}
