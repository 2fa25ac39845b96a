import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { DEFAULT_CLAIMS, SIGNATURE_ALGORITHMS } from './issuers.ts'
import { remoteKeys } from './remote-keys.ts'
import { TokenVerifier } from './verifier.ts'

describe('an issuer on the network', () => {
  let server: Server
  let url: string
  let published: JWK[]
  let asked: string[]
  let answers: Record<string, { readonly status?: number; readonly location?: string; readonly body: unknown }>
  let nowMs: number

  beforeEach(async () => {
    published = []
    asked = []
    nowMs = Date.now()
    server = createServer((request, response) => {
      asked.push(request.url ?? '')
      const answer = answers[request.url ?? '']
      response.writeHead(answer?.status ?? (answer ? 200 : 404), {
        'content-type': 'application/json',
        ...(answer?.location && { location: answer.location }),
      })
      response.end(JSON.stringify(answer?.body ?? {}))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    answers = {
      '/.well-known/openid-configuration': { body: { issuer: url, jwks_uri: `${url}/keys` } },
      '/keys': { body: { keys: published } },
    }
  })
  afterEach(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })

  async function newKey(kid: string): Promise<CryptoKey> {
    const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
    published.push({ ...(await exportJWK(publicKey)), kid, alg: 'ES256' })
    return privateKey
  }

  function verifierOf(): TokenVerifier {
    const issuer = {
      issuer: url,
      audience: 'sluice',
      algorithms: SIGNATURE_ALGORITHMS,
      tenants: 'all',
      mayClaimAdmin: false,
      claims: DEFAULT_CLAIMS,
      keys: remoteKeys({ issuer: url, nowMs: () => nowMs }),
    } as const
    return new TokenVerifier({ issuers: [issuer] })
  }

  let serial = 0
  function sign(key: CryptoKey, kid: string): Promise<string> {
    serial += 1
    const claims = { sub: 'ann', tenant_id: 'acme', jti: String(serial) }
    return new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid })
      .setIssuer(url)
      .setAudience('sluice')
      .setExpirationTime('5m')
      .sign(key)
  }

  const unavailable = { kind: 'TRANSIENT', code: 'issuer_unavailable' }

  it('is found by its discovery document, and its keys are read once', async () => {
    const key = await newKey('a')
    const verifier = verifierOf()
    for (let i = 0; i < 3; i++) assert.equal((await verifier.verify(await sign(key, 'a'))).tenant, 'acme')
    assert.deepEqual(asked, ['/.well-known/openid-configuration', '/keys'])
  })

  it('is not asked again for every unknown key', async () => {
    const key = await newKey('a')
    const verifier = verifierOf()
    await verifier.verify(await sign(key, 'a'))
    for (let i = 0; i < 5; i++)
      await assert.rejects(verifier.verify(await sign(key, `x${i}`)), { code: 'token_invalid' })
    assert.equal(asked.filter((path) => path === '/keys').length, 1)
  })

  it('makes a good token a 503 while it is down, and is left alone for a while', async () => {
    const key = await newKey('a')
    answers['/keys'] = { status: 500, body: {} }
    const verifier = verifierOf()
    for (let i = 0; i < 4; i++) await assert.rejects(verifier.verify(await sign(key, 'a')), unavailable)
    assert.equal(asked.filter((path) => path === '/keys').length, 1)
    answers['/keys'] = { body: { keys: published } }
    nowMs += 5_000
    assert.equal((await verifier.verify(await sign(key, 'a'))).subject, 'ann')
  })

  it('is asked again at once when the clock was set back meanwhile', async () => {
    const key = await newKey('a')
    answers['/keys'] = { status: 500, body: {} }
    const verifier = verifierOf()
    await assert.rejects(verifier.verify(await sign(key, 'a')), unavailable)
    answers['/keys'] = { body: { keys: published } }
    nowMs -= 24 * 3_600_000
    assert.equal((await verifier.verify(await sign(key, 'a'))).subject, 'ann')
    const next = await newKey('b')
    await assert.rejects(
      verifier.verify(await sign(next, 'b')),
      { code: 'token_invalid' },
      'the keys were read just now',
    )
    nowMs -= 24 * 3_600_000
    assert.equal((await verifier.verify(await sign(next, 'b'))).subject, 'ann')
  })

  it('must say of itself who it is', async () => {
    const key = await newKey('a')
    answers['/.well-known/openid-configuration'] = { body: { issuer: 'https://evil.example', jwks_uri: `${url}/keys` } }
    await assert.rejects(verifierOf().verify(await sign(key, 'a')), unavailable)
    assert.ok(!asked.includes('/keys'))
  })

  it('may not send elsewhere: no redirects, no plain http to other hosts, no endless documents', async () => {
    const key = await newKey('a')
    const token = await sign(key, 'a')
    answers['/keys'] = { status: 302, location: `${url}/others`, body: {} }
    answers['/others'] = { body: { keys: published } }
    await assert.rejects(verifierOf().verify(token), unavailable)
    assert.ok(!asked.includes('/others'))
    // Another name of this host, which would answer, but is not loopback by its name.
    const elsewhere = `${url.replace('127.0.0.1', '0.0.0.0')}/others`
    answers['/.well-known/openid-configuration'] = { body: { issuer: url, jwks_uri: elsewhere } }
    await assert.rejects(verifierOf().verify(token), unavailable)
    assert.ok(!asked.includes('/others'))
    answers['/.well-known/openid-configuration'] = { body: { issuer: url, jwks_uri: `${url}/large` } }
    answers['/large'] = { body: { keys: published, padding: 'x'.repeat(600_000) } }
    await assert.rejects(verifierOf().verify(token), unavailable)
  })

  it('must have an https address unless it is on this host', () => {
    for (const issuer of ['http://id.example', 'ftp://id.example', 'nonsense', 'http://127.0.0.1.evil.example']) {
      assert.throws(() => remoteKeys({ issuer }), { kind: 'CONFIG', code: 'issuer_insecure' }, issuer)
    }
    remoteKeys({ issuer: 'https://id.example' })
    remoteKeys({ issuer: 'http://localhost:8080/realms/x' })
    remoteKeys({ issuer: 'http://id.internal', allowHttp: true })
  })

  it('says whether its keys can be read', async () => {
    await newKey('a')
    const keys = remoteKeys({ issuer: url, nowMs: () => nowMs })
    await keys.check(AbortSignal.timeout(600_000))
    answers['/keys'] = { status: 500, body: {} }
    await keys.check(AbortSignal.timeout(600_000))
    await assert.rejects(remoteKeys({ issuer: url }).check(AbortSignal.timeout(600_000)), unavailable)
  })
})
