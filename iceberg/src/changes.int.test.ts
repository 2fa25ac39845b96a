import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { Row, TableSchema } from '@sluice/sdk'
import fc from 'fast-check'
import { stringifyJsonExactly } from './format/int64.ts'
import type { TableRef } from './index.ts'
import { collect, commitStep, readScans, type Step, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'value', type: 'integer', nullable: true },
  ],
  primaryKey: ['id'],
}

const newRef = (): TableRef => ({ warehouse: 'acme', namespace: 'changes', table: `t_${randomUUID()}` })

function selectOf(rows: ReadonlyMap<number, number | null>): string {
  if (rows.size === 0) return 'SELECT NULL AS id, NULL AS value WHERE false'
  return `SELECT * FROM (VALUES ${[...rows].map(([id, value]) => `(${id}, ${value})`).join(', ')}) v(id, value)`
}

async function changesOf(ref: TableRef, from: string | null, to: string, key: readonly string[]) {
  const changes = await lake.lake.changes(ref, from, to, key)
  // What is tried are the statements: who runs them may stay.
  const child = lake.aside.engineFor(lake.engine)
  const [upserts = [], deletes = []] = await collect(child, changes.tables, [changes.upserts, changes.deletes])
  return { changes, upserts: sorted(upserts), deletes: sorted(deletes) }
}

const sorted = (rows: readonly Row[]) => rows.map((row) => stringifyJsonExactly(row)).sort()

test('the changes, applied to the older snapshot, give the newer one, and touch no key that is the same', async () => {
  const content = fc.uniqueArray(fc.tuple(fc.integer({ min: 0, max: 12 }), fc.option(fc.integer({ min: 0, max: 2 }))), {
    selector: ([id]) => id,
    maxLength: 10,
  })
  const property = fc.asyncProperty(content, content, content, async (a, b, c) => {
    const ref = newRef()
    const first = await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select: selectOf(new Map(a)) })
    // One file stays for both snapshots, the others are replaced.
    const kept = new Map(b.map(([id, value]) => [id + 100, value] as const))
    await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select: selectOf(kept) })
    const from = await lake.lake.scan(ref)
    const old = (await lake.lake.scan(ref, { snapshotId: first.snapshotId as string })).files
    const next: Step = {
      operation: 'overwrite',
      schema: SCHEMA,
      select: selectOf(new Map(c)),
      removed: old.map((file) => file.uri),
    }
    const to = await commitStep(lake, ref, next)
    const { upserts, deletes } = await changesOf(ref, from.snapshotId, to.snapshotId as string, ['id'])
    const before = new Map([...a, ...kept])
    const after = new Map([...c, ...kept])
    const expected = [...after].filter(([id, value]) => !before.has(id) || before.get(id) !== value)
    assert.deepEqual(upserts, sorted(expected))
    assert.deepEqual(deletes, sorted([...before.keys()].filter((id) => !after.has(id)).map((id) => [id])))
  })
  await fc.assert(property, { numRuns: 5 })
})

test('files that both snapshots hold are read by neither side', async () => {
  const ref = newRef()
  await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select: 'SELECT 1 AS id, 1 AS value' })
  const from = await commitStep(lake, ref, {
    operation: 'append',
    schema: SCHEMA,
    select: 'SELECT 2 AS id, 1 AS value',
  })
  const to = await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select: 'SELECT 3 AS id, 1 AS value' })
  const { changes, upserts, deletes } = await changesOf(ref, from.snapshotId, to.snapshotId as string, ['id'])
  assert.deepEqual(
    changes.tables.map((table) => table.files.length),
    [0, 1],
  )
  assert.deepEqual([upserts, deletes], [['[3,1]'], []])
  const none = await lake.lake.changes(ref, to.snapshotId as string, to.snapshotId as string, ['id'])
  assert.equal(none.isEmpty, true)
})

test('from nothing, everything is new', async () => {
  const ref = newRef()
  const to = await commitStep(lake, ref, {
    operation: 'append',
    schema: SCHEMA,
    select: 'SELECT 1 AS id, NULL AS value',
  })
  const { upserts, deletes } = await changesOf(ref, null, to.snapshotId as string, ['id'])
  assert.deepEqual([upserts, deletes], [['[1,null]'], []])
})

test('without a key, equal rows count as often as they are', async () => {
  const ref = newRef()
  const keyless = { columns: SCHEMA.columns.map((column) => ({ ...column, nullable: true })), primaryKey: [] }
  const rows = (list: string) => `SELECT * FROM (VALUES ${list}) v(id, value)`
  const from = await commitStep(lake, ref, {
    operation: 'replace',
    schema: keyless,
    select: rows('(1, 1), (1, 1), (2, NULL)'),
  })
  const to = await commitStep(lake, ref, {
    operation: 'replace',
    schema: keyless,
    select: rows('(1, 1), (2, NULL), (2, NULL)'),
  })
  const { upserts, deletes } = await changesOf(ref, from.snapshotId, to.snapshotId as string, [])
  assert.deepEqual([upserts, deletes], [['[2,null]'], ['[1,1]']])
})

test('a column that was added or renamed changes only rows that have a value of it', async () => {
  const ref = newRef()
  const from = await commitStep(lake, ref, {
    operation: 'append',
    schema: SCHEMA,
    select: 'SELECT 1 AS id, 1 AS value UNION ALL SELECT 2, 2',
  })
  const wider: TableSchema = {
    columns: [
      { name: 'id', type: 'long', nullable: false },
      { name: 'amount', type: 'integer', nullable: true },
      { name: 'note', type: 'string', nullable: true },
    ],
    primaryKey: ['id'],
  }
  const select = `SELECT 1 AS id, 1 AS amount, NULL AS note UNION ALL SELECT 2, 2, 'x'`
  const to = await commitStep(lake, ref, { operation: 'replace', schema: wider, select, renames: { amount: 'value' } })
  const { upserts, deletes } = await changesOf(ref, from.snapshotId, to.snapshotId as string, ['id'])
  assert.deepEqual([upserts, deletes], [['[2,2,"x"]'], []])
  const [was] = await readScans(lake, [await lake.lake.scan(ref, { snapshotId: from.snapshotId as string })])
  assert.deepEqual(was, [
    [1, 1],
    [2, 2],
  ])
})
