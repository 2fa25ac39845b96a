import assert from 'node:assert/strict'
import { chmod, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { decodeProtectedHeader } from 'jose'
import { EmbeddedIssuer, issueToken, MAX_TOKEN_TTL_S } from './embedded-issuer.ts'
import { type IssuerKey, keyFilePath, openKeyFile, readKeyFile, rotateKeys } from './key-file.ts'
import { TokenVerifier } from './verifier.ts'

const WHERE = { issuer: 'http://localhost:8080/oidc', audience: 'sluice' }
const ANN = { tenant: 'acme', groups: ['svc-viewers'], user: 'ann', clearance: 'public' } as const

describe('the embedded issuer', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-issuer-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const open = (nowMs?: () => number): Promise<EmbeddedIssuer> =>
    EmbeddedIssuer.open({ ...WHERE, dataDirectory: folder, ...(nowMs && { nowMs }) })
  const verifierOf = (issuer: EmbeddedIssuer): TokenVerifier => new TokenVerifier({ issuers: [issuer.trusted()] })

  it('verifies the tokens that the command signs from the folder alone', async () => {
    const verifier = verifierOf(await open())
    const ann = await verifier.verify(await issueToken(folder, ANN, { ttlS: 60 }))
    assert.deepEqual(
      [ann.tenant, ann.subject, ann.isViewer, ann.isAdmin, ann.claimedClearance],
      ['acme', 'ann', true, false, 'public'],
    )
    const root = await verifier.verify(await issueToken(folder, { role: 'admin' }, { ttlS: 60 }))
    assert.deepEqual([root.tenant, root.isAdmin], [null, true])
  })

  it('keeps its keys private and over a restart', async () => {
    const token = await (await open()).issue(ANN, { ttlS: 60 })
    assert.equal((await stat(keyFilePath(folder))).mode & 0o777, 0o600)
    assert.equal((await verifierOf(await open()).verify(token)).subject, 'ann')
    assert.deepEqual(await readdir(folder), ['issuer-keys.json'])
  })

  it('makes one set of keys, however many processes start at once', async () => {
    const files = await Promise.all(Array.from({ length: 8 }, () => openKeyFile(folder, WHERE.issuer, WHERE.audience)))
    assert.equal(new Set(files.map((file) => file.keys[0]?.kid)).size, 1)
    assert.equal((await readdir(folder)).length, 1)
  })

  it('refuses keys that others can read, links and files that are none', async () => {
    await open()
    await chmod(keyFilePath(folder), 0o640)
    await assert.rejects(open(), { code: 'issuer_keys_unsafe' })
    await assert.rejects(issueToken(folder, ANN, { ttlS: 60 }), { code: 'issuer_keys_unsafe' })
    await rm(keyFilePath(folder))
    await symlink('/dev/null', keyFilePath(folder))
    await assert.rejects(open(), { code: 'issuer_keys_unsafe' })
    await rm(keyFilePath(folder))
    await writeFile(keyFilePath(folder), '{"keys":[]}', { mode: 0o600 })
    await assert.rejects(open(), { code: 'issuer_keys_broken' })
    await rm(keyFilePath(folder))
    await assert.rejects(issueToken(folder, ANN, { ttlS: 60 }), { code: 'issuer_keys_missing' })
    // What cannot be looked at may be there.
    const refused = issueToken(join(folder, 'x'.repeat(300)), ANN, { ttlS: 60 })
    await assert.rejects(refused, { code: 'issuer_keys_broken', message: /cannot be read: / })
  })

  it('takes tokens of a new key while it runs, and of the former one until they have ended', async () => {
    let nowMs = Date.now()
    const issuer = await open(() => nowMs)
    const verifier = new TokenVerifier({ issuers: [issuer.trusted()], nowMs: () => nowMs })
    const old = await issueToken(folder, ANN, { ttlS: 3600 })
    const kid = await rotateKeys(folder, 3600, nowMs)
    const fresh = await issueToken(folder, ANN, { ttlS: 3600 })
    assert.equal(decodeProtectedHeader(fresh).kid, kid)
    assert.equal((await verifier.verify(fresh)).subject, 'ann')
    assert.equal((await verifier.verify(old)).subject, 'ann')
    assert.equal(issuer.jwks().keys.length, 2)
    nowMs += 3600_000
    assert.deepEqual(
      issuer.jwks().keys.map((key) => key.kid),
      [kid],
    )
  })

  it('keeps every key that is added, however many rotate at once and beside a start at another address', async () => {
    const issuer = await open()
    const starts = ['http://127.0.0.1:1/oidc', 'http://127.0.0.1:2/oidc']
    const [kids] = await Promise.all([
      Promise.all(Array.from({ length: 6 }, () => rotateKeys(folder, 3600))),
      ...starts.map((address) => openKeyFile(folder, address, WHERE.audience)),
    ])
    const { keys, issuer: address } = await readKeyFile(folder)
    const published = keys.map(({ kid }) => kid)
    assert.deepEqual(new Set(published), new Set([...kids, ...issuer.jwks().keys.map((key) => key.kid as string)]))
    assert.equal(published.length, 7)
    assert.equal(keys.filter(({ retireAt }) => retireAt === null).length, 1)
    assert.ok(starts.includes(address))
  })

  it('makes no key whose place another has, as long as tokens of that are good', async () => {
    await open()
    const nowMs = Date.now()
    const file = await readKeyFile(folder)
    const [key] = file.keys as [IssuerKey]
    const retireAt = new Date(nowMs + 1000).toISOString()
    const former = Array.from({ length: 99 }, (_, at) => ({ ...key, kid: `former-${at}`, retireAt }))
    await writeFile(keyFilePath(folder), JSON.stringify({ ...file, keys: [key, ...former] }))
    await assert.rejects(rotateKeys(folder, 60, nowMs), { code: 'issuer_keys_many', kind: 'CONFIG' })
    await rotateKeys(folder, 60, nowMs + 1000)
    assert.equal((await readKeyFile(folder)).keys.length, 2)
  })

  it('takes tokens of a new key at once when the clock was set back since it read its keys', async () => {
    let nowMs = Date.now() + 10 * 3_600_000
    const issuer = await open(() => nowMs)
    const verifier = new TokenVerifier({ issuers: [issuer.trusted()], nowMs: () => nowMs })
    for (const jumpMs of [0, 10 * 3_600_000]) {
      nowMs -= jumpMs
      const kid = await rotateKeys(folder, 24 * 3600, nowMs)
      const fresh = await issueToken(folder, ANN, { ttlS: 3600, nowMs })
      assert.equal(decodeProtectedHeader(fresh).kid, kid)
      assert.equal((await verifier.verify(fresh)).subject, 'ann')
    }
  })

  it('publishes no private part of a key', async () => {
    const issuer = await open()
    await rotateKeys(folder, 60)
    for (const key of issuer.jwks().keys) {
      assert.deepEqual(Object.keys(key).toSorted(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
    }
    assert.match(await readFile(keyFilePath(folder), 'utf8'), /"d":/)
  })

  it('signs for a day at most', async () => {
    const issuer = await open()
    for (const ttlS of [0, -1, 1.5, Number.NaN, MAX_TOKEN_TTL_S + 1]) {
      await assert.rejects(issuer.issue(ANN, { ttlS }), { code: 'token_ttl_invalid' }, String(ttlS))
    }
  })

  it('takes tokens only under the address that it has now', async () => {
    const token = await (await open()).issue(ANN, { ttlS: 60 })
    const moved = await EmbeddedIssuer.open({ ...WHERE, issuer: 'https://data.example/oidc', dataDirectory: folder })
    await assert.rejects(verifierOf(moved).verify(token), { code: 'token_invalid' })
    assert.equal((await verifierOf(moved).verify(await issueToken(folder, ANN, { ttlS: 60 }))).subject, 'ann')
  })

  it('names the same people under another address', async () => {
    const before = await open()
    const first = await verifierOf(before).verify(await before.issue(ANN, { ttlS: 60 }))
    const moved = await EmbeddedIssuer.open({ ...WHERE, issuer: 'http://localhost:9/oidc', dataDirectory: folder })
    const second = await verifierOf(moved).verify(await moved.issue(ANN, { ttlS: 60 }))
    assert.deepEqual([second.issuer, second.subject], [first.issuer, first.subject])
  })
})
