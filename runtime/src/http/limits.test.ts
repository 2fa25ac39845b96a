import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { Type } from 'typebox'
import { DEFAULT_RATE_LIMITS } from './guard.ts'
import { LocalRateLimiter, rateHeaders } from './rate-limit.ts'
import { defineRoute } from './route.ts'
import { pluginRoutes } from './routes/plugins.ts'
import { codeOf, ROOT, startTestServer } from './test-server.ts'

const SLOW = { ratePerS: 0.001, burst: 3 }
const AMPLE = { ratePerS: 1e6, burst: 1e6 }
const PATH = '/api/v1/plugins'
const routes = pluginRoutes(() => [])

describe('token buckets', () => {
  it('give a burst, then the rate, and say how long to wait', () => {
    let nowMs = 0
    const limiter = new LocalRateLimiter(() => nowMs)
    const policy = DEFAULT_RATE_LIMITS.tiers.free
    const take = () => limiter.take('acme', policy)
    for (let taken = 1; taken <= 20; taken++) assert.deepEqual([take().allowed, taken], [true, taken])
    assert.deepEqual(take(), { allowed: false, remaining: 0, resetMs: 2000, retryAfterMs: 100 })
    nowMs += 99
    assert.equal(take().allowed, false)
    nowMs += 1
    assert.equal(take().allowed, true)
    assert.equal(take().allowed, false)
    nowMs += 1_000_000
    assert.equal(take().remaining, 19)
  })

  it('are separate for each key, and a clock that goes back gives nothing away', () => {
    let nowMs = 1000
    const limiter = new LocalRateLimiter(() => nowMs)
    const policy = { ratePerS: 1, burst: 1 }
    assert.equal(limiter.take('a', policy).allowed, true)
    assert.equal(limiter.take('b', policy).allowed, true)
    nowMs = 0
    assert.equal(limiter.take('a', policy).allowed, false)
  })

  it('are described by quota, window, rest and reset', () => {
    const policy = { ratePerS: 10, burst: 20 }
    const decision = { allowed: true, remaining: 7, resetMs: 1201, retryAfterMs: 0 }
    assert.deepEqual(rateHeaders('free', policy, decision), [
      'RateLimit-Policy',
      '"free";q=20;w=2',
      'RateLimit',
      '"free";r=7;t=2',
    ])
  })
})

