/** Cleaning after the files of former states have gone: by an erasure, by a cleaning that kept less, by one that died. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { unlink, utimes, writeFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import type { TableRef } from './index.ts'
import { tablePath } from './table-ref.ts'
import { commitStep, publish, readScan, startTestLake, type TestLake } from './testing.ts'

let lakes: TestLake

before(async () => {
  lakes = await startTestLake()
})
after(() => lakes[Symbol.asyncDispose]())

const SCHEMA: TableSchema = { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: ['id'] }
const HOUR_MS = 3_600_000
const signal = () => AbortSignal.timeout(600_000)

const root = (ref: TableRef) => tablePath(lakes.catalog.layout, ref)
const pathsOf = async (ref: TableRef) => (await Array.fromAsync(lakes.store.list(root(ref)))).map(({ path }) => path)

interface TwoStates {
  readonly ref: TableRef
  /** Paths of the files that the first one was made of; the second shares none. */
  readonly first: readonly string[]
}

/** Ten hours ago. */
async function twoStates(): Promise<TwoStates> {
  const ref: TableRef = { warehouse: 'acme', namespace: 'kept', table: `t_${randomUUID()}` }
  lakes.setTime(Date.now() - 10 * HOUR_MS)
  const step = (id: number) => ({ operation: 'replace', schema: SCHEMA, select: `SELECT ${id} AS id` }) as const
  await commitStep(lakes, ref, step(1))
  const first = await pathsOf(ref)
  await commitStep(lakes, ref, step(2))
  return { ref, first }
}

/** By a process that has read nothing yet. Every file looks two days old. */
async function clean(ref: TableRef, minAgeHours: number) {
  const at = new Date(Date.now() - 48 * HOUR_MS)
  for (const path of await pathsOf(ref)) await utimes(lakes.store.localPath(path), at, at)
  const options = { minAgeMs: minAgeHours * HOUR_MS, nowMs: Date.now() }
  return lakes.lake.fresh().clean(ref, options, signal())
}

async function expireFirst(ref: TableRef): Promise<void> {
  const state = await lakes.lake.load(ref)
  assert.ok(state)
  const [first] = lakes.lake.snapshots(state)
  await publish(lakes, await lakes.lake.stageExpiry(state, [first?.snapshotId as string]))
}

async function expireAndRemove({ ref, first }: TwoStates, kind: RegExp): Promise<void> {
  await expireFirst(ref)
  const gone = first.filter((path) => kind.test(path))
  assert.equal(gone.length, 1)
  for (const path of gone) await unlink(lakes.store.localPath(path))
}

const REMOVALS: Readonly<Record<string, (states: TwoStates) => Promise<unknown>>> = {
  'an erasure': ({ ref }) => lakes.lake.forgetHistory(ref, (staged) => publish(lakes, staged), signal()),
  'a cleaning that kept files for less long': async ({ ref }) => {
    await expireFirst(ref)
    assert.ok((await clean(ref, 1)).removedFiles > 0)
  },
  'a removal that died behind the lists': (states) => expireAndRemove(states, /\/snap-[^/]+\.avro$/),
  'a removal that died behind the manifests': (states) => expireAndRemove(states, /-m\.avro$/),
}

for (const [name, remove] of Object.entries(REMOVALS)) {
  test(`after ${name}, cleaning takes what nothing reaches and keeps the table`, async () => {
    const states = await twoStates()
    const { ref } = states
    lakes.setTime(Date.now() - 9 * HOUR_MS)
    await remove(states)
    const lost = `${root(ref)}/data/lost.parquet`
    await writeFile(lakes.store.localPath(lost), 'lost')
    assert.ok((await clean(ref, 24)).removedFiles > 0)
    assert.ok(!(await pathsOf(ref)).includes(lost))
    assert.deepEqual(await readScan(lakes, await lakes.lake.fresh().scan(ref)), [[2]])
    assert.deepEqual(await lakes.lake.check(ref, signal()), [])
  })
}

test('where a state that the table still has lacks its list, nothing is removed', async () => {
  const { ref, first } = await twoStates()
  const list = first.find((path) => /\/snap-[^/]+\.avro$/.test(path)) as string
  await unlink(lakes.store.localPath(list))
  const left = await pathsOf(ref)
  await assert.rejects(clean(ref, 24), { code: 'lake_file_corrupted' })
  assert.deepEqual(await pathsOf(ref), left)
})
