/** A row that is to be nowhere: not in files, not in their bounds, not in manifests, however it lay there before. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import { engineTable, type TableRef } from './index.ts'
import { commitStep, LIMITS, publish, readScan, stageStep, startTestLake, type TestLake } from './testing.ts'

let lakes: TestLake

before(async () => {
  lakes = await startTestLake()
})
after(() => lakes[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'string', nullable: false },
    { name: 'mail', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const signal = () => AbortSignal.timeout(600_000)

/** Every object of the lake that has the bytes, whole files as they lie there: columns are short enough to be bounds. */
async function filesWith(text: string, ref: TableRef): Promise<readonly string[]> {
  const root = join(lakes.dir, 'store')
  const names = await readdir(root, { recursive: true, withFileTypes: true })
  const found: string[] = []
  for (const entry of names) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isFile() || !path.includes(ref.table)) continue
    if ((await readFile(path)).includes(text)) found.push(entry.name)
  }
  return found
}

async function erase(ref: TableRef, where: string): Promise<void> {
  const { lake } = lakes
  const base = await lake.load(ref)
  assert.ok(base)
  const scan = await lake.scan(base)
  const gone = await lake.deleteWhere({ base, scan, where, buried: true, job: { limits: LIMITS } }, signal())
  const { written, removed, removedFrom } = gone ?? { written: null, removed: [], removedFrom: [] }
  const data = written === null ? { files: [] } : { plan: written.plan, files: written.files, writeId: written.writeId }
  const change = {
    base,
    operation: 'overwrite',
    ...data,
    removed,
    removedFrom,
    leavesNoTrace: true,
    summary: {},
  } as const
  await publish(lakes, await lake.stage(ref, change))
  await lake.forgetHistory(ref, (staged) => publish(lakes, staged), signal())
}

test('a row is in no file, bound or manifest, whether it was changed, listed as gone, or written anew', async () => {
  const ref: TableRef = { warehouse: 'acme', namespace: 'raw', table: `t_${randomUUID().slice(0, 8)}` }
  const [key, mail, former] = ['zz-erased', 'zz-mail-9431', 'zz-former-1177']
  const values = (id: string, text: string) => `SELECT '${id}' AS id, '${text}' AS mail`
  const many = `SELECT 'k' || range AS id, 'm' || range AS mail FROM range(2000)`
  const append = (select: string) =>
    commitStep(lakes, ref, { operation: 'append', schema: SCHEMA, select, partitioning: [] })
  await append(`${many} UNION ALL ${values(key, former)}`)
  await append(values('other', 'stays'))
  const merge = async (changed: string) => {
    const base = await lakes.lake.load(ref)
    assert.ok(base)
    const scan = await lakes.lake.scan(base)
    const job = { tables: [engineTable(scan, ['base'])], limits: LIMITS }
    const { written, removed, removedFrom } = await lakes.lake.merge(
      { base, scan, schema: SCHEMA, rows: 'keep', key: ['id'], job, changed, smallFileRows: 10 },
      signal(),
    )
    const { plan, files, writeId } = written
    const change = { base, plan, operation: 'overwrite', files, writeId, removed, removedFrom, summary: {} } as const
    await publish(lakes, await lakes.lake.stage(ref, change))
  }
  // Its former state is listed as gone in a large file; the small file of its next state is written anew, too.
  await merge(values(key, mail))
  assert.ok((await lakes.lake.scan(ref)).deletes.length > 0, 'rows are listed as gone')
  await merge(values(key, `${mail}-2`))
  const state = await lakes.lake.load(ref)
  assert.ok(state)
  await publish(lakes, await lakes.lake.stageTags(state, { v1: state.snapshotId }))
  const rows = await readScan(lakes, await lakes.lake.scan(ref))
  for (const text of [key, mail, former]) assert.notDeepEqual(await filesWith(text, ref), [], text)
  // A writer that has begun loses, and what it wrote goes.
  const writing = await stageStep(lakes, ref, { operation: 'append', schema: SCHEMA, select: values(key, mail) })
  await erase(ref, `id = '${key}'`)
  await assert.rejects(publish(lakes, writing), { code: 'lake_commit_conflict' })
  for (const text of [key, mail, former]) assert.deepEqual(await filesWith(text, ref), [], text)
  assert.deepEqual(await lakes.lake.traces(ref, signal()), { snapshots: 1, goneEntries: 0, unreachedFiles: 0 })
  assert.deepEqual(await lakes.lake.check(ref, signal()), [])
  assert.deepEqual(
    await readScan(lakes, await lakes.lake.scan(ref)),
    rows.filter(([id]) => id !== key),
    'all others are as they were',
  )
})

test('bounds of files that went before are in no manifest, though the row was gone already', async () => {
  const ref: TableRef = { warehouse: 'acme', namespace: 'raw', table: `t_${randomUUID().slice(0, 8)}` }
  const step = (operation: 'append' | 'replace', id: string) =>
    commitStep(lakes, ref, { operation, schema: SCHEMA, select: `SELECT '${id}' AS id, NULL AS mail` })
  await step('append', 'zz-gone-5521')
  await step('replace', 'other')
  await erase(ref, `id = 'zz-gone-5521'`)
  assert.deepEqual(await filesWith('zz-gone-5521', ref), [])
  assert.deepEqual(await readScan(lakes, await lakes.lake.scan(ref)), [['other', null]])
})
