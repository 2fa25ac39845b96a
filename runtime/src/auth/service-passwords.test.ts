import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { hideKeys } from '../assembly/logger.ts'
import { newPassword, verifierOf } from '../registry/scram-verifiers.ts'
import type { PresentedPassword } from '../registry/service-passwords.ts'
import { isPasswordUser, PasswordAuthenticator, type PasswordStore } from './service-passwords.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const ID = `svp_${'0'.repeat(24)}`
const SECRET = Buffer.alloc(32, 1)

const stored: PresentedPassword = {
  id: ID,
  tenant: 'acme',
  name: 'dashboards',
  group: 'sales',
  clearance: 'public',
  createdBy: { issuer: 'https://id.example', subject: 'root' },
  createdAt: new Date(NOW_MS - 1000),
  expiresAt: new Date(NOW_MS + 1000),
  lastUsedAt: null,
  verifier: await verifierOf(newPassword()),
  isUseDue: true,
}

describe('service passwords', () => {
  let log: string[]
  const passwordsWith = (found: PresentedPassword | null, nowMs = NOW_MS, secret = SECRET) => {
    log = []
    const store: PasswordStore = {
      async find(user) {
        log.push(`find ${user}`)
        return user === ID ? found : null
      },
      recordUse: async (user) => void log.push(`use ${user}`),
    }
    return new PasswordAuthenticator(store, secret, () => nowMs)
  }

  it('name a viewer of the tenant who is in their group, is nobody else and no developer', async () => {
    assert.deepEqual(await passwordsWith({ ...stored, group: 'svc-developers' }).principalOf(ID), {
      issuer: 'urn:sluice:service-password',
      subject: ID,
      tenant: 'acme',
      groups: ['svc-developers'],
      isAdmin: false,
      isDeveloper: false,
      isViewer: true,
      claimedClearance: 'public',
      email: null,
      tokenExpiresAtMs: NOW_MS + 1000,
      tokenIssuedAtMs: NOW_MS - 1000,
    })
    assert.deepEqual(log, [`find ${ID}`, `use ${ID}`])
    await passwordsWith({ ...stored, isUseDue: false }).principalOf(ID)
    assert.deepEqual(log, [`find ${ID}`], 'the last use is not written at every use')
  })

  it('are good until they are deleted or expire', async () => {
    await assert.rejects(passwordsWith(stored, NOW_MS + 1000).principalOf(ID), { code: 'token_expired' })
    await assert.rejects(passwordsWith(null).principalOf(ID), { code: 'token_invalid' })
    assert.deepEqual(log, [`find ${ID}`], 'the use of one that is gone is not written')
    const lasting = await passwordsWith({ ...stored, expiresAt: null }, NOW_MS * 2).principalOf(ID)
    assert.equal(lasting.tokenExpiresAtMs, Number.POSITIVE_INFINITY)
  })

  it('are not told from names that nobody has', async () => {
    const passwords = passwordsWith(stored)
    const real = await passwords.verifierOf(ID)
    assert.equal(real, stored.verifier)
    const other = `svp_${'1'.repeat(24)}`
    const [first, second, different] = await Promise.all([other, other, 'svp_'].map((one) => passwords.verifierOf(one)))
    assert.deepEqual(log, [`find ${ID}`, ...[other, other, 'svp_'].map((one) => `find ${one}`)])
    assert.deepEqual(first, second, 'a name has one salt, however often it is asked for')
    assert.deepEqual(await passwordsWith(null).verifierOf(other), first, 'and at every runtime')
    assert.notDeepEqual(first?.salt, different?.salt)
    assert.notDeepEqual((await passwordsWith(null, NOW_MS, Buffer.alloc(32, 2)).verifierOf(other)).salt, first?.salt)
    for (const part of ['salt', 'storedKey', 'serverKey'] as const) {
      assert.equal(first?.[part].length, real[part].length, part)
    }
    assert.equal(first?.iterations, real.iterations)
  })

  it('are of users whose names say so', () => {
    assert.deepEqual([ID, 'svp_', 'svp_anything'].map(isPasswordUser), [true, true, true])
    assert.deepEqual(['', 'svp', 'vera', ' svp_1', 'SVP_1'].map(isPasswordUser), [false, false, false, false, false])
  })

  it('are hidden wherever a line of the log has one', () => {
    const password = newPassword()
    assert.match(password, /^slp_[0-9a-f]{64}$/)
    assert.equal(hideKeys(`{"error":"${password} at x, svp_1"}\n`), '{"error":"slp_******** at x, svp_1"}\n')
    assert.ok(!hideKeys(password.slice(0, -20)).includes(password.slice(8, 24)))
  })
})