describe('rate limits', () => {
  it('count by tenant, whoever of it asks, and by its tier', async () => {
    const tiers = { free: SLOW, standard: AMPLE, enterprise: AMPLE }
    await using server = await startTestServer(routes, {
      rateLimits: { tiers, address: AMPLE },
      standingOf: async (tenant) => ({ tier: tenant === 'acme' ? 'free' : 'standard', status: 'active' }),
    })
    const as = async (tenant: string, user: string): Promise<Response> => {
      const token = await server.token({ tenant, groups: [], user })
      return server.ask(PATH, { headers: { authorization: `Bearer ${token}` } })
    }
    const first = await as('acme', 'ann')
    assert.equal(first.headers.get('ratelimit-policy'), '"free";q=3;w=3000')
    assert.match(first.headers.get('ratelimit') ?? '', /^"free";r=2;t=\d+$/)
    assert.equal((await as('acme', 'bob')).status, 200)
    assert.equal((await as('acme', 'eve')).status, 200)
    const refused = await as('acme', 'ann')
    assert.equal(refused.status, 429)
    assert.ok(Number(refused.headers.get('retry-after')) >= 1)
    assert.match(refused.headers.get('ratelimit') ?? '', /r=0/)
    assert.equal(await codeOf(refused), 'rate_limited')
    assert.equal((await as('globex', 'ann')).status, 200)
  })

  it('count a request as many, where its body asks for as much', async () => {
    const many = defineRoute({
      method: 'POST',
      path: '/api/v1/many',
      name: 'many',
      summary: 'As many as it says',
      tags: ['Serving'],
      auth: 'tenant',
      body: Type.Object({ n: Type.Integer() }),
      tokens: ({ n }) => n,
      responses: { 200: { description: 'Done.' } },
      handler: () => ({ body: {} }),
    })
    const tiers = { free: AMPLE, standard: { ratePerS: 0.001, burst: 6 }, enterprise: AMPLE }
    await using server = await startTestServer([many], {
      rateLimits: { tiers, address: AMPLE },
      standingOf: () => ({ tier: 'standard', status: 'active' }),
    })
    const ask = (n: number) =>
      server.ask('/api/v1/many', {
        method: 'POST',
        body: JSON.stringify({ n }),
        headers: { 'content-type': 'application/json' },
      })
    const answers = [await ask(3), await ask(1), await ask(3), await ask(1)]
    assert.deepEqual(
      answers.map(({ status, headers }) => [status, /r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1]]),
      [
        [200, '3'],
        [200, '2'],
        [429, '0'],
        [429, '0'],
      ],
    )
  })

  it('do not let an administrator use up the share of a tenant', async () => {
    const tiers = { free: SLOW, standard: SLOW, enterprise: AMPLE }
    await using server = await startTestServer(routes, { rateLimits: { tiers, address: AMPLE } })
    const headers = { authorization: `Bearer ${await server.token(ROOT)}`, 'x-tenant-id': 'acme' }
    for (let i = 0; i < 6; i++) assert.equal((await server.ask(PATH, { headers })).status, 200)
    assert.equal((await server.ask(PATH)).status, 200)
  })

  it('count by address what has no verified token, and leave those who have one alone', async () => {
    const tiers = { free: AMPLE, standard: AMPLE, enterprise: AMPLE }
    await using server = await startTestServer(routes, { rateLimits: { tiers, address: SLOW } })
    const known = await server.token()
    const headers = { authorization: `Bearer ${known}` }
    for (let i = 0; i < 8; i++) assert.equal((await server.ask(PATH, { headers })).status, 200)
    const forged = `${known.slice(0, known.lastIndexOf('.'))}.${'A'.repeat(86)}`
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) {
      statuses.push((await server.ask(PATH, { headers: { authorization: `Bearer ${forged}` } })).status)
    }
    assert.deepEqual(statuses, [401, 401, 401, 429, 429])
    assert.equal((await fetch(`${server.url}/nothing`)).status, 429)
    assert.equal((await server.ask(PATH, { headers })).status, 200)
  })

  it('refuse a flood of bad tokens without verifying them', async () => {
    let verified = 0
    const authenticator = {
      cached: () => null,
      verify: async () => {
        verified += 1
        throw new SluiceError('PERMISSION', 'no', { code: 'token_invalid' })
      },
    }
    const tiers = { free: AMPLE, standard: AMPLE, enterprise: AMPLE }
    await using server = await startTestServer(routes, { authenticator, rateLimits: { tiers, address: SLOW } })
    for (let i = 0; i < 10; i++) await server.ask(PATH)
    assert.equal(verified, SLOW.burst)
  })

  it('take the address from a proxy only where proxies are configured', async () => {
    const tiers = { free: AMPLE, standard: AMPLE, enterprise: AMPLE }
    const ask = (url: string, forwarded: string): Promise<Response> =>
      fetch(`${url}/nothing`, { headers: { 'x-forwarded-for': forwarded } })
    await using direct = await startTestServer(routes, { rateLimits: { tiers, address: SLOW } })
    for (let i = 0; i < 3; i++) await ask(direct.url, `10.0.0.${i}`)
    assert.equal((await ask(direct.url, '10.0.0.9')).status, 429)

    await using proxied = await startTestServer(routes, { rateLimits: { tiers, address: SLOW }, trustedProxies: 1 })
    for (let i = 0; i < 3; i++) await ask(proxied.url, '1.1.1.1, 2001:db8:0:1::1')
    assert.equal((await ask(proxied.url, '9.9.9.9, 2001:db8::1:ffff:0:0:2')).status, 429, 'one network of IPv6')
    assert.equal((await ask(proxied.url, '2001:db8:0:2::1')).status, 404)
  })

  it('refuse what is more than the server may work on at once', async () => {
    await using server = await startTestServer(routes, { maxInFlight: 0 })
    const response = await server.ask(PATH)
    assert.equal(response.status, 503)
    assert.equal(await codeOf(response), 'server_busy')
  })

  it('leave every tenant places, whatever another one keeps open', async () => {
    let open = (): void => {}
    let atGate = 0
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    const waiting = defineRoute({
      method: 'GET',
      path: '/api/v1/waiting',
      name: 'wait',
      summary: 'Wait',
      tags: ['Test'],
      auth: 'tenant',
      responses: { 200: { description: 'Waited.' } },
      handler: async () => {
        atGate += 1
        await gate
        return { body: 'waited' }
      },
    })
    await using server = await startTestServer([waiting, ...routes], { maxInFlightPerTenant: 2 })
    const globex = { authorization: `Bearer ${await server.token({ tenant: 'globex', groups: [], user: 'bob' })}` }
    const open2 = [server.ask('/api/v1/waiting'), server.ask('/api/v1/waiting')]
    while (atGate < 2) await new Promise((resolve) => setImmediate(resolve))
    const refused = await server.ask(PATH)
    assert.equal(refused.status, 429)
    assert.equal(await codeOf(refused), 'too_many_at_once')
    assert.equal((await server.ask(PATH, { headers: globex })).status, 200)
    open()
    assert.deepEqual(
      (await Promise.all(open2)).map(({ status }) => status),
      [200, 200],
    )
    for (let i = 0; i < 5; i++) assert.equal((await server.ask(PATH)).status, 200)
  })
})
