import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { truncate, unlink, writeFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import type { TableRef } from './index.ts'
import { tablePath } from './table-ref.ts'
import { commitStep, LIMITS, publish, readScan, stageStep, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'part', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const signal = () => AbortSignal.timeout(600_000)
const newRef = (): TableRef => ({ warehouse: 'acme', namespace: 'kept', table: `t_${randomUUID()}` })
const append = (id: number, part = 'a') =>
  ({ operation: 'append', schema: SCHEMA, select: `SELECT ${id} AS id, '${part}' AS part` }) as const
const compact = (ref: TableRef, minFiles = 3) => lake.lake.stageCompaction(ref, { minFiles, limits: LIMITS }, signal())

test('compaction changes files, not rows, and the history before it stays', async () => {
  const ref = newRef()
  const first = await commitStep(lake, ref, { ...append(1), summary: { 'sluice.epoch': '1' } })
  for (let id = 2; id <= 5; id += 1) await commitStep(lake, ref, append(id))
  const before = await lake.lake.scan(ref)
  const staged = await compact(ref)
  assert.ok(staged)
  await publish(lake, staged)
  const now = await lake.lake.scan(ref)
  assert.equal(before.files.length, 5)
  assert.equal(now.files.length, 1)
  assert.equal(now.summary['operation'], 'replace')
  assert.equal(now.summary['sluice.upkeep'], 'compact')
  assert.deepEqual(await readScan(lake, now), await readScan(lake, before))
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref, { snapshotId: first.snapshotId as string })), [
    [1, 'a'],
  ])
  assert.equal(await compact(ref), null, 'nothing is left to win')
})

test('partitions are compacted apart, and those of few files are left', async () => {
  const ref = newRef()
  const partitioning = [{ column: 'part', transform: 'identity' }]
  for (let id = 1; id <= 4; id += 1) await commitStep(lake, ref, { ...append(id, 'many'), partitioning })
  await commitStep(lake, ref, { ...append(9, 'few'), partitioning })
  const staged = await compact(ref)
  assert.ok(staged)
  await publish(lake, staged)
  const scan = await lake.lake.scan(ref)
  assert.deepEqual(scan.files.map(({ file }) => file.partition[0]).sort(), ['few', 'many'])
  assert.equal((await readScan(lake, scan)).length, 5)
})

test('a table with an open write is left alone, and whoever loses the race is told', async () => {
  const ref = newRef()
  for (let id = 1; id <= 3; id += 1) await commitStep(lake, ref, append(id))
  const writing = await stageStep(lake, ref, append(4))
  assert.equal(await compact(ref), null)
  await publish(lake, writing)
  const staged = await compact(ref)
  assert.ok(staged)
  await commitStep(lake, ref, append(5))
  await assert.rejects(publish(lake, staged), { code: 'lake_commit_conflict' })
  assert.equal((await readScan(lake, await lake.lake.scan(ref))).length, 5)
  // The loser has not said that it is done: its files may be published yet.
  assert.equal(await compact(ref), null)
})

test('what a piece of work wrote and did not publish keeps nobody away once it is over', async () => {
  const ref = newRef()
  for (let id = 1; id <= 3; id += 1) await commitStep(lake, ref, append(id))
  const race = lake.lake.writing(async (own) => {
    const staged = await own.stageCompaction(ref, { minFiles: 3, limits: LIMITS }, signal())
    assert.ok(staged)
    assert.equal(await compact(ref), null, 'another one waits while it lasts')
    await commitStep(lake, ref, append(4))
    await own.publish(lake.catalog, [staged])
  })
  await assert.rejects(race, { code: 'lake_commit_conflict' })
  const left = await lake.lake.writing((own) =>
    own.stageCompaction(ref, { minFiles: 3, limits: LIMITS }, signal()).then((staged) => staged !== null),
  )
  assert.ok(left, 'work that ends well may have left something, too')
  const staged = await compact(ref)
  assert.ok(staged)
  await publish(lake, staged)
  assert.equal((await readScan(lake, await lake.lake.scan(ref))).length, 4)
})

test('checking names what is broken, and only that table', async () => {
  const [good, ...broken] = [newRef(), newRef(), newRef(), newRef(), newRef(), newRef()]
  for (const ref of [good as TableRef, ...broken]) {
    await commitStep(lake, ref, append(1))
    await commitStep(lake, ref, append(2))
  }
  const [missing, short, garbled, manifest, metadata] = broken as [TableRef, TableRef, TableRef, TableRef, TableRef]
  const fileOf = async (ref: TableRef) => (await lake.lake.scan(ref)).files[0]?.localFile as string
  await unlink(await fileOf(missing))
  await truncate(await fileOf(short), 100)
  const whole = await fileOf(garbled)
  const { size } = await import('node:fs/promises').then((fs) => fs.stat(whole))
  await writeFile(whole, Buffer.alloc(size, 7))
  const lists = async (ref: TableRef, part: string) =>
    (await Array.fromAsync(lake.store.list(`${tablePath(lake.catalog.layout, ref)}/metadata`)))
      .map(({ path }) => path)
      .filter((path) => path.includes(part))
      .map((path) => lake.store.localPath(path))
  for (const path of await lists(manifest, '-m.avro')) await writeFile(path, 'no avro')
  for (const path of await lists(metadata, '00001-')) await writeFile(path, '{}')
  const found = async (ref: TableRef) =>
    (await lake.lake.check(ref, signal())).map(({ kind, code, file, snapshotId }) => {
      assert.ok(file === null || /^(data|metadata)\/[^/]+$/.test(file), 'a file is named below its table')
      return `${kind} ${code} ${file === null ? '-' : 'file'} ${snapshotId === null ? '-' : 'snapshot'}`
    })
  assert.deepEqual(await found(good as TableRef), [])
  assert.deepEqual(await found(missing), ['data_file object_missing file snapshot'])
  assert.deepEqual(await found(short), ['data_file object_truncated file snapshot'])
  assert.deepEqual(await found(garbled), ['data_file lake_file_corrupted file snapshot'])
  assert.deepEqual([...new Set(await found(manifest))], ['manifest lake_file_corrupted file snapshot'])
  assert.deepEqual(await found(metadata), ['metadata lake_file_corrupted file -'])
  assert.equal((await readScan(lake, await lake.lake.scan(good as TableRef))).length, 2)
})

test('a lost row of the catalog is found by the files that it left', async () => {
  const ref: TableRef = { warehouse: 'losing', namespace: 'kept', table: 'orders' }
  await commitStep(lake, ref, append(1))
  assert.deepEqual(await lake.lake.lostTables('losing'), [])
  await lake.catalog.dropPointer(ref)
  assert.deepEqual(await lake.lake.lostTables('losing'), [ref])
  const [problem] = await lake.lake.check(ref, signal())
  assert.equal(problem?.code, 'lake_pointer_missing')
})
