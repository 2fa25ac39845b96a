/**
 * A bucket and a registry that do not belong together: whichever was lost or exchanged, nothing that the registry does not
 * know is written to, overwritten or removed, and who asks is told which it is.
 */
import assert from 'node:assert/strict'
import { cp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Lake, TableRef } from '@sluice/iceberg'
import { commitStep, type Step, stageStep } from '@sluice/iceberg/testing'
import { registryCatalog, strangeBucket } from './registry-catalog.ts'
import { type RegistryLake, startRegistryLake } from './testing.ts'

const STEP: Step = {
  select: 'SELECT 1 AS id',
  schema: { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: [] },
  operation: 'replace',
}

let test: RegistryLake
let tenants = 0

before(async () => {
  test = await startRegistryLake()
})
after(() => test?.[Symbol.asyncDispose]())

/** A lake that remembers nothing of the one that was looked at before. One child of the engine writes for all. */
const lake = (): Lake => test.aside.lakeFor(test.lake).fresh()
const anew = (): RegistryLake => ({ ...test, lake: lake() })
const forgetOwner = async (tenant: string) => registryCatalog(test.pool).owners?.drop(tenant)
const bucketOf = (tenant: string) => join(test.dir, 'store', `sluice-${tenant}`)

async function contentOf(folder: string): Promise<Readonly<Record<string, string>>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return Object.fromEntries(
    await Promise.all(files.map(async (file) => [file.slice(folder.length), await readFile(file, 'base64')] as const)),
  )
}

/** A tenant with a table. */
async function tenantWithRows(): Promise<TableRef> {
  tenants += 1
  const ref = { warehouse: `own${tenants}`, namespace: 'crm', table: 'people' }
  await lake().provision(ref.warehouse)
  await commitStep(anew(), ref, STEP)
  return ref
}

/** What has become of the bucket of a tenant; `null` of who is told nothing. */
const DAMAGES: Readonly<Record<string, { code: string | null; harm(ref: TableRef): Promise<unknown> }>> = {
  'is emptied': {
    code: 'lake_emptied',
    harm: ({ warehouse: tenant }) => rm(join(bucketOf(tenant), tenant), { recursive: true }),
  },
  'is gone': { code: 'lake_emptied', harm: ({ warehouse: tenant }) => rm(bucketOf(tenant), { recursive: true }) },
  'is another installation’s': {
    code: 'lake_foreign',
    async harm({ warehouse: tenant }) {
      const other = await tenantWithRows()
      await rm(bucketOf(tenant), { recursive: true })
      await cp(bucketOf(other.warehouse), bucketOf(tenant), { recursive: true })
      await rename(join(bucketOf(tenant), other.warehouse), join(bucketOf(tenant), tenant))
    },
  },
  'holds another’s files, without a mark': {
    code: 'lake_foreign',
    async harm({ warehouse: tenant }) {
      await rm(bucketOf(tenant), { recursive: true })
      await test.store.put(`sluice-${tenant}/${tenant}/crm/orders/data/a.parquet`, Buffer.from('rows'))
    },
  },
  'has lost its mark alone': {
    code: null,
    harm: ({ warehouse: tenant }) => rm(join(bucketOf(tenant), tenant, 'owner.json')),
  },
  'was made before there were marks': {
    code: null,
    async harm({ warehouse: tenant }) {
      await rm(join(bucketOf(tenant), tenant, 'owner.json'))
      await forgetOwner(tenant)
    },
  },
  'has its mark, and a registry from before it': { code: null, harm: ({ warehouse: tenant }) => forgetOwner(tenant) },
}

