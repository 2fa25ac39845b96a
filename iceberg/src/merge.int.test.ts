import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import type { ChangedFiles, StagedCommit, TableRef, TableState } from './index.ts'
import { engineTable } from './scan.ts'
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
const signal = () => AbortSignal.timeout(600_000)
const newRef = (): TableRef => ({ warehouse: 'acme', namespace: 'merged', table: `t_${randomUUID()}` })

/** Ten files of ten rows each: 0 to 9, 10 to 19 … */
async function newTable(): Promise<TableRef> {
  const ref = newRef()
  for (let file = 0; file < 5; file += 1) {
    const select = `SELECT CAST(range AS INTEGER) AS id, 'old' AS v FROM range(${file * 10}, ${file * 10 + 10})`
    await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select })
  }
  return ref
}

async function merge(
  ref: TableRef,
  changed: string,
  schema = SCHEMA,
  rows: 'keep' | 'rewrite' = 'keep',
  keys: string | null = null,
  version: string | null = null,
  repeats = false,
) {
  const base = await lake.lake.load(ref)
  assert.ok(base)
  const scan = await lake.lake.scan(base)
  const job = { limits: LIMITS }
  const present = keys === null ? {} : { present: async () => ({ job, keys, version, repeats }) }
  const change = await lake.lake.merge({ base, scan, schema, rows, key: ['id'], job, changed, ...present }, signal())
  const commit = await staged(ref, base, change)
  const { gone, unexplained, outdated } = change
  return { commit, removed: change.removed, gone, unexplained, outdated, before: scan }
}

const staged = (ref: TableRef, base: TableState, { written, removed }: ChangedFiles) =>
  lake.lake.stage(ref, {
    base,
    plan: written.plan,
    operation: 'overwrite',
    files: written.files,
    removed,
    writeId: written.writeId,
    summary: {},
  })

const apply = async (ref: TableRef, changed: string) => {
  const made = await merge(ref, changed)
  await publish(lake, made.commit)
  return made
}
const rowsOf = async (ref: TableRef) => new Map((await readScan(lake, await lake.lake.scan(ref))) as [number, string][])

test('a merge writes anew the files that hold a key, and no other', async () => {
  const ref = await newTable()
  const { removed, before } = await apply(
    ref,
    "SELECT * FROM (VALUES (12, 'new'), (13, 'new'), (99, 'added')) v(id, v)",
  )
  assert.equal(removed.length, 1)
  const now = await lake.lake.scan(ref)
  const kept = before.files.filter((file) => !removed.includes(file.uri)).map((file) => file.uri)
  for (const uri of kept)
    assert.ok(
      now.files.some((file) => file.uri === uri),
      'an untouched file stays as it is',
    )
  const rows = await rowsOf(ref)
  assert.equal(rows.size, 51)
  assert.deepEqual([rows.get(11), rows.get(12), rows.get(13), rows.get(99)], ['old', 'new', 'new', 'added'])
})

test('rows of keys that are told to be gone go, and files without them stay', async () => {
  const ref = await newTable()
  const base = await lake.lake.load(ref)
  assert.ok(base)
  const scan = await lake.lake.scan(base)
  const job = { limits: LIMITS }
  const changed = "SELECT 12 AS id, 'new' AS v"
  const gone = 'SELECT * FROM (VALUES (13), (25), (1000)) g(id)'
  const request = { base, scan, schema: SCHEMA, rows: 'keep', key: ['id'], job, changed, gone } as const
  const { written, removed, removedFrom } = await lake.lake.merge(request, signal())
  assert.equal(removed.length, 2)
  const commit = { base, plan: written.plan, operation: 'overwrite', files: written.files } as const
  const staged = { ...commit, removed, removedFrom, writeId: written.writeId, summary: {} }
  await publish(lake, await lake.lake.stage(ref, staged))
  const rows = await rowsOf(ref)
  assert.deepEqual(
    [rows.size, rows.get(12), rows.has(13), rows.has(25), rows.get(24)],
    [48, 'new', false, false, 'old'],
  )
})

