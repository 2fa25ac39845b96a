import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Lake, type TableRef, tablePath } from '@sluice/iceberg'
import { commitStep, publish, readScan, stageStep } from '@sluice/iceberg/testing'
import type { TableSchema } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from './registry-catalog.ts'
import { TENANT_LAYOUT } from './tenant-layout.ts'
import { lakeBytes, type RegistryLake, startRegistryLake } from './testing.ts'

let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: ['id'] }
const HOUR_MS = 3_600_000
const signal = () => AbortSignal.timeout(600_000)

const newRef = (tenant = 'acme'): TableRef => ({ warehouse: tenant, namespace: 'kept', table: `t_${randomUUID()}` })
const replace = (id: number) => ({ operation: 'replace', schema: SCHEMA, select: `SELECT ${id} AS id` }) as const
const filesOf = async (ref: TableRef) =>
  (await Array.fromAsync(lake.store.list(tablePath(TENANT_LAYOUT, ref)))).map(({ path }) => path).sort()

/** Makes every file of the table look as old. */
async function age(ref: TableRef, hours: number): Promise<void> {
  const at = new Date(Date.now() - hours * HOUR_MS)
  for (const path of await filesOf(ref)) await utimes(lake.store.localPath(path), at, at)
}

test('cleaning keeps whatever a snapshot reaches, and takes what none does', async () => {
  const ref = newRef()
  const first = await commitStep(lake, ref, replace(1))
  await commitStep(lake, ref, replace(2))
  const kept = await filesOf(ref)
  const lost = await stageStep(lake, ref, replace(3))
  await lake.pool.query('delete from lake_writes')
  await age(ref, 48)
  const result = await lake.lake.clean(ref, { minAgeMs: 24 * HOUR_MS }, signal())
  assert.ok(result.removedFiles >= 4)
  assert.deepEqual(await filesOf(ref), kept)
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref, { snapshotId: first.snapshotId as string })), [[1]])
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [[2]])
  await assert.rejects(lake.store.get(lake.store.pathOf(lost.to) as string), { code: 'object_missing' })
})

test('cleaning keeps the statistics that current metadata names, or metadata that was current lately', async () => {
  const ref = newRef()
  const start = Date.now()
  /** A commit whose metadata names these files instead of former ones, as an engine's would. */
  const withStatistics = async (id: number, kinds: Readonly<Record<string, string>>) => {
    const { to, snapshotId } = await commitStep(lake, ref, replace(id))
    const file = lake.store.localPath(lake.store.pathOf(to) as string)
    const parts = await Promise.all(
      Object.entries(kinds).map(async ([kind, name]) => {
        const path = `${tablePath(TENANT_LAYOUT, ref)}/metadata/${name}`
        await writeFile(lake.store.localPath(path), 'puffin')
        return `,"${kind}":[{"snapshot-id":${snapshotId},"statistics-path":${JSON.stringify(lake.store.uri(path))}}]`
      }),
    )
    await writeFile(file, (await readFile(file, 'utf8')).replace(/\}\s*$/, `${parts.join('')}}`))
  }
  await withStatistics(1, { statistics: 'old.puffin' })
  await withStatistics(2, { statistics: 'new.puffin', 'partition-statistics': 'parts.parquet' })
  await writeFile(lake.store.localPath(`${tablePath(TENANT_LAYOUT, ref)}/metadata/none.puffin`), 'puffin')
  await age(ref, 100)
  const cleaned = async (hours: number) => {
    const { store, pool, engine } = lake
    const fresh = new Lake({ store, catalog: registryCatalog(pool), engine, clock: () => start + hours * HOUR_MS })
    await fresh.clean(ref, { minAgeMs: 24 * HOUR_MS }, signal())
    const names = (await filesOf(ref)).map((path) => path.slice(path.lastIndexOf('/') + 1))
    return names.filter((name) => /puffin|parts/.test(name))
  }
  assert.deepEqual(await cleaned(1), ['new.puffin', 'old.puffin', 'parts.parquet'])
  assert.deepEqual(await cleaned(30), ['new.puffin', 'parts.parquet'])
})

test('young files and tables with an open write are left alone', async () => {
  const ref = newRef()
  await commitStep(lake, ref, replace(1))
  const young = await stageStep(lake, ref, replace(2))
  await lake.pool.query('delete from lake_writes')
  assert.equal((await lake.lake.clean(ref, { minAgeMs: 24 * HOUR_MS }, signal())).removedFiles, 0)
  const leased = await stageStep(lake, ref, replace(3))
  await age(ref, 48)
  assert.deepEqual(await lake.lake.clean(ref, { minAgeMs: 24 * HOUR_MS }, signal()), {
    removedFiles: 0,
    removedBytes: 0,
    storedBytes: null,
  })
  await publish(lake, leased)
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [[3]])
  await assert.rejects(publish(lake, young), { code: 'lake_commit_conflict' })
})