describe('the bucket of a tenant', () => {
  for (const [what, { code, harm }] of Object.entries(DAMAGES)) {
    it(`${what}: ${code ?? 'goes on'}`, async () => {
      const ref = await tenantWithRows()
      const kept = await contentOf(bucketOf(ref.warehouse))
      await harm(ref)
      const found = await contentOf(bucketOf(ref.warehouse))
      const looked = await lake().look(ref.warehouse)
      if (code === null) {
        assert.equal(looked, 'own')
        await commitStep(anew(), ref, STEP)
        await lake().drop(ref.warehouse)
        assert.deepEqual(await contentOf(bucketOf(ref.warehouse)), {})
        return
      }
      assert.equal(looked, code.slice('lake_'.length))
      assert.equal(await strangeBucket(test.pool, ref.warehouse), looked)
      const base = { base: null, operation: 'replace', files: [], summary: {} } as const
      const signal = AbortSignal.timeout(60_000)
      for (const work of [
        () => lake().load(ref),
        () => stageStep(anew(), { ...ref, table: 'others' }, STEP),
        () => lake().stage(ref, base),
        () => lake().noteNewest(ref, null, {}),
        () => lake().forgetNewest(ref),
        () => lake().clean({ ...ref, table: 'orders' }, { minAgeMs: 0 }, signal),
      ]) {
        await assert.rejects(work, { kind: 'CONFLICT', code }, String(work))
      }
      await lake().purgeTable({ ...ref, table: 'orders' })
      assert.deepEqual(await contentOf(bucketOf(ref.warehouse)), found, 'nothing was changed')

      await rm(bucketOf(ref.warehouse), { recursive: true, force: true })
      for (const [file, text] of Object.entries(kept)) {
        await test.store.put(`sluice-${ref.warehouse}${file}`, Buffer.from(text, 'base64'))
      }
      assert.equal(await lake().look(ref.warehouse), 'own', 'it is right once it was put back')
      assert.equal(await strangeBucket(test.pool, ref.warehouse), null)
      await commitStep(anew(), ref, STEP)

      await harm(ref)
      const left = await contentOf(bucketOf(ref.warehouse))
      await lake().drop(ref.warehouse)
      assert.deepEqual(await contentOf(bucketOf(ref.warehouse)), left, 'what is not the tenant’s outlives it')
    })
  }

  it('is not taken for a new tenant’s where a registry was lost beside it, nor removed when that is given up', async () => {
    const { warehouse: tenant } = await tenantWithRows()
    await registryCatalog(test.pool).dropWarehouse(tenant)
    await forgetOwner(tenant)
    const found = await contentOf(bucketOf(tenant))
    await assert.rejects(lake().provision(tenant), { kind: 'CONFLICT', code: 'lake_foreign' })
    await lake().drop(tenant)
    assert.deepEqual(await contentOf(bucketOf(tenant)), found)
    assert.ok((await lake().bucketCount()) > 0)
  })

  it('is looked at again by who replaces a table, however lately it was right', async () => {
    const ref = await tenantWithRows()
    const one = lake()
    await one.requireOwn(ref.warehouse)
    await rm(bucketOf(ref.warehouse), { recursive: true })
    await assert.rejects(stageStep({ ...test, lake: one }, { ...ref, table: 'others' }, STEP), { code: 'lake_emptied' })
    assert.deepEqual(await contentOf(bucketOf(ref.warehouse)), {}, 'nothing is written into its place')
    assert.equal(await strangeBucket(test.pool, ref.warehouse), 'emptied')
  })

  it('is given one mark by however many look at it at once', async () => {
    const { warehouse: tenant } = await tenantWithRows()
    await rm(join(bucketOf(tenant), tenant, 'owner.json'))
    await forgetOwner(tenant)
    const found = await Promise.all(Array.from({ length: 8 }, () => lake().look(tenant)))
    assert.deepEqual(new Set(found), new Set(['own']))
    assert.equal(await lake().look(tenant), 'own')
  })

  it('is made again after the last making was given up at any of its steps', async () => {
    tenants += 1
    const tenant = `own${tenants}`
    await lake().provision(tenant)
    await lake().provision(tenant)
    await commitStep(anew(), { warehouse: tenant, namespace: 'crm', table: 'people' }, STEP)
    // A drop that ended after it had removed some files.
    await test.pool.query(`update lake_owners set state = 'dropping' where catalog_name = $1`, [`lakehouse_${tenant}`])
    await rm(join(bucketOf(tenant), tenant, 'owner.json'))
    await registryCatalog(test.pool).dropWarehouse(tenant)
    await lake().drop(tenant)
    assert.deepEqual(await contentOf(bucketOf(tenant)), {})
    await lake().provision(tenant)
    await Promise.all([lake().look(tenant), lake().provision(tenant)])
    assert.equal(await lake().look(tenant), 'own')
  })
})
