import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { Type } from 'typebox'
import { canonicalJson } from './idempotency.ts'
import { defineRoute } from './route.ts'
import { codeOf, startTestServer, type TestServer } from './test-server.ts'

interface Effects {
  count: number
  allowed: boolean
  failure: Error | null
  gate: Promise<void>
}

function jobs(effects: Effects) {
  return defineRoute({
    method: 'POST',
    path: '/api/v1/jobs/{id}',
    name: 'startJob',
    summary: 'Start a job',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ id: Type.String() }),
    query: Type.Object({ mode: Type.Optional(Type.String()) }),
    body: Type.Record(Type.String(), Type.Unknown()),
    idempotent: true,
    responses: { 202: { description: 'Started.' } },
    authorize: () => {
      if (!effects.allowed) throw new SluiceError('PERMISSION', 'not any more', { code: 'forbidden' })
    },
    handler: async ({ idempotency, idempotencyKey }) => {
      await effects.gate
      if (effects.failure !== null) throw effects.failure
      effects.count += 1
      return {
        status: 202,
        headers: { Location: `/api/v1/jobs/${effects.count}` },
        body: { count: effects.count, hasClaim: idempotency !== null, idempotencyKey },
      }
    },
  })
}

async function fixture(): Promise<{ server: TestServer; effects: Effects; post: typeof post }> {
  const effects: Effects = { count: 0, allowed: true, failure: null, gate: Promise.resolve() }
  const server = await startTestServer([jobs(effects)])
  async function post(
    key: string | null,
    body: unknown = {},
    path = '/api/v1/jobs/a',
    user = 'ann',
  ): Promise<Response> {
    const token = await server.token({ tenant: 'acme', groups: [], user })
    return server.ask(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${token}`,
        ...(key !== null && { 'idempotency-key': key }),
      },
    })
  }
  return { server, effects, post }
}

describe('Idempotency-Key', () => {
  it('answers a repeated request as the first, and does it once', async () => {
    const { server, effects, post } = await fixture()
    await using _ = server
    const first = await post('k1', { a: 1, b: 2 })
    const again = await post('k1', { b: 2, a: 1 })
    assert.equal(first.headers.get('idempotency-replayed'), null)
    assert.equal(again.headers.get('idempotency-replayed'), 'true')
    assert.equal(again.status, 202)
    assert.equal(again.headers.get('location'), '/api/v1/jobs/1')
    const body = await first.json()
    assert.deepEqual(body, { count: 1, hasClaim: true, idempotencyKey: 'k1' })
    assert.deepEqual(await again.json(), body)
    assert.equal(effects.count, 1)
  })

  it('means another request for another subject, path or no key', async () => {
    const { server, effects, post } = await fixture()
    await using _ = server
    await post('k1')
    await post('k1', {}, '/api/v1/jobs/a', 'bob')
    await post('k1', {}, '/api/v1/jobs/b')
    await post(null)
    await post(null)
    assert.equal(effects.count, 5)
  })

  it('refuses the key for another body or query', async () => {
    const { server, effects, post } = await fixture()
    await using _ = server
    await post('k1', { a: 1 })
    for (const response of [await post('k1', { a: 2 }), await post('k1', { a: 1 }, '/api/v1/jobs/a?mode=x')]) {
      assert.equal(response.status, 422)
      assert.equal(await codeOf(response), 'idempotency_key_reused')
    }
    assert.equal(effects.count, 1)
  })

  it('answers 409 while the first request is under way', async () => {
    const { server, effects, post } = await fixture()
    await using _ = server
    let open = (): void => {}
    effects.gate = new Promise((resolve) => {
      open = resolve
    })
    const both = [post('k1'), post('k1')]
    const refused = await Promise.race(both)
    assert.equal(refused.status, 409)
    assert.equal(await codeOf(refused), 'idempotency_in_progress')
    open()
    const statuses = (await Promise.all(both)).map(({ status }) => status)
    assert.deepEqual(statuses.toSorted(), [202, 409])
    assert.equal((await post('k1')).status, 202)
    assert.equal(effects.count, 1)
  })

  it('asks again whether the caller may, before it gives a stored answer', async () => {
    const { server, effects, post } = await fixture()
    await using _ = server
    await post('k1')
    effects.allowed = false
    const response = await post('k1')
    assert.equal(response.status, 403)
    assert.doesNotMatch(await response.text(), /count/)
  })

  it('repeats refusals, and tries failures again', async () => {
    const { server, effects, post } = await fixture()
    await using _ = server
    effects.failure = new SluiceError('CONFLICT', 'taken', { code: 'taken' })
    const refused = await post('k1')
    effects.failure = new SluiceError('TRANSIENT', 'down', { code: 'down' })
    assert.equal((await post('k2')).status, 503)
    effects.failure = null
    const repeated = await post('k1')
    assert.equal(repeated.status, 409)
    assert.equal(repeated.headers.get('content-type'), refused.headers.get('content-type'))
    assert.equal((await post('k2')).status, 202)
    assert.equal(effects.count, 1)
  })

  it('is 1 to 255 printable characters', async () => {
    const { server, post } = await fixture()
    await using _ = server
    for (const key of ['a b', 'x'.repeat(256), 'ü'])
      assert.equal(await codeOf(await post(key)), 'idempotency_key_invalid')
  })
})

describe('canonicalJson', () => {
  it('is the same for the same value, whatever the order of keys', () => {
    assert.equal(canonicalJson({ b: [{ d: 1, c: 2 }], a: null }), '{"a":null,"b":[{"c":2,"d":1}]}')
    assert.notEqual(canonicalJson([1, 2]), canonicalJson([2, 1]))
  })
})