test('a merge of new keys alone is an append', async () => {
  const ref = await newTable()
  const { removed } = await apply(ref, "SELECT 100 AS id, 'added' AS v")
  assert.deepEqual(removed, [])
  const scan = await lake.lake.scan(ref)
  assert.equal(scan.summary['operation'], 'append')
  assert.equal((await rowsOf(ref)).size, 51)
})

test('the difference of a merge is computed from the files that it touched', async () => {
  const ref = await newTable()
  const from = (await lake.lake.scan(ref)).snapshotId as string
  const { commit } = await apply(ref, "SELECT 12 AS id, 'new' AS v")
  const changes = await lake.lake.changes(ref, from, commit.snapshotId as string, ['id'])
  assert.deepEqual(
    changes.tables.map((table) => table.files.length),
    [1, 1],
    'of five files one is read before, and one after',
  )
})

test('of rows that are merged by a version those that the table has newer ones of stay out, whatever else they are', async () => {
  const versions = ['NULL', '1', '2', '3']
  const columns = [...SCHEMA.columns, { name: 'n', type: 'integer', nullable: true } as const]
  const schema = { columns, primaryKey: ['id'] }
  const cases = versions.flatMap((had) => versions.map((came) => ({ had, came })))
  const rows = (said: string, of: (one: (typeof cases)[number]) => string) =>
    `SELECT * FROM (VALUES ${cases.map((one, id) => `(${id}, '${said}', CAST(${of(one)} AS INTEGER))`).join(', ')}) v(id, v, n)`
  for (const rewrites of [false, true]) {
    const ref = newRef()
    await commitStep(lake, ref, { operation: 'append', schema, select: rows('had', ({ had }) => had) })
    const base = await lake.lake.load(ref)
    assert.ok(base)
    const scan = await lake.lake.scan(base)
    const request = {
      base,
      scan,
      schema,
      rows: rewrites ? 'rewrite' : 'keep',
      key: ['id'],
      job: { limits: LIMITS },
    } as const
    const changed = `${rows('came', ({ came }) => came)} UNION ALL SELECT 99, 'came', NULL`
    const change = await lake.lake.merge({ ...request, changed, newest: 'n' }, signal())
    await publish(lake, await staged(ref, base, change))
    const is = await rowsOf(ref)
    for (const [id, { had, came }] of cases.entries()) {
      const isOlder = had !== 'NULL' && (came === 'NULL' || Number(came) < Number(had))
      assert.equal(is.get(id), isOlder ? 'had' : 'came', `${had} before ${came}`)
    }
    assert.equal(is.get(99), 'came')
  }
})

test('of two merges on one state one wins; the other computes anew and both are there', async () => {
  const ref = await newTable()
  const [one, other] = [
    await merge(ref, "SELECT 1 AS id, 'one' AS v"),
    await merge(ref, "SELECT 2 AS id, 'other' AS v"),
  ]
  await publish(lake, one.commit)
  await assert.rejects(publish(lake, other.commit), { kind: 'CONFLICT', code: 'lake_commit_conflict' })
  await apply(ref, "SELECT 2 AS id, 'other' AS v")
  const rows = await rowsOf(ref)
  assert.deepEqual([rows.get(1), rows.get(2), rows.size], ['one', 'other', 50])
})

test('columns may be added by a merge; a column that changes its type rewrites the table', async () => {
  const ref = await newTable()
  const wider: TableSchema = { ...SCHEMA, columns: [...SCHEMA.columns, { name: 'w', type: 'integer', nullable: true }] }
  await publish(lake, (await merge(ref, "SELECT 1 AS id, 'one' AS v, 7 AS w", wider)).commit)
  const scan = await lake.lake.scan(ref)
  const rows = await readScan(lake, scan)
  assert.deepEqual(rows.slice(0, 2), [
    [0, 'old', null],
    [1, 'one', 7],
  ])
  const retyped: TableSchema = {
    ...SCHEMA,
    columns: [...SCHEMA.columns, { name: 'w', type: 'string', nullable: true }],
  }
  const { commit, removed } = await merge(ref, "SELECT 2 AS id, 'two' AS v, 'x' AS w", retyped, 'rewrite')
  assert.equal(removed.length, scan.files.length)
  await publish(lake, commit)
  assert.deepEqual((await readScan(lake, await lake.lake.scan(ref))).slice(0, 3), [
    [0, 'old', null],
    [1, 'one', '7'],
    [2, 'two', 'x'],
  ])
})

