import { hash } from 'node:crypto'
import type { IdempotencyClaim, Principal } from '../flow.ts'
import type { IdempotencyScope, IdempotencyStart, StoredAnswer } from '../registry/idempotency.ts'
import type { Exchange } from './exchange.ts'
import { refuse } from './problem.ts'

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

const KEY = /^[!-~]{1,255}$/

/** The key of a request, or null; throws `idempotency_key_invalid`. */
export function idempotencyKeyOf(exchange: Exchange): string | null {
  const header = exchange.request.headers['idempotency-key']
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
