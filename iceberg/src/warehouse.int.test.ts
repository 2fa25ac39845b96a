import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import { startTestLake, type TestLake } from './testing.ts'
import { Warehouse } from './warehouse.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'item', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const row = (id: number, item: string) => `SELECT ${id} AS id, '${item}' AS item`
const SORTED = 'SELECT item FROM content ORDER BY id'

test('each write is a snapshot that can be read, by whoever opens the same folder', async () => {
  const { store, engine } = lake
  const table = new Warehouse({ store, engine }).table('sales', 'orders')
  const items = async (choice = {}) => (await table.rows(choice, SORTED)).map(({ item }) => item)
  await assert.rejects(table.append(row(1, 'tea')), { code: 'lake_table_not_found' })
  assert.deepEqual(await table.snapshots(), [])
  assert.equal(await table.metadataLocation(), null)
  const made = await table.append(row(1, 'tea'), SCHEMA)
  const appended = await table.append(`${row(2, 'milk')} UNION ALL ${row(3, 'salt')}`)
  const merged = await table.merge(`${row(2, 'oat milk')} UNION ALL ${row(4, 'rye')}`)
  const deleted = await table.deleteWhere("item = 'salt'")
  assert.equal(await table.deleteWhere('id > 100'), null)
  const replaced = await table.replace(row(9, 'bread'))
  assert.deepEqual(await items({ snapshotId: made }), ['tea'])
  assert.deepEqual(await items({ snapshotId: appended }), ['tea', 'milk', 'salt'])
  assert.deepEqual(await items({ snapshotId: merged }), ['tea', 'oat milk', 'salt', 'rye'])
  assert.deepEqual(await items({ snapshotId: deleted as string }), ['tea', 'oat milk', 'rye'])
  assert.deepEqual(await table.rows(), [{ id: 9n, item: 'bread' }])
  const other = new Warehouse({ store, engine })
  assert.deepEqual(await other.table('sales', 'orders').rows(), await table.rows())
  assert.deepEqual(await other.tables(), [{ warehouse: 'warehouse', namespace: 'sales', table: 'orders' }])
  const ids = (await table.snapshots()).map(({ snapshotId }) => snapshotId)
  assert.deepEqual(ids, [made, appended, merged, deleted, replaced])
})

test('of two who write at once one is told, and nothing of its rows is there', async () => {
  const { store, engine } = lake
  const table = () => new Warehouse({ store, engine }).table('sales', 'raced')
  await table().append(row(0, 'tea'), SCHEMA)
  const outcomes = await Promise.allSettled([1, 2].map((id) => table().append(row(id, `item ${id}`))))
  const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason.code] : []))
  // One may have ended before the other began to read.
  assert.ok(refused.length <= 1 && refused.every((code) => code === 'lake_commit_conflict'), refused.join())
  assert.equal((await table().rows()).length, 3 - refused.length)
})
