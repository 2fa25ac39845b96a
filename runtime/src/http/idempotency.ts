import { hash } from 'node:crypto'
import type { Call, IdempotencyClaim, Principal } from '../flow.ts'
import type { Keep } from '../operations/keep.ts'
import {
  type IdempotencyScope,
  type IdempotencyStart,
  recordAnswer,
  type StoredAnswer,
} from '../registry/idempotency.ts'
import type { Exchange } from './exchange.ts'
import { refuse } from './problem.ts'
import type { Reply } from './route.ts'

/**
 * Keeps answers by key, for at least a day. An operation records its answer in the transaction of its effect where it
 * can, by the claim that its call carries; `finish` then finds it recorded and does nothing.
 */
export interface IdempotencyStore {
  /** Atomic: of calls with the same scope at the same time one is started, the others are in progress. */
  start(scope: IdempotencyScope, signal: AbortSignal): Promise<IdempotencyStart>
  /** Repeatable. */
  finish(claim: IdempotencyClaim, answer: StoredAnswer): Promise<void>
  /** Forgets an attempt that had no effect, so that the key may be tried again. Repeatable. */
  abandon(claim: IdempotencyClaim): Promise<void>
}

/** How an operation's result is answered, and how that answer is kept with its effect. */
export interface KeptAnswer<T> {
  readonly reply: (result: T) => Reply
  /** For the operation: called with the result in the transaction that makes it true. */
  readonly keep: Keep<T>
}

/** An answer that a repetition of the request finds even where the process died before it could be sent. */
export function keptAnswer<T>(call: Pick<Call, 'idempotency'>, reply: (result: T) => Reply): KeptAnswer<T> {
  return {
    reply,
    keep: async (tx, result) => {
      if (call.idempotency !== null) await recordAnswer(tx, call.idempotency, storable(reply(result)))
    },
  }
}

/** Answers of operations that create or start something are small values; a stream has no answer to repeat. */
export function storable(reply: Reply): StoredAnswer {
  const headers = reply.headers ?? {}
  if ('body' in reply) return { status: reply.status ?? 200, headers, body: JSON.stringify(reply.body) }
  if ('json' in reply) return { status: reply.status ?? 200, headers, body: Buffer.from(reply.json).toString() }
  if ('empty' in reply) return { status: reply.status ?? 204, headers, body: '' }
  throw new TypeError('an idempotent route answers a value')
}

const KEY = /^[!-~]{1,255}$/

/** The key of a request, or null; throws `idempotency_key_invalid`. */
export function idempotencyKeyOf(exchange: Exchange): string | null {
  return parseIdempotencyKey(exchange.request.headers['idempotency-key'])
}

export function parseIdempotencyKey(header: string | readonly string[] | undefined): string | null {
  if (header === undefined) return null
  if (typeof header === 'string' && KEY.test(header)) return header
  throw refuse('idempotency_key_invalid', 'the Idempotency-Key is not 1 to 255 printable ASCII characters')
}

export function scopeOf(exchange: Exchange, principal: Principal, key: string): IdempotencyScope {
  const { request, path, query, body } = exchange
  return {
    tenant: exchange.tenant,
    issuer: principal.issuer,
    subject: principal.subject,
    method: request.method ?? '',
    path,
    key,
    requestHash: hash('sha256', canonicalJson([query, body]), 'base64url'),
  }
}

/** JSON with the keys of every object in order. Bodies are at most 64 levels deep. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, node: unknown) => {
    if (typeof node !== 'object' || node === null || Array.isArray(node)) return node
    return Object.fromEntries(Object.entries(node).toSorted(([left], [right]) => (left < right ? -1 : 1)))
  })
}

/** Answers that say nothing about the effect: the same request may end otherwise when it is sent again. */
export function isRepeatable(status: number): boolean {
  return status >= 500 || status === 401 || status === 403 || status === 429
}
