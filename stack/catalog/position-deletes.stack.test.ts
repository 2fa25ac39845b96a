/**
 * Lists of deleted rows under everything that is done to a table, held against a map of its rows; and what the engines of other
 * people make of its snapshots.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import type { ChangedFiles, StagedCommit, TableRef } from '@sluice/iceberg'
import { collect, commitStep, LIMITS, publish, readScan, startTestLake, type TestLake } from '@sluice/iceberg/testing'
import type { TableSchema } from '@sluice/sdk'

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

test('whatever is done to a table, each of its snapshots has the rows that a map has, to whoever reads it', async () => {
  const ref = newRef()
  const random = seeded(164)
  const below = (count: number) => Math.floor(random() * count)
  let now = new Map<number, string>()
  const known: { readonly snapshotId: string; readonly rows: Rows }[] = []
  const note = (staged: StagedCommit | null) => {
    if (staged?.snapshotId == null) return
    known.push({ snapshotId: staged.snapshotId, rows: new Map(now) })
    assert.equal(staged.totalRows, now.size)
  }
  let [next, lists] = [0, 0]
  const add = async () => {
    for (let id = next; id < next + 60; id += 1) now.set(id, 'old')
    note(await addFile(ref, next, next + 60))
    next += 60
  }
  const anyOf = (most: number) => [...now.keys()].filter(() => random() < (1 + below(most)) / Math.max(1, now.size))
  const steps: readonly (() => Promise<void>)[] = [
    add,
    async () => {
      const rows = new Map(anyOf(8).map((id) => [id, `m${below(1000)}`]))
      if (random() < 0.5) rows.set(100_000 + below(1000), 'added')
      const gone = anyOf(3).filter((id) => !rows.has(id))
      for (const [id, v] of rows) now.set(id, v)
      for (const id of gone) now.delete(id)
      note((await merge(ref, rows, gone)).staged)
    },
    async () => {
      const present = [...now.keys()].filter(() => random() < 0.98)
      now = new Map([...now].filter(([id]) => present.includes(id)))
      note((await merge(ref, new Map(), [], present)).staged)
    },
    async () => {
      const rest = below(40)
      const base = await stateOf(ref)
      const request = { base, scan: await lake.lake.scan(base), where: `id % 40 = ${rest}`, job: { limits: LIMITS } }
      const change = await lake.lake.deleteWhere(request, signal())
      const isGone = (id: number) => id % 40 === rest
      assert.equal(change === null, ![...now.keys()].some(isGone))
      for (const id of [...now.keys()].filter(isGone)) now.delete(id)
      if (change !== null) note(await commit(ref, base, change))
    },
    async () => {
      const staged = await lake.lake.stageCompaction(ref, { limits: LIMITS, minFiles: 3 }, signal())
      if (staged !== null) await publish(lake, staged)
      note(staged)
    },
    async () => {
      const { snapshotId, rows } = known[below(known.length)] ?? assert.fail('there is none')
      const base = await stateOf(ref)
      const staged = await lake.lake.stage(ref, { base, operation: 'restore', files: [], snapshotId, summary: {} })
      await publish(lake, staged)
      now = new Map(rows)
      note(staged)
    },
    async () => {
      const [oldest] = known.splice(0, known.length > 4 ? 1 : 0)
      if (oldest === undefined) return
      await publish(lake, await lake.lake.stageExpiry(await stateOf(ref), [oldest.snapshotId]))
      await lake.lake.clean(ref, { minAgeMs: 0, nowMs: Date.now() + 24 * 3_600_000 }, signal())
    },
  ]
  await add()
  await add()
  for (let round = 0; round < 40; round += 1) {
    // Half of them are merges.
    const step = round % 2 === 0 ? steps[1] : steps[below(steps.length)]
    await step?.()
    lists += (await lake.lake.scan(ref)).deletes.length
    assert.deepEqual(await rowsOf(ref), sorted(now), `round ${round}`)
    const former = known[below(known.length)]
    if (former !== undefined) await assertChanges(ref, former, known.at(-1) ?? former)
  }
  assert.ok(lists > 10, 'lists were there')
  const kept = await Promise.all(known.map(({ snapshotId }) => lake.lake.scan(ref, { snapshotId })))
  assert.ok(
    kept.some(({ deletes }) => deletes.length > 0),
    'others read lists, too',
  )
  for (const { snapshotId, rows } of known) assert.deepEqual(await rowsOf(ref, snapshotId), sorted(rows))
  const { location } = await stateOf(ref)
  const { columns } = SCHEMA
  for (const reader of ['static', 'duckdb']) {
    const answers = await python(
      known.map(({ snapshotId }) => ({ reader, table: [], metadata: location, snapshot: snapshotId, columns })),
    )
    for (const [at, { rows }] of known.entries()) {
      const { error, rows: found = [] } = answers[at] ?? {}
      assert.equal(error, undefined, reader)
      assert.deepEqual(sorted(new Map(found.map(([id, v]) => [Number(id), v as string]))), sorted(rows), reader)
      assert.equal(found.length, rows.size, reader)
    }
  }
  assert.deepEqual(await lake.lake.check(ref, signal()), [])
})

const sorted = (rows: Rows): Rows => new Map([...rows].sort(([a], [b]) => a - b))

interface Answer {
  readonly rows?: readonly (readonly (string | null)[])[]
  readonly error?: string
}

/** The answers of one Python process, in the order of the jobs. */
async function python(jobs: readonly object[]): Promise<readonly Answer[]> {
  const program = process.env['SLUICE_TEST_ICEBERG_PYTHON'] ?? 'python3'
  const child = spawn(program, [join(import.meta.dirname, '../readers/read.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    signal: AbortSignal.timeout(120_000),
  })
  child.stdin.end(JSON.stringify({ catalogs: { rest: {} }, jobs }))
  const lines = await Array.fromAsync(createInterface({ input: child.stdout }))
  return lines.map((line) => JSON.parse(line))
}

interface Known {
  readonly snapshotId: string
  readonly rows: Rows
}

async function assertChanges(ref: TableRef, from: Known, to: Known): Promise<void> {
  const changes = await lake.lake.changes(ref, from.snapshotId, to.snapshotId, ['id'])
  const [upserts = [], deletes = []] = await collect(lake.engine, changes.tables, [
    `FROM (${changes.upserts}) ORDER BY ALL`,
    `FROM (${changes.deletes}) ORDER BY ALL`,
  ])
  const ascending = ([a]: readonly unknown[], [b]: readonly unknown[]) => Number(a) - Number(b)
  assert.deepEqual(upserts, [...to.rows].filter(([id, v]) => from.rows.get(id) !== v).sort(ascending))
  const gone = [...from.rows.keys()].filter((id) => !to.rows.has(id)).map((id) => [id])
  assert.deepEqual(deletes, gone.sort(ascending))
}

/** Numbers from 0 up to 1, the same in each run. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
