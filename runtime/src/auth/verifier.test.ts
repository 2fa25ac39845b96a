import assert from 'node:assert/strict'
import { createHmac, generateKeyPairSync, KeyObject, sign } from 'node:crypto'
import { before, describe, it } from 'node:test'
import { type CryptoKey, createLocalJWKSet, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { DEFAULT_CLAIMS, SIGNATURE_ALGORITHMS, type TrustedIssuer } from './issuers.ts'
import { TokenVerifier } from './verifier.ts'

const ISSUER = 'https://id.example/realms/one'
const NOW_S = 1_800_000_000
const GOOD: JWTPayload = {
  sub: 'ann',
  tenant_id: 'acme',
  groups: ['/svc-developers', 'sales'],
  email: 'ann@example.com',
}

interface Made {
  readonly claims?: JWTPayload
  readonly header?: Readonly<Record<string, unknown>>
  readonly key?: CryptoKey
  readonly exp?: number | null
  readonly aud?: string | string[]
  readonly iss?: string
}

let keys: Readonly<
  Record<'RS256' | 'ES256' | 'EdDSA', { readonly privateKey: CryptoKey; readonly publicKey: CryptoKey }>
>
let looksUp = 0

before(async () => {
  const [RS256, ES256, EdDSA] = await Promise.all([
    generateKeyPair('RS256', { extractable: true }),
    generateKeyPair('ES256', { extractable: true }),
    generateKeyPair('EdDSA', { extractable: true }),
  ])
  keys = { RS256, ES256, EdDSA }
})

async function issuer(changes: Partial<TrustedIssuer> = {}): Promise<TrustedIssuer> {
  const jwks = await Promise.all(
    Object.entries(keys).map(async ([alg, { publicKey }]) => ({
      ...(await exportJWK(publicKey)),
      kid: alg,
      alg,
      use: 'sig',
    })),
  )
  const set = createLocalJWKSet({ keys: jwks })
  return {
    issuer: ISSUER,
    audience: 'sluice',
    algorithms: SIGNATURE_ALGORITHMS,
    tenants: 'all',
    mayClaimAdmin: false,
    claims: DEFAULT_CLAIMS,
    keys: {
      getKey: (header, token) => {
        looksUp += 1
        return set(header, token)
      },
      check: async () => {},
    },
    ...changes,
  }
}

async function verifierOf(changes: Partial<TrustedIssuer> = {}, nowMs = () => NOW_S * 1000): Promise<TokenVerifier> {
  return new TokenVerifier({ issuers: [await issuer(changes)], nowMs })
}

function make(made: Made = {}): Promise<string> {
  const token = new SignJWT(made.claims ?? GOOD)
    .setProtectedHeader({ alg: 'ES256', kid: 'ES256', typ: 'at+jwt', ...made.header } as { alg: string })
    .setIssuer(made.iss ?? ISSUER)
    .setAudience(made.aud ?? 'sluice')
    .setIssuedAt(NOW_S)
  if (made.exp !== null) token.setExpirationTime(made.exp ?? NOW_S + 300)
  return token.sign(made.key ?? keys.ES256.privateKey)
}

const segment = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('verifying tokens', () => {
  it('gives the principal that the claims describe', async () => {
    const principal = await (await verifierOf()).verify(await make({ claims: { ...GOOD, clearance: 'confidential' } }))
    assert.deepEqual(principal, {
      issuer: ISSUER,
      subject: 'ann',
      tenant: 'acme',
      groups: ['svc-developers', 'sales'],
      isAdmin: false,
      isDeveloper: true,
      isViewer: false,
      claimedClearance: 'confidential',
      email: 'ann@example.com',
      tokenExpiresAtMs: (NOW_S + 300) * 1000,
      tokenIssuedAtMs: NOW_S * 1000,
    })
  })

  it('takes the three algorithms, where the issuer may use them', async () => {
    const verifier = await verifierOf()
    for (const alg of SIGNATURE_ALGORITHMS) {
      const token = await make({ header: { alg, kid: alg }, key: keys[alg].privateKey })
      assert.equal((await verifier.verify(token)).subject, 'ann', alg)
    }
    const pinned = await verifierOf({ algorithms: ['RS256'] })
    await assert.rejects(pinned.verify(await make()), { code: 'token_invalid' })
  })

  it('refuses unsigned tokens, and public keys used as secrets', async () => {
    const verifier = await verifierOf()
    const payload = segment({ ...GOOD, iss: ISSUER, aud: 'sluice', exp: NOW_S + 300 })
    await assert.rejects(verifier.verify(`${segment({ alg: 'none' })}.${payload}.AA`), { code: 'token_invalid' })
    const head = segment({ alg: 'HS256', kid: 'RS256', typ: 'JWT' })
    const spki = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'pem' })
    const mac = createHmac('sha256', spki).update(`${head}.${payload}`).digest('base64url')
    await assert.rejects(verifier.verify(`${head}.${payload}.${mac}`), { code: 'token_invalid' })
  })

  it('refuses every change of a signed token', async () => {
    const verifier = await verifierOf()
    const [head, payload, signature] = (await make()).split('.') as [string, string, string]
    const other = segment({ ...GOOD, tenant_id: 'globex', iss: ISSUER, aud: 'sluice', exp: NOW_S + 300 })
    const flipped = `${signature[0] === 'A' ? 'B' : 'A'}${signature.slice(1)}`
    for (const token of [`${head}.${other}.${signature}`, `${head}.${payload}.${flipped}`]) {
      await assert.rejects(verifier.verify(token), { code: 'token_invalid' })
      assert.equal(verifier.cached(token, {}), null)
    }
    const stranger = await generateKeyPair('ES256')
    await assert.rejects(verifier.verify(await make({ key: stranger.privateKey })), { code: 'token_invalid' })
    await assert.rejects(verifier.verify(await make({ header: { kid: 'none' } })), { code: 'token_invalid' })
  })

  it('refuses other issuers, audiences and purposes', async () => {
    const verifier = await verifierOf()
    const bad: Made[] = [
      { iss: `${ISSUER}/` },
      { iss: 'https://id.example/realms/two' },
      { aud: 'another' },
      { aud: [] },
      { header: { typ: 'logout+jwt' } },
      { header: { typ: 'dpop+jwt' } },
      { claims: { ...GOOD, typ: 'ID' } },
      { claims: { ...GOOD, typ: 'Refresh' } },
    ]
    for (const made of bad) {
      await assert.rejects(verifier.verify(await make(made)), { code: 'token_invalid' }, JSON.stringify(made))
    }
    assert.equal((await verifier.verify(await make({ aud: ['another', 'sluice'] }))).tenant, 'acme')
  })

  it('refuses a critical header that it does not know, however well it is signed', async () => {
    const verifier = await verifierOf()
    const payload = segment({ ...GOOD, iss: ISSUER, aud: 'sluice', exp: NOW_S + 300 })
    const signed = (header: Readonly<Record<string, unknown>>): string => {
      const text = `${segment({ alg: 'ES256', kid: 'ES256', ...header })}.${payload}`
      const key = KeyObject.from(keys.ES256.privateKey)
      return `${text}.${sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`
    }
    assert.equal((await verifier.verify(signed({}))).subject, 'ann')
    for (const header of [{ crit: ['exp2'], exp2: 1 }, { crit: [] }, { crit: ['b64'], b64: false }]) {
      await assert.rejects(verifier.verify(signed(header)), { code: 'token_invalid' }, JSON.stringify(header))
    }
  })

  it('holds tokens to their times, with five seconds of tolerance', async () => {
    const verifier = await verifierOf()
    await assert.rejects(verifier.verify(await make({ exp: NOW_S - 6 })), { code: 'token_expired' })
    assert.equal((await verifier.verify(await make({ exp: NOW_S - 2 }))).subject, 'ann')
    await assert.rejects(verifier.verify(await make({ exp: null })), { code: 'token_invalid' })
    await assert.rejects(verifier.verify(await make({ claims: { ...GOOD, nbf: NOW_S + 60 } })), {
      code: 'token_not_yet_valid',
    })
    assert.equal((await verifier.verify(await make({ claims: { ...GOOD, nbf: NOW_S + 3 } }))).subject, 'ann')
  })

  it('refuses what is no token, without looking at keys', async () => {
    const verifier = await verifierOf()
    looksUp = 0
    for (const text of ['', 'a.b', 'a.b.c', 'a.b.c.d', `${'a'.repeat(9000)}.b.c`, `${segment([])}.${segment(1)}.c`]) {
      await assert.rejects(verifier.verify(text), { code: 'token_malformed' }, text.slice(0, 20))
    }
    assert.equal(looksUp, 0)
  })

  it('says nothing of the token in its refusals', async () => {
    const verifier = await verifierOf()
    const error: Error = await verifier
      .verify(await make({ claims: { ...GOOD, tenant_id: 'Not A Tenant' } }))
      .catch((e) => e)
    assert.doesNotMatch(error.message, /Not A Tenant/)
  })
})

