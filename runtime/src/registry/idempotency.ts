/** Answers by Idempotency-Key, so that a request sent twice is done once. */
import { createHash } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { IdempotencyClaim } from '../flow.ts'
import { newId } from './ids.ts'
import { change, json, maybeOne, type Queryable, type Transaction } from './sql.ts'

export interface IdempotencyScope {
  readonly tenant: string | null
  readonly issuer: string
  readonly subject: string
  readonly method: string
  readonly path: string
  readonly key: string
  /** Of query and body. */
  readonly requestHash: string
}

export interface StoredAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** JSON text; empty where the answer had no body. */
  readonly body: string
}

export type IdempotencyStart =
  | { readonly state: 'started'; readonly claim: IdempotencyClaim }
  | { readonly state: 'finished'; readonly answer: StoredAnswer }
  | { readonly state: 'in_progress'; readonly retryAfterMs: number }
  | { readonly state: 'mismatch' }

export interface IdempotencyTimes {
  /** How long an answer is kept. Default 24 h. */
  readonly keepMs?: number
  /** After this an attempt without an end may be tried again: its process has died. Default 15 min. */
  readonly abandonAfterMs?: number
}

const KEEP_MS = 24 * 60 * 60 * 1000
const ABANDON_AFTER_MS = 15 * 60 * 1000
const RETRY_AFTER_MS = 1000

/** One statement: of two at once one inserts, the other finds its row. An expired or abandoned row is taken over. */
const START = `
with started as (
  insert into idempotency_keys as k (scope_hash, claim_id, tenant, request_hash, abandoned_at, expires_at)
  values ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5::float8 / 1000),
    clock_timestamp() + make_interval(secs => $6::float8 / 1000))
  on conflict (scope_hash) do update set claim_id = excluded.claim_id, request_hash = excluded.request_hash,
    state = 'started', status = null, headers = null, body = null,
    abandoned_at = excluded.abandoned_at, expires_at = excluded.expires_at
  where (k.state = 'finished' and k.expires_at < clock_timestamp())
    or (k.state = 'started' and k.abandoned_at < clock_timestamp())
  returning claim_id
)
select claim_id as "claimId" from started`

const READ = `
select request_hash as "requestHash", state, status, headers, body from idempotency_keys where scope_hash = $1`

interface Row {
  readonly requestHash: string
  readonly state: 'started' | 'finished'
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The store behind the edge's Idempotency-Key. */
export class IdempotencyKeys {
  readonly #pool: pg.Pool
  readonly #keepMs: number
  readonly #abandonAfterMs: number

  constructor(pool: pg.Pool, times: IdempotencyTimes = {}) {
    this.#pool = pool
    this.#keepMs = times.keepMs ?? KEEP_MS
    this.#abandonAfterMs = times.abandonAfterMs ?? ABANDON_AFTER_MS
  }

  /** Atomic: of calls with the same scope at the same time one is started, the others are in progress. */
  async start(scope: IdempotencyScope, signal?: AbortSignal): Promise<IdempotencyStart> {
    signal?.throwIfAborted()
    const hash = hashOf(scope)
    const values = [hash, newId('idk'), scope.tenant, scope.requestHash, this.#abandonAfterMs, this.#keepMs]
    const started = await maybeOne<{ claimId: string }>(this.#pool, 'starting the request', START, values)
    if (started) return { state: 'started', claim: { id: started.claimId } }
    const row = await maybeOne<Row>(this.#pool, 'reading the stored answer', READ, [hash])
    if (row === null) return { state: 'in_progress', retryAfterMs: RETRY_AFTER_MS }
    if (row.requestHash !== scope.requestHash) return { state: 'mismatch' }
    if (row.state === 'started') return { state: 'in_progress', retryAfterMs: RETRY_AFTER_MS }
    return { state: 'finished', answer: { status: row.status, headers: row.headers, body: row.body } }
  }

  /** Does nothing where the answer was recorded in the transaction of its effect. Repeatable. */
  async finish(claim: IdempotencyClaim, answer: StoredAnswer): Promise<void> {
    await writeAnswer(this.#pool, claim, answer)
  }

  /** Forgets an attempt that had no effect, so that the key may be tried again. Repeatable. */
  async abandon(claim: IdempotencyClaim): Promise<void> {
    const statement = `delete from idempotency_keys where claim_id = $1 and state = 'started'`
    await change(this.#pool, 'forgetting the request', statement, [claim.id])
  }
}

/**
 * Forgets attempts without an end, so that their keys may be tried again at once. Only where no other process serves
 * this registry: their process has died. Repeatable.
 */
export function forgetStarted(db: Queryable): Promise<number> {
  return change(db, 'forgetting requests', `delete from idempotency_keys where state = 'started'`, [])
}

/**
 * Records the answer in the transaction of its effect. Throws CONFLICT where another attempt has taken the key over, so
 * that the effect is rolled back and happens once.
 */
export async function recordAnswer(tx: Transaction, claim: IdempotencyClaim, answer: StoredAnswer): Promise<void> {
  if (await writeAnswer(tx, claim, answer)) return
  throw new SluiceError('CONFLICT', 'the request took so long that its repetition has taken over', {
    code: 'idempotency_taken_over',
    remedy: 'Send the request again with the same key to get the answer.',
  })
}

async function writeAnswer(db: Queryable, claim: IdempotencyClaim, answer: StoredAnswer): Promise<boolean> {
  const changed = await change(
    db,
    'storing the answer',
    `update idempotency_keys set state = 'finished', status = $2, headers = $3, body = $4
     where claim_id = $1 and state = 'started'`,
    [claim.id, answer.status, json(answer.headers), answer.body],
  )
  return changed === 1
}

/** Removes what has expired, at most `limit` rows; returns how many. */
export function pruneIdempotencyKeys(db: Queryable, limit: number): Promise<number> {
  return change(
    db,
    'removing expired answers',
    `delete from idempotency_keys where scope_hash in (
       select scope_hash from idempotency_keys where expires_at < clock_timestamp() limit $1 for update skip locked)`,
    [limit],
  )
}

/** JSON, so that no two scopes give the same text. */
function hashOf(scope: IdempotencyScope): Buffer {
  const { tenant, issuer, subject, method, path, key } = scope
  return createHash('sha256')
    .update(JSON.stringify([tenant, issuer, subject, method, path, key]))
    .digest()
}
