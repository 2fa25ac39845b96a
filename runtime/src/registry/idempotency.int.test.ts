import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import type { IdempotencyClaim } from '../flow.ts'
import { IdempotencyKeys, type IdempotencyScope, pruneIdempotencyKeys, recordAnswer } from './idempotency.ts'
import { startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const ANSWER = { status: 201, headers: { location: '/x' }, body: '{"a":1}' }
let keys = 0

function scope(change: Partial<IdempotencyScope> = {}): IdempotencyScope {
  const base = { tenant: 'acme', issuer: 'i', subject: 'ann', method: 'POST', path: '/p', requestHash: 'h' }
  return { ...base, key: `k${keys++}`, ...change }
}

async function started(store: IdempotencyKeys, of: IdempotencyScope): Promise<IdempotencyClaim> {
  const start = await store.start(of)
  assert.equal(start.state, 'started')
  return (start as { claim: IdempotencyClaim }).claim
}

describe('an idempotency key', () => {
  const store = new IdempotencyKeys(pool)

  it('starts one of many requests at once', async () => {
    const same = scope()
    const states = (await Promise.all(Array.from({ length: 8 }, () => store.start(same)))).map(({ state }) => state)
    assert.deepEqual(states.sort(), [...Array(7).fill('in_progress'), 'started'])
  })

  it('gives the answer again to the same request, and refuses another', async () => {
    const same = scope()
    const claim = await started(store, same)
    await store.finish(claim, ANSWER)
    await store.finish(claim, { ...ANSWER, status: 500 })
    await store.abandon(claim)
    assert.deepEqual(await store.start(same), { state: 'finished', answer: ANSWER })
    assert.deepEqual(await store.start({ ...same, requestHash: 'other' }), { state: 'mismatch' })
  })

  it('is another one for another tenant, issuer, subject, method or path', async () => {
    const same = scope()
    await started(store, same)
    for (const change of [
      { tenant: 'other' },
      { tenant: null },
      { issuer: 'x' },
      { subject: 'bob' },
      { method: 'PUT' },
      { path: '/q' },
      // Not told apart by a separator that a value may hold.
      { issuer: 'i","ann', subject: '' },
    ]) {
      await started(store, { ...same, ...change })
    }
  })

  it('may be tried again after an attempt without effect', async () => {
    const same = scope()
    await store.abandon(await started(store, same))
    await started(store, same)
  })

  it('keeps the answer with the effect, or neither', async () => {
    const same = scope()
    const claim = await started(store, same)
    const failing = inTransaction(pool, async (tx) => {
      await recordAnswer(tx, claim, ANSWER)
      throw new Error('the effect failed')
    })
    await assert.rejects(failing)
    assert.equal((await store.start(same)).state, 'in_progress')
    await inTransaction(pool, (tx) => recordAnswer(tx, claim, ANSWER))
    await store.finish(claim, { ...ANSWER, status: 500 })
    assert.deepEqual(await store.start(same), { state: 'finished', answer: ANSWER })
  })

  it('is taken over from a dead attempt, whose effect can then no longer be committed', async () => {
    const hasty = new IdempotencyKeys(pool, { abandonAfterMs: -1 })
    const same = scope()
    const dead = await started(hasty, same)
    const next = await started(store, same)
    await assert.rejects(
      inTransaction(pool, (tx) => recordAnswer(tx, dead, ANSWER)),
      { kind: 'CONFLICT', code: 'idempotency_taken_over' },
    )
    await store.abandon(dead)
    await inTransaction(pool, (tx) => recordAnswer(tx, next, ANSWER))
  })

  it('ends with its time', async () => {
    const brief = new IdempotencyKeys(pool, { keepMs: -1 })
    const same = scope()
    await brief.finish(await started(brief, same), ANSWER)
    await brief.finish(await started(brief, same), ANSWER)
    // However short answers are kept: a request under way is not begun again.
    await started(brief, { ...same, key: 'under-way' })
    assert.equal((await brief.start({ ...same, key: 'under-way' })).state, 'in_progress')
    const kept = scope()
    await store.finish(await started(store, kept), ANSWER)
    assert.ok((await pruneIdempotencyKeys(pool, 100)) >= 1)
    assert.equal(await pruneIdempotencyKeys(pool, 100), 0)
    assert.equal((await store.start(kept)).state, 'finished')
  })
})