describe('claims', () => {
  const claim = async (claims: JWTPayload, changes: Partial<TrustedIssuer> = {}) =>
    (await verifierOf(changes)).verify(await make({ claims: { sub: 'ann', ...claims } }))
  const refused = { code: 'token_claim_refused' }

  it('name one tenant, and only one that the issuer may claim', async () => {
    for (const tenant_id of [['acme'], ['acme', 'globex'], 7, '', 'ACME', 'a--b', 'x'.repeat(41), 'acme ']) {
      await assert.rejects(claim({ tenant_id }), refused, JSON.stringify(tenant_id))
    }
    const tenants = new Set(['acme'])
    assert.equal((await claim({ tenant_id: 'acme' }, { tenants })).tenant, 'acme')
    await assert.rejects(claim({ tenant_id: 'globex' }, { tenants }), refused)
    assert.equal((await claim({})).tenant, null)
  })

  it('make administrators only where the issuer may', async () => {
    const mayClaimAdmin = true
    for (const claims of [{ roles: ['admin'] }, { realm_access: { roles: ['x', 'admin'] } }]) {
      assert.equal((await claim(claims, { mayClaimAdmin })).isAdmin, true)
      await assert.rejects(claim(claims), refused)
    }
    assert.equal(
      (await claim({ roles: ['Admin', 'administrator'], groups: ['admin'] }, { mayClaimAdmin })).isAdmin,
      false,
    )
    await assert.rejects(claim({ roles: 'admin' }, { mayClaimAdmin }), refused)
  })

  it('give rights of groups only inside a tenant', async () => {
    const inside = await claim({ tenant_id: 'acme', groups: ['/svc-viewers'] })
    assert.deepEqual([inside.isViewer, inside.isDeveloper], [true, false])
    const outside = await claim({ groups: ['svc-developers', 'svc-viewers'] })
    assert.deepEqual([outside.isViewer, outside.isDeveloper], [false, false])
    const nested = await claim({ tenant_id: 'acme', groups: ['/other/svc-developers'] })
    assert.equal(nested.isDeveloper, false)
  })

  it('are refused in shapes that are not understood', async () => {
    const bad: JWTPayload[] = [
      { groups: 'svc-viewers' },
      { groups: [1] },
      { groups: Array.from({ length: 201 }, (_, index) => `g${index}`) },
      { clearance: 'top-secret' },
      { clearance: ['internal'] },
      { email: 'a\nb' },
      { sub: 'a\0b' },
      { sub: '' },
    ]
    for (const claims of bad) await assert.rejects(claim(claims), refused, JSON.stringify(claims).slice(0, 60))
  })

  it('can have other names, with paths into objects and names with dots', async () => {
    const claims = {
      ...DEFAULT_CLAIMS,
      tenant: 'https://example.com/tenant',
      roles: 'app.rights.list',
      groups: 'teams',
    }
    const principal = await claim(
      {
        'https://example.com/tenant': 'acme',
        tenant_id: 'globex',
        app: { rights: { list: ['admin'] } },
        teams: ['svc-viewers'],
        roles: ['x'],
      },
      { claims, mayClaimAdmin: true },
    )
    assert.deepEqual([principal.tenant, principal.isAdmin, principal.isViewer], ['acme', true, true])
    const other = await claim({ realm_access: { roles: ['admin'] } }, { claims, mayClaimAdmin: true })
    assert.equal(other.isAdmin, false)
  })
})