test('deleting reads the condition, drops whole files, and writes the others anew', async () => {
  const ref = await newTable()
  const base = await lake.lake.load(ref)
  assert.ok(base)
  const scan = await lake.lake.scan(base)
  const where = 'id BETWEEN 5 AND 19'
  const change = await lake.lake.deleteWhere({ base, scan, where, job: { limits: LIMITS } }, signal())
  assert.ok(change)
  assert.equal(change.removed.length, 2)
  assert.equal(change.written.rows, 5)
  const commit: StagedCommit = await lake.lake.stage(ref, {
    base,
    plan: change.written.plan,
    operation: 'overwrite',
    files: change.written.files,
    removed: change.removed,
    writeId: change.written.writeId,
    summary: {},
  })
  await publish(lake, commit)
  assert.deepEqual(
    [...(await rowsOf(ref)).keys()].sort((a, b) => a - b),
    [0, 1, 2, 3, 4, ...Array.from({ length: 30 }, (_, at) => at + 20)],
  )
  assert.equal(await lake.lake.deleteWhere({ base, scan, where: 'id > 1000', job: { limits: LIMITS } }, signal()), null)
})

test('a merge told which keys are present takes the others away, from the files that hold one', async () => {
  const ref = await newTable()
  const present = 'SELECT range AS id FROM range(50) WHERE range NOT IN (3, 12, 13, 20)'
  const { commit, removed, gone } = await merge(ref, "SELECT 20 AS id, 'came' AS v", SCHEMA, 'keep', present)
  await publish(lake, commit)
  assert.equal(removed.length, 3)
  assert.equal(gone, 3, 'a row that came is there, whatever else is said')
  const rows = await rowsOf(ref)
  assert.deepEqual(
    [rows.size, rows.get(3), rows.get(12), rows.get(20), rows.get(4)],
    [47, undefined, undefined, 'came', 'old'],
  )
  const none = await merge(ref, "SELECT 7 AS id, '' AS v WHERE false", SCHEMA, 'keep', 'SELECT 1 AS id WHERE false')
  await publish(lake, none.commit)
  assert.equal(none.gone, 47)
  assert.equal((await rowsOf(ref)).size, 0)
})

test('keys that are present count where the whole table is written anew, too', async () => {
  const ref = await newTable()
  const retyped: TableSchema = {
    columns: [SCHEMA.columns[0] as (typeof SCHEMA.columns)[0], { name: 'v', type: 'binary', nullable: true }],
    primaryKey: ['id'],
  }
  const { commit, gone } = await merge(ref, "SELECT 2 AS id, 'two'::BLOB AS v", retyped, 'rewrite', 'SELECT 1 AS id')
  await publish(lake, commit)
  assert.equal(gone, 48)
  assert.deepEqual([...(await rowsOf(ref)).keys()].toSorted(), [1, 2])
})

