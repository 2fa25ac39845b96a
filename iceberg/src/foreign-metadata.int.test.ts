import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { SluiceError, type TableSchema } from '@sluice/sdk'
import { readAvro, writeAvro } from './format/avro-file.ts'
import { Lake, type TableRef } from './index.ts'
import { tablePath } from './table-ref.ts'
import { commitStep, readScan, startTestLake, type TestLake } from './testing.ts'

/** Tables whose files were broken, or written by someone who wants another table's rows. */
let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: ['id'] }
const newRef = (tenant = 'acme'): TableRef => ({ warehouse: tenant, namespace: 'd', table: `t_${randomUUID()}` })

async function newTable(tenant = 'acme'): Promise<TableRef> {
  const ref = newRef(tenant)
  await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select: 'SELECT 1 AS id' })
  return ref
}

/** The table's files as they are on the disk, read by a lake that has nothing cached. */
async function files(ref: TableRef) {
  const fresh = new Lake({ store: lake.store, catalog: lake.catalog, engine: lake.engine })
  const state = await fresh.load(ref)
  assert.ok(state)
  const local = (uri: string) => lake.store.localPath(lake.store.pathOf(uri) as string)
  const list = local(state.metadata.snapshots[0]?.['manifest-list'] as string)
  const [scanned] = (await fresh.scan(ref)).files
  return {
    fresh: new Lake({ store: lake.store, catalog: lake.catalog, engine: lake.engine }),
    metadata: local(state.location),
    list,
    data: scanned?.uri as string,
    state,
  }
}

async function edit(file: string, change: (text: string) => string): Promise<void> {
  const bytes = await lake.store.get(lake.store.pathOf(`file://${file}`) as string)
  await writeFile(file, change(Buffer.from(bytes).toString('utf8')))
}

async function failure(promise: Promise<unknown>): Promise<SluiceError> {
  const error = await promise.then(
    () => assert.fail('it was read'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SluiceError, String(error))
  return error
}

test('a broken file is named below its bucket, and with its whole address to the log alone', async () => {
  for (const which of ['metadata', 'list'] as const) {
    const ref = await newTable()
    const found = await files(ref)
    await writeFile(found[which], 'broken')
    const error = await failure(found.fresh.scan(ref))
    assert.deepEqual([error.kind, error.code], ['INTERNAL', 'lake_file_corrupted'])
    const { table, file, snapshot_id } = error.details ?? {}
    assert.equal(table, `d.${ref.table}`)
    assert.equal(file, `tables/d/${ref.table}/metadata/${found[which].split('/').at(-1)}`)
    assert.equal(snapshot_id, which === 'metadata' ? null : found.state.snapshotId)
    assert.doesNotMatch(`${error.message} ${error.remedy}`, /avro|\.json|\/|file:/)
    assert.ok(!JSON.stringify(error.details).includes(lake.dir), 'no path of this machine')
    assert.ok(String((error.cause as Error).message).includes(found[which]), 'the log names the file')
  }
})

test('metadata that claims another place is refused', async () => {
  const [ref, victim] = [await newTable(), await newTable('victim')]
  const { metadata, fresh } = await files(ref)
  const place = (table: TableRef) => lake.store.uri(tablePath(lake.catalog.layout, table))
  await edit(metadata, (text) => text.replace(`"location":"${place(ref)}"`, `"location":"${place(victim)}"`))
  assert.equal((await failure(fresh.scan(ref))).code, 'lake_file_corrupted')
})

test("a pointer, snapshot or manifest that names another table's file is refused", async () => {
  const victim = await files(await newTable('victim'))
  const pointing = await newTable()
  const own = await lake.catalog.pointer(pointing)
  assert.ok(await lake.catalog.movePointer(pointing, own, victim.state.location))
  assert.equal((await failure(lake.lake.scan(pointing))).code, 'lake_path_foreign')

  const listing = await newTable()
  const ours = await files(listing)
  const foreignList = victim.state.metadata.snapshots[0]?.['manifest-list'] as string
  await edit(ours.metadata, (text) =>
    text.replace(ours.state.metadata.snapshots[0]?.['manifest-list'] as string, foreignList),
  )
  assert.equal((await failure(ours.fresh.scan(listing))).code, 'lake_path_foreign')
})

test("a manifest entry that names another table's data file, or climbs out of the table, is refused", async () => {
  const victim = await files(await newTable('victim'))
  const targets = [victim.data, 'file:///etc/passwd', 's3://sluice-victim/x.parquet']
  for (const target of [...targets, null]) {
    const ref = await newTable()
    const ours = await files(ref)
    const climbing = `${ours.data.replace(/[^/]*$/, '')}../../${victim.data.split('/').slice(-3).join('/')}`
    await rewriteEntry(ours.list, target ?? climbing)
    const error = await failure(ours.fresh.scan(ref))
    assert.equal(error.code, 'lake_path_foreign', target ?? climbing)
    assert.deepEqual(error.details, { table: `d.${ref.table}`, file: null, snapshot_id: ours.state.snapshotId })
  }
})

/** Makes the one data file of a table another one, as a writer with access to the table's folder could. */
async function rewriteEntry(list: string, uri: string): Promise<void> {
  const read = async (file: string) =>
    readAvro(await lake.store.get(lake.store.pathOf(`file://${file}`) as string), { records: 100 })
  const lists = await read(list)
  const [line] = lists.records as { manifest_path: string; manifest_length: number }[]
  assert.ok(line)
  const file = lake.store.localPath(lake.store.pathOf(line.manifest_path) as string)
  const manifest = await read(file)
  const [entry] = manifest.records as { data_file: object }[]
  const body = writeAvro(manifest.schema, Object.fromEntries(manifest.metadata), [
    { ...entry, data_file: { ...entry?.data_file, file_path: uri } },
  ])
  await writeFile(file, body)
  await writeFile(
    list,
    writeAvro(lists.schema, Object.fromEntries(lists.metadata), [{ ...line, manifest_length: body.length }]),
  )
}

test('names that could leave their place are refused before anything is touched', async () => {
  for (const part of ['..', '', 'a/b', 'a\\b', '.x', 'a\0', 'ä'.repeat(150), 'a%2fb', 'a#b']) {
    for (const ref of [
      { ...newRef(), warehouse: part },
      { ...newRef(), namespace: part },
      { ...newRef(), table: part },
    ]) {
      assert.equal((await failure(lake.lake.scan(ref))).code, 'lake_name_invalid', JSON.stringify(part))
    }
  }
})

test('snapshot ids of 63 bits, as others give them, are told apart', async () => {
  const ref = await newTable()
  const { metadata, state } = await files(ref)
  const [big, next] = ['4611686018427387905', '4611686018427387906']
  await edit(metadata, (text) =>
    text.replaceAll(state.snapshotId as string, (id) => id).replaceAll(`:${state.snapshotId}`, `:${big}`),
  )
  const fresh = new Lake({ store: lake.store, catalog: lake.catalog, engine: lake.engine })
  assert.deepEqual(await readScan(lake, await fresh.scan(ref, { snapshotId: big })), [[1]])
  assert.equal((await failure(fresh.scan(ref, { snapshotId: next }))).code, 'snapshot_not_found')
  assert.equal((await failure(fresh.scan(ref, { snapshotId: 'x; drop' }))).code, 'snapshot_not_found')
})
