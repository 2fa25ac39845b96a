import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { access } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import type { ChangedFiles, StagedCommit, TableRef } from './index.ts'
import { collect, commitStep, LIMITS, publish, readScan, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'v', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
type Rows = ReadonlyMap<number, string>
const signal = () => AbortSignal.timeout(600_000)
const newRef = (): TableRef => ({ warehouse: 'acme', namespace: 'lists', table: `t_${randomUUID()}` })
const stateOf = async (ref: TableRef) => (await lake.lake.load(ref)) ?? assert.fail('there is no table')
const rowsOf = async (ref: TableRef, snapshotId?: string) =>
  new Map(
    (await readScan(lake, await lake.lake.scan(ref, snapshotId === undefined ? {} : { snapshotId }))) as [
      number,
      string,
    ][],
  )

/** Ids from one up to before the other, each `old`. */
async function addFile(ref: TableRef, from: number, to: number): Promise<StagedCommit> {
  const select = `SELECT CAST(range AS INTEGER) AS id, 'old' AS v FROM range(${from}, ${to})`
  return commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select })
}

async function commit(ref: TableRef, base: Awaited<ReturnType<typeof stateOf>>, change: ChangedFiles) {
  const { plan, files, writeId } = change.written
  const { removed, removedFrom } = change
  const request = { base, plan, operation: 'overwrite', files, removed, removedFrom, writeId, summary: {} } as const
  const staged = await lake.lake.stage(ref, request)
  await publish(lake, staged)
  return staged
}

async function merge(ref: TableRef, rows: Rows, goneIds: readonly number[], present?: readonly number[]) {
  const base = await stateOf(ref)
  const values = [...rows].map(([id, v]) => `(${id}, '${v}')`)
  const list = (ids: readonly number[]) => `SELECT unnest([${ids.join(', ')}]::INTEGER[]) AS id`
  const job = { limits: LIMITS }
  const change = await lake.lake.merge(
    {
      ...{ base, scan: await lake.lake.scan(base), schema: SCHEMA, rows: 'keep', key: ['id'], job, smallFileRows: 20 },
      changed: values.length === 0 ? "SELECT 0 AS id, '' AS v WHERE false" : `FROM (VALUES ${values}) c(id, v)`,
      ...(goneIds.length === 0 ? {} : { gone: list(goneIds) }),
      ...(present === undefined ? {} : { present: async () => ({ job, keys: list(present), version: null }) }),
    },
    signal(),
  )
  return { change, staged: await commit(ref, base, change) }
}

test('few rows of a large file are listed as gone, in one list for a file; many are taken from it', async () => {
  const ref = newRef()
  await addFile(ref, 0, 100)
  const [large] = (await lake.lake.scan(ref)).files
  const first = await merge(ref, new Map([[3, 'new']]), [4])
  assert.deepEqual([first.change.removed, first.staged.removedRows, first.staged.totalRows], [[], 2, 99])
  const second = await merge(ref, new Map([[5, 'new']]), [3])
  const scan = await lake.lake.scan(ref)
  assert.ok(scan.files.some(({ uri }) => uri === large?.uri))
  assert.deepEqual([scan.deletes.length, scan.deletes[0]?.rows, scan.rows], [1, 3, 98])
  assert.deepEqual([second.staged.removedRows, second.staged.totalRows], [2, 98])
  assert.equal(scan.summary['operation'], 'overwrite')
  await merge(ref, new Map(), [10, 11, 12, 13, 14, 15, 16, 17])
  const after = await lake.lake.scan(ref)
  assert.deepEqual([after.deletes, after.rows], [[], 90])
  assert.ok(after.files.every(({ uri }) => uri !== large?.uri))
  assert.deepEqual(await lake.lake.check(ref, signal()), [])
})

test('columns of a key that are named as those of a list do not change whose rows go', async () => {
  const ref = newRef()
  const schema: TableSchema = {
    columns: [
      { name: 'pos', type: 'long', nullable: false },
      { name: 'file_path', type: 'string', nullable: false },
    ],
    primaryKey: ['pos', 'file_path'],
  }
  const select = `SELECT 99 - range AS pos, 'a' AS file_path FROM range(100)`
  await commitStep(lake, ref, { operation: 'append', schema, select })
  const base = await stateOf(ref)
  const scan = await lake.lake.scan(base)
  const asked = { base, scan, schema, rows: 'keep', key: schema.primaryKey, smallFileRows: 20 } as const
  const changed = "SELECT 0::BIGINT AS pos, '' AS file_path WHERE false"
  const gone = "SELECT 7::BIGINT AS pos, 'a' AS file_path"
  await commit(ref, base, await lake.lake.merge({ ...asked, job: { limits: LIMITS }, changed, gone }, signal()))
  const after = await lake.lake.scan(ref)
  const left = (await readScan(lake, after)).map(([pos]) => Number(pos))
  assert.deepEqual([after.deletes.length, left.length, left.includes(7)], [1, 99, false])
})

