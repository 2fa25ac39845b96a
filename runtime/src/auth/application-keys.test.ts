import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { hideKeys } from '../assembly/logger.ts'
import type { Principal } from '../flow.ts'
import type { PresentedKey } from '../registry/application-keys.ts'
import { newKey } from '../registry/key-tokens.ts'
import { KeyAuthenticator, type KeyStore } from './application-keys.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const ANN = { issuer: 'https://id.example', subject: 'ann', tenant: 'acme' } as Principal

describe('keys of applications as tokens', () => {
  const { id, token, secretHash } = newKey()
  const stored: PresentedKey = {
    id,
    tenant: 'acme',
    name: 'shop',
    products: ['prd_1'],
    operations: ['read'],
    unmask: [],
    createdBy: { issuer: 'https://id.example', subject: 'ann' },
    createdAt: new Date(NOW_MS - 1000),
    expiresAt: new Date(NOW_MS + 1000),
    lastUsedAt: null,
    secretHash,
    makerGroups: ['svc-developers', 'sales'],
    makerClearance: null,
    clearance: null,
    isUseDue: true,
  }
  let log: string[]
  const keysWith = (found: PresentedKey | null, nowMs = NOW_MS) => {
    log = []
    const store: KeyStore = {
      find: async (wanted) => {
        log.push(`find ${wanted}`)
        return found
      },
      recordUse: async (used) => void log.push(`use ${used}`),
      refreshMaker: async ({ subject }) => void log.push(`maker ${subject}`),
    }
    const tokens = { cached: () => ANN, verify: async () => ANN }
    return new KeyAuthenticator(tokens, store, () => nowMs)
  }

  it('name a member of the tenant with the groups of their maker, and no developer', async () => {
    const { key, ...principal } = await keysWith(stored).verify(token)
    assert.deepEqual(
      [principal.subject, principal.tenant, principal.groups, principal.isViewer, principal.isDeveloper],
      [id, 'acme', stored.makerGroups, true, false],
    )
    assert.notEqual(principal.issuer, stored.createdBy.issuer)
    assert.deepEqual(key?.maker, stored.createdBy)
    assert.deepEqual(log, [`find ${id}`, `use ${id}`])
    const outsider = await keysWith({ ...stored, makerGroups: ['sales'], isUseDue: false }).verify(token)
    assert.equal(outsider.isViewer, false)
    assert.deepEqual(log, [`find ${id}`], 'the last use is not written at every use')
  })

  it('are looked up at every use', async () => {
    const keys = keysWith(stored)
    assert.equal(keys.cached(token, {}), null)
    await keys.verify(token)
    await keys.verify(token)
    assert.equal(log.filter((line) => line === `find ${id}`).length, 2)
    assert.equal(keys.cached('eyJ.other.token', {}), ANN)
  })

  it('are refused when they have expired, to whoever has the secret; others learn nothing', async () => {
    const late = NOW_MS + 1000
    await assert.rejects(keysWith(stored, late).verify(token), { code: 'token_expired' })
    const forged = token.slice(0, -64) + newKey().token.slice(-64)
    await assert.rejects(keysWith(stored, late).verify(forged), { code: 'token_invalid' })
    await assert.rejects(keysWith(null).verify(token), { code: 'token_invalid' })
    assert.deepEqual(log, [`find ${id}`])
    await assert.rejects(keysWith(stored).verify(token.slice(0, -1)), { code: 'token_malformed' })
    assert.deepEqual(log, [], 'nothing is asked for what cannot be a key')
  })

  it('follow the tokens of people', async () => {
    assert.equal(await keysWith(stored).verify('eyJ.other.token'), ANN)
    assert.deepEqual(log, ['maker ann'])
  })

  it('have the tokens of people told to the registry once for all who send one at once', async () => {
    const keys = keysWith(stored)
    const send = (name: string) => keys.verify(`eyJ.${name}.token`)
    assert.deepEqual(await Promise.all(['one', 'one', 'other', 'one'].map(send)), [ANN, ANN, ANN, ANN])
    assert.deepEqual(log, ['maker ann', 'maker ann'])
    await send('one')
    assert.equal(log.length, 3, 'what has been told is not remembered')
  })

  it('leave nothing of a token of a person that was refused', async () => {
    const refused = { cached: () => null, verify: () => Promise.reject(new Error('refused')) }
    const keys = new KeyAuthenticator(refused, { find: async () => null } as unknown as KeyStore)
    for (let times = 0; times < 2; times += 1)
      await assert.rejects(keys.verify('eyJ.other.token'), { message: 'refused' })
  })

  it('are hidden wherever a line of the log has one', () => {
    const line = `{"error":"Error: Bearer ${token} at x"}\n`
    assert.equal(hideKeys(line), '{"error":"Error: Bearer slk_******** at x"}\n')
    assert.ok(!hideKeys(token.slice(0, -20)).includes(token.slice(30, 44)))
  })
})