describe('the cache of verified tokens', () => {
  it('spares verifying for a minute, and never past the end of the token', async () => {
    let nowMs = NOW_S * 1000
    const verifier = await verifierOf({}, () => nowMs)
    const long = await make()
    const short = await make({ exp: NOW_S + 10 })
    assert.equal(verifier.cached(long, {}), null)
    await verifier.verify(long)
    await verifier.verify(short)
    assert.equal(verifier.cached(long, {})?.subject, 'ann')
    nowMs += 9_999
    assert.equal(verifier.cached(short, {})?.subject, 'ann')
    nowMs += 1
    assert.equal(verifier.cached(short, {}), null)
    nowMs = NOW_S * 1000 + 59_999
    assert.equal(verifier.cached(long, {})?.subject, 'ann')
    nowMs += 1
    assert.equal(verifier.cached(long, {}), null)
  })

  it('verifies anew when the clock was set back: how long ago it was, nobody knows', async () => {
    let nowMs = NOW_S * 1000
    const verifier = await verifierOf({}, () => nowMs)
    const [token, connection] = [await make(), {}]
    await verifier.verify(token)
    assert.equal(verifier.cached(token, connection)?.subject, 'ann')
    nowMs -= 1
    assert.equal(verifier.cached(token, connection), null)
    assert.equal(verifier.cached(token, {}), null)
  })

  it('knows the token of a connection no longer than any other', async () => {
    let nowMs = NOW_S * 1000
    const verifier = await verifierOf({}, () => nowMs)
    const [token, other] = [await make(), await make({ claims: { ...GOOD, sub: 'bob' } })]
    const connection = {}
    await verifier.verify(token)
    assert.equal(verifier.cached(token, connection)?.subject, 'ann')
    assert.equal(verifier.cached(token, connection)?.subject, 'ann')
    assert.equal(verifier.cached(other, connection), null)
    await verifier.verify(other)
    assert.equal(verifier.cached(other, connection)?.subject, 'bob')
    nowMs += 60_000
    assert.equal(verifier.cached(other, connection), null)
    await verifier.verify(other)
    assert.equal(verifier.cached(other, connection)?.subject, 'bob')
  })

  it('verifies a token once that many ask for at the same time', async () => {
    const verifier = await verifierOf()
    const token = await make()
    looksUp = 0
    await Promise.all(Array.from({ length: 20 }, () => verifier.verify(token)))
    assert.equal(looksUp, 1)
  })

  it('keeps no refused token', async () => {
    const verifier = await verifierOf()
    const token = await make({ aud: 'another' })
    await assert.rejects(verifier.verify(token))
    assert.equal(verifier.cached(token, {}), null)
  })
})