test('a table with lists may be given a column of the name that the engine has for places', async () => {
  const ref = newRef()
  await addFile(ref, 0, 100)
  const { staged } = await merge(ref, new Map([[3, 'new']]), [4])
  const base = await stateOf(ref)
  const scan = await lake.lake.scan(base)
  const column = { name: 'file_row_number', type: 'long', nullable: true } as const
  const schema: TableSchema = { ...SCHEMA, columns: [...SCHEMA.columns, column] }
  const asked = { base, scan, schema, rows: 'keep', key: ['id'], smallFileRows: 20 } as const
  const changed = `SELECT 7 AS id, 'new' AS v, 5::BIGINT AS file_row_number`
  await commit(ref, base, await lake.lake.merge({ ...asked, job: { limits: LIMITS }, changed }, signal()))
  const after = await lake.lake.scan(ref)
  assert.deepEqual([after.deletes, after.rows, (await rowsOf(ref)).size], [[], 99, 99])
  const { tables, upserts } = await lake.lake.changes(ref, staged.snapshotId ?? '', after.snapshotId ?? '', ['id'])
  assert.deepEqual(await collect(lake.engine, tables, [upserts]), [[[7, 'new', 5n]]])
})

test('a table with a column of the name that the engine has for places has no lists', async () => {
  const ref = newRef()
  const schema = { ...SCHEMA, columns: [...SCHEMA.columns, { name: 'File_Row_Number', type: 'long', nullable: true }] }
  const select = `SELECT CAST(range AS INTEGER) AS id, 'old' AS v, range AS "File_Row_Number" FROM range(100)`
  await commitStep(lake, ref, { operation: 'append', schema: schema as TableSchema, select })
  const base = await stateOf(ref)
  const scan = await lake.lake.scan(base)
  const asked = { base, scan, schema: schema as TableSchema, rows: 'keep', key: ['id'], smallFileRows: 20 } as const
  const changed = `SELECT 7 AS id, 'new' AS v, 0 AS "File_Row_Number"`
  await commit(ref, base, await lake.lake.merge({ ...asked, job: { limits: LIMITS }, changed }, signal()))
  const after = await lake.lake.scan(ref)
  assert.deepEqual([after.deletes, after.rows, (await rowsOf(ref)).get(7)], [[], 100, 'new'])
})

test('files that lose many rows bit by bit are written anew by upkeep, and their lists go', async () => {
  const ref = newRef()
  await addFile(ref, 0, 100)
  await merge(ref, new Map(), [1, 2, 3, 4, 5, 6])
  const staged = await lake.lake.stageCompaction(ref, { limits: LIMITS }, signal())
  await publish(lake, staged ?? assert.fail('there is something to do'))
  const scan = await lake.lake.scan(ref)
  assert.deepEqual([scan.files.length, scan.deletes, scan.rows, (await rowsOf(ref)).size], [1, [], 94, 94])
  assert.equal(await lake.lake.stageCompaction(ref, { limits: LIMITS }, signal()), null)
})

test('no row that is gone lies in a file for longer than the table has a history of it', async () => {
  const ref = newRef()
  const added = await addFile(ref, 0, 1000)
  await merge(ref, new Map(), [7])
  assert.equal(await lake.lake.stageCompaction(ref, { limits: LIMITS }, signal()), null)
  const [large] = (await lake.lake.scan(ref)).files
  await publish(lake, await lake.lake.stageExpiry(await stateOf(ref), [added.snapshotId ?? '']))
  const staged = await lake.lake.stageCompaction(ref, { limits: LIMITS }, signal())
  await publish(lake, staged ?? assert.fail('there is something to do'))
  const scan = await lake.lake.scan(ref)
  assert.deepEqual([scan.deletes, scan.rows, (await rowsOf(ref)).has(7)], [[], 999, false])
  const former = lake.lake.snapshots(await stateOf(ref)).filter(({ snapshotId }) => snapshotId !== scan.snapshotId)
  const ids = former.map(({ snapshotId }) => snapshotId)
  await publish(lake, await lake.lake.stageExpiry(await stateOf(ref), ids))
  await lake.lake.clean(ref, { minAgeMs: 0, nowMs: Date.now() + 24 * 3_600_000 }, signal())
  await assert.rejects(access(large?.localFile ?? ''), { code: 'ENOENT' })
})
