import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { raiseFence } from './fences.ts'
import { type MasterKeys, openMasterKeyFile } from './master-keys.ts'
import { type Materialization, recordBlocked, recordEpoch, reserveEpoch } from './materializations.ts'
import { keepProfiles, pastEpochs, profilesOf } from './past-epochs.ts'
import { createTenantKeys } from './tenant-keys.ts'
import { startTestRegistry, type TestRegistry } from './testing.ts'

let registry: TestRegistry
let masters: MasterKeys
let folder: string

before(async () => {
  registry = await startTestRegistry()
  folder = await mkdtemp(join(tmpdir(), 'sluice-past-epochs-'))
  masters = openMasterKeyFile(join(folder, 'master-keys.json'))
})
after(async () => {
  await registry[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

const MEASURED = { metric: 'distinct', column: 'email', value: 7, basis: 'b', lower: null, upper: null, epochs: 0 }

async function newProduct() {
  const tenant = await registry.tenant()
  await inTransaction(registry.pool, (tx) => createTenantKeys(tx, masters, tenant))
  return { tenant, productId: (await registry.product(tenant)).id }
}

function made(of: { readonly tenant: string; readonly productId: string }, checks: readonly object[]) {
  const none = { runId: null, version: '1.0.0', digest: 'd', maskedColumns: {}, inputs: {}, counts: {} }
  return { ...of, ...none, kind: 'materialize' as const, quality: { checks }, qualityScore: null }
}

async function epoch(
  of: { readonly tenant: string; readonly productId: string },
  checks: readonly object[],
  profiles: ReadonlyMap<string, unknown> = new Map(),
): Promise<Materialization> {
  const { token } = await inTransaction(registry.pool, (tx) => raiseFence(tx, of.productId))
  return inTransaction(registry.pool, async (tx) => {
    const reserved = await reserveEpoch(tx, of.productId, token)
    const kept = await recordEpoch(tx, reserved, { ...made(of, checks), snapshots: {} })
    await keepProfiles(tx, masters, kept, profiles)
    return kept
  })
}

test('what was published is told with what it measured, and nothing else', async () => {
  const of = await newProduct()
  await epoch(of, [{ name: 'a' }, { name: 'b', measured: MEASURED }])
  await recordBlocked(registry.pool, made(of, [{ name: 'b', measured: { ...MEASURED, value: 99 } }]))
  await epoch(of, [])
  const past = await pastEpochs(registry.pool, of.productId, 10)
  assert.deepEqual(
    past.map(({ epoch: number, measured }) => [number, measured]),
    [
      [2, []],
      [1, [MEASURED]],
    ],
  )
  assert.equal((await pastEpochs(registry.pool, of.productId, 1)).length, 1)
})

test('how values lay is sealed, for its product and column alone, and goes with its epoch', async () => {
  const of = await newProduct()
  const profile = { kind: 'numbers', edges: [123_456_789], counts: [1, 2] }
  const { id } = await epoch(of, [], new Map([['salary', profile]]))
  const found = await profilesOf(registry.pool, masters, of, [id, 'mat_none'])
  assert.deepEqual(found.get(id)?.get('salary'), profile)
  const { rows } = await registry.pool.query(
    'select encode(sealed, $2) as text from column_profiles where product_id = $1',
    [of.productId, 'escape'],
  )
  assert.equal(rows.length, 1)
  assert.doesNotMatch(rows[0].text, /123456789|edges/)
  const other = await newProduct()
  assert.equal((await profilesOf(registry.pool, masters, other, [id])).size, 0)
  const swapped = profilesOf(registry.pool, masters, { ...of, tenant: other.tenant }, [id])
  await assert.rejects(swapped, { code: 'secret_unreadable' })
  await registry.pool.query('update column_profiles set column_name = $2 where product_id = $1', [of.productId, 'wage'])
  await assert.rejects(profilesOf(registry.pool, masters, of, [id]), { code: 'secret_unreadable' })
  await registry.pool.query('delete from materializations where id = $1', [id])
  assert.equal((await profilesOf(registry.pool, masters, of, [id])).size, 0)
})