test('a merge counts the keys that are present and that it cannot have known', async () => {
  const ref = await newTable()
  const changed = "SELECT * FROM (VALUES (0, 'new'), (100, 'new')) v(id, v)"
  const all = (more: string) => `SELECT CAST(range AS INTEGER) AS id, 'old' AS v FROM range(50) UNION ALL ${more}`
  for (const [more, unknown] of [
    ["SELECT 100, 'new'", 0],
    ["SELECT * FROM (VALUES (101, 'old'), (102, 'old'))", 2],
    ["SELECT 7, 'a second one of that key'", 0],
  ] as const) {
    const byKey = await merge(ref, changed, SCHEMA, 'keep', all(more))
    const byVersion = await merge(ref, changed, SCHEMA, 'keep', all(more), 'v')
    assert.deepEqual([byKey.unexplained, byVersion.unexplained], [unknown, unknown], more)
  }
  const earlier = all("SELECT 100, 'new'").replace("'old'", "CASE WHEN range IN (0, 3, 4) THEN NULL ELSE 'old' END")
  const { unexplained, gone } = await merge(ref, changed, SCHEMA, 'keep', earlier, 'v')
  assert.deepEqual([unexplained, gone], [2, 0], 'of 0 the new state came')
  // Of keys with several states, where the table has `old` of all: what came of some, and what is present of each.
  const states: readonly (readonly [
    came: string | null | undefined,
    present: readonly (string | null)[],
    isLost: boolean,
  ])[] = [
    ['earlier', ['earlier', 'old'], true],
    ['earlier', ['earlier', 'late'], true],
    [null, [null, 'old'], true],
    [undefined, ['earlier', null], true],
    ['earlier', ['earlier'], false],
    ['earlier', ['zero'], false],
    ['other', ['old', 'other'], false],
    [undefined, ['old', 'zero'], false],
    [null, [null], false],
  ]
  const cell = (text: string | null) => (text === null ? 'NULL' : `'${text}'`)
  const came = states.flatMap(([text], id) => (text === undefined ? [] : [`(${id}, ${cell(text)})`]))
  const there = states.flatMap(([, texts], id) => texts.map((text) => `(${id}, ${cell(text)})`))
  const now = `SELECT * FROM (VALUES ${there}) p(id, v) UNION ALL SELECT range, 'old' FROM range(${states.length}, 50)`
  const late = await merge(ref, `SELECT * FROM (VALUES ${came}) c(id, v)`, SCHEMA, 'keep', now, 'v', true)
  assert.equal(late.outdated, states.filter(([, , isLost]) => isLost).length)
})

test('no way of writing rows keeps the sign of a zero, and all that is no zero stays', async () => {
  const ref = newRef()
  const types = ['float', 'double'] as const
  const columns = types.map((type) => ({ name: type, type, nullable: true }))
  const schema = { columns: [...SCHEMA.columns.slice(0, 1), ...columns], primaryKey: ['id'] }
  const other = ["'-0'", "'0'", "'nan'", "'-inf'", "'1.401298464324817e-45'", "'-3.4028234663852886e38'", 'NULL']
  const rows = (first: number) =>
    other.map(
      (cell, at) => `SELECT ${first + at} AS id, ${types.map((type) => `${cell}::${type} AS ${type}`).join(', ')}`,
    )
  const select = (first: number) => rows(first).join(' UNION ALL ')
  const numbers = [0, 0, Number.NaN, Number.NEGATIVE_INFINITY, 2 ** -149, -3.4028234663852886e38, null]
  const told = (count: number) =>
    Array.from({ length: count }, () => numbers).flatMap((all, time) => all.map((n, at) => [time * 10 + at, n, n]))
  const found = async () => {
    const tables = [engineTable(await lake.lake.scan(ref), ['t'])]
    // To sort by a number would give a zero back without its sign.
    return (await collect(lake.engine, tables, ['SELECT * FROM t ORDER BY id']))[0]
  }
  await commitStep(lake, ref, { operation: 'append', schema, select: select(0) })
  assert.deepEqual(await found(), told(1))
  await commitStep(lake, ref, {
    operation: 'append',
    schema,
    select: select(10),
    partitioning: [{ column: 'id', transform: 'truncate[4]' }],
  })
  assert.deepEqual(await found(), told(2))
  await publish(lake, (await merge(ref, select(20), schema)).commit)
  assert.deepEqual(await found(), told(3))
  await commitStep(lake, ref, { operation: 'replace', schema, select: select(0) })
  assert.deepEqual(await found(), told(1))
})
