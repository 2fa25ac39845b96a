import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import { commitStep, publish, readScan, stageStep, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}

const newRef = () => ({ warehouse: 'acme', namespace: 'sales', table: `orders_${randomUUID()}` })

test('append, then replace: each snapshot keeps its own rows', async () => {
  const ref = newRef()
  const first = await commitStep(lake, ref, {
    operation: 'append',
    schema: SCHEMA,
    select: `SELECT 1 AS id, 'a' AS name`,
  })
  const second = await commitStep(lake, ref, {
    operation: 'append',
    schema: SCHEMA,
    select: `SELECT 2 AS id, NULL AS name`,
  })
  const third = await commitStep(lake, ref, {
    operation: 'replace',
    schema: SCHEMA,
    select: `SELECT 3 AS id, '' AS name`,
  })
  const rowsOf = async (snapshotId: string) => readScan(lake, await lake.lake.scan(ref, { snapshotId }))
  assert.deepEqual(await rowsOf(first.snapshotId as string), [[1, 'a']])
  assert.deepEqual(await rowsOf(second.snapshotId as string), [
    [1, 'a'],
    [2, null],
  ])
  assert.deepEqual(await rowsOf(third.snapshotId as string), [[3, '']])
  assert.deepEqual([second.totalRows, third.addedRows, third.removedRows, third.totalRows], [2, 1, 2, 1])
})

test('what is staged is invisible until it is published, and publishing again changes nothing', async () => {
  const ref = newRef()
  const staged = await stageStep(lake, ref, {
    operation: 'append',
    schema: SCHEMA,
    select: `SELECT 1 AS id, 'a' AS name`,
  })
  assert.equal(await lake.lake.load(ref), null)
  await publish(lake, staged)
  await publish(lake, staged)
  await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select: `SELECT 2 AS id, 'b' AS name` })
  await publish(lake, staged)
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [
    [1, 'a'],
    [2, 'b'],
  ])
})

test('a missing value of a required column is refused', async () => {
  const step = { operation: 'append', schema: SCHEMA, select: `SELECT NULL AS id, 'a' AS name` } as const
  await assert.rejects(stageStep(lake, newRef(), step), { kind: 'INVALID_DATA', code: 'required_value_missing' })
})
