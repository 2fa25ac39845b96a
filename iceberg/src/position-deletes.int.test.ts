import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import type { ChangedFiles, StagedCommit, TableRef } from './index.ts'
import { commitStep, LIMITS, publish, readScan, startTestLake, type TestLake } from './testing.ts'

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
