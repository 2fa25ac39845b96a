import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import type { Principal } from '../flow.ts'
import { createApplicationKey, presentedKey, recordUse, refreshMaker } from './application-keys.ts'
import { ANN, startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

it('a key has what the newest token of its maker says, whichever is verified last', async () => {
  const tenant = await registry.tenant()
  const token = (issuedAtMs: number, groups: readonly string[], change: Partial<Principal> = {}) =>
    ({ ...ANN, tenant, groups, claimedClearance: null, tokenIssuedAtMs: issuedAtMs, ...change }) as Principal
  const id = `key_${tenant}`
  const wanted = { id, tenant, name: 'app', products: null, operations: ['read'], unmask: [] } as const
  const secretHash = Buffer.alloc(32, 1)
  const expiresAt = new Date(Date.now() + 60_000)
  await createApplicationKey(pool, { ...wanted, secretHash, expiresAt, maker: token(10_000, ['a']) })
  const groups = async () => (await presentedKey(pool, id))?.makerGroups
  await refreshMaker(pool, token(20_000, ['b']))
  assert.deepEqual(await groups(), ['b'])
  await refreshMaker(pool, token(15_000, ['a']))
  assert.deepEqual(await groups(), ['b'], 'an older token does not bring back what was taken')
  await refreshMaker(pool, token(20_000, []))
  assert.deepEqual(await groups(), [], 'of two of one second the one that comes last')
  await refreshMaker(pool, token(30_000, ['b']))
  await refreshMaker(pool, token(25_000, []))
  for (const other of [
    { subject: 'eve' },
    { issuer: 'https://other.example' },
    { tenant: 'other' },
    { tenant: null },
  ]) {
    await refreshMaker(pool, token(40_000, [], other))
  }
  assert.deepEqual(await groups(), ['b'], 'of nobody else')
  const kept = await presentedKey(pool, id)
  assert.deepEqual([kept?.secretHash, kept?.isUseDue, kept?.lastUsedAt], [secretHash, true, null])
  await recordUse(pool, id)
  const used = await presentedKey(pool, id)
  assert.equal((used?.lastUsedAt?.getTime() ?? 1) % 60_000, 0)
  await pool.query("update application_keys set last_used_at = now() - interval '10 seconds'")
  assert.equal((await presentedKey(pool, id))?.isUseDue, false)
  await pool.query("update tenants set status = 'deprovisioning' where slug = $1", [tenant])
  assert.equal(await presentedKey(pool, id), null)
})