test('an expired snapshot is gone, its files go once no reader of that time is left, a tag keeps it', async () => {
  const ref = newRef()
  const start = Date.now()
  lake.setTime(start)
  const [first, second] = [await commitStep(lake, ref, replace(1)), await commitStep(lake, ref, replace(2))]
  await commitStep(lake, ref, replace(3))
  const state = async () => {
    const loaded = await lake.lake.load(ref)
    assert.ok(loaded)
    return loaded
  }
  await publish(lake, await lake.lake.stageTags(await state(), { 'release-1': second.snapshotId }))
  const ids = [first.snapshotId as string]
  await assert.rejects(async () => lake.lake.stageExpiry(await state(), [second.snapshotId as string]), {
    code: 'lake_update_invalid',
  })
  lake.setTime(start + HOUR_MS)
  await publish(lake, await lake.lake.stageExpiry(await state(), ids))
  await assert.rejects(lake.lake.scan(ref, { snapshotId: ids[0] as string }), {
    kind: 'INVALID_DATA',
    code: 'snapshot_not_found',
  })
  await age(ref, 100)
  lake.setTime(start + 2 * HOUR_MS)
  assert.equal((await lake.lake.clean(ref, { minAgeMs: 24 * HOUR_MS }, signal())).removedFiles, 0)
  lake.setTime(start + 30 * HOUR_MS)
  assert.ok((await lake.lake.clean(ref, { minAgeMs: 24 * HOUR_MS }, signal())).removedFiles > 0)
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref, { tag: 'release-1' })), [[2]])
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [[3]])
  lake.setTime(Date.now())
})

test('the count of bytes is what lies in the object store', async () => {
  const ref = newRef('counted')
  await lake.lake.provision('counted')
  assert.equal(await lakeBytes(lake.pool, 'counted'), 0)
  await commitStep(lake, ref, replace(1))
  await commitStep(lake, ref, replace(2))
  const all = await Array.fromAsync(lake.store.list('sluice-counted'))
  // The bucket's own mark is no table's.
  const listed = all.filter(({ path }) => !path.endsWith('/owner.json'))
  assert.equal(
    await lakeBytes(lake.pool, 'counted'),
    listed.reduce((sum, file) => sum + file.sizeBytes, 0),
  )
  const lost = await stageStep(lake, ref, replace(3))
  await lake.pool.query('delete from lake_writes')
  await age(ref, 48)
  const { storedBytes } = await lake.lake.clean(ref, { minAgeMs: HOUR_MS }, signal())
  assert.equal(await lakeBytes(lake.pool, 'counted'), storedBytes)
  assert.ok(lost.addedBytes > 0)
})

test('a tenant that is dropped leaves nothing, and its neighbour all', async () => {
  const [gone, stays] = [newRef('gone'), newRef('gone2')]
  for (const ref of [gone, stays]) {
    await lake.lake.provision(ref.warehouse)
    await lake.lake.provision(ref.warehouse)
    await commitStep(lake, ref, replace(1))
  }
  await lake.lake.drop('gone')
  await lake.lake.drop('gone')
  for (const table of ['iceberg_tables', 'iceberg_namespace_properties', 'lake_storage', 'lake_writes']) {
    const { rows } = await lake.pool.query(`select 1 from ${table} where catalog_name = 'lakehouse_gone'`)
    assert.deepEqual(rows, [], table)
  }
  assert.ok(!(await readdir(join(lake.dir, 'store'))).includes('sluice-gone'))
  assert.deepEqual(await lake.lake.tables('gone'), [])
  assert.deepEqual(await readScan(lake, await lake.lake.scan(stays)), [[1]])
})

test('a dropped table is purged, one in use is not', async () => {
  const ref = newRef()
  await commitStep(lake, ref, replace(1))
  await assert.rejects(lake.lake.purgeTable(ref), { code: 'lake_table_in_use' })
  await inTransaction(lake.pool, (client) => registryCatalog(client).dropPointer(ref))
  await assert.rejects(lake.lake.scan(ref), { code: 'lake_table_not_found' })
  await lake.lake.purgeTable(ref)
  assert.deepEqual(await filesOf(ref), [])
  await commitStep(lake, ref, replace(2))
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [[2]])
})

test('what is purged is what a table had when its name was free, and what a purge leaves is a lost table', async () => {
  const ref = newRef()
  const dropped = (table: TableRef) => inTransaction(lake.pool, (client) => registryCatalog(client).dropPointer(table))
  await commitStep(lake, ref, replace(1))
  const former = await lake.lake.filesToPurge(ref)
  await dropped(ref)
  const later = await stageStep(lake, ref, replace(2))
  for (let turn = 0; turn < 2; turn += 1) await lake.lake.purge(former)
  await publish(lake, later)
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [[2]])
  const left = await filesOf(ref)
  assert.ok(former.paths.length > 0 && former.paths.every((path) => !left.includes(path)))
  await lake.lake.noteNewest(ref, later.to, { epoch: 1 })
  await lake.lake.filesToPurge(ref)
  await dropped(ref)
  // The process has died here.
  await lake.pool.query('delete from lake_writes')
  assert.ok((await lake.lake.lostTables(ref.warehouse)).some(({ table }) => table === ref.table))
  await age(ref, 48)
  await lake.lake.clean(ref, { minAgeMs: 24 * HOUR_MS }, signal())
  assert.deepEqual(await filesOf(ref), [])
})

test('as of a moment, the snapshot that was current then', async () => {
  const ref = newRef()
  lake.setTime(1_000_000)
  await commitStep(lake, ref, replace(1))
  lake.setTime(2_000_000)
  await commitStep(lake, ref, replace(2))
  const rowsAsOf = async (ms: number) => readScan(lake, await lake.lake.scan(ref, { asOf: new Date(ms) }))
  assert.deepEqual(await rowsAsOf(1_999_999), [[1]])
  assert.deepEqual(await rowsAsOf(2_000_000), [[2]])
  await assert.rejects(rowsAsOf(999_999), { code: 'snapshot_not_found' })
  lake.setTime(Date.now())
})
