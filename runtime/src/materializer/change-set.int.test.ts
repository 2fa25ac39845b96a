import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Engine, EngineSession } from '@sluice/engine'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS } from '@sluice/iceberg/testing'
import { type ChangeSet, type Column, rowsOf, type TableSchema } from '@sluice/sdk'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import { deltaChangeSet } from './change-set.ts'
import { ChangeSets } from './change-sets.ts'
import { type LakeState, stateOfScan, UNKNOWN_FIELD } from './lake-state.ts'
import { comparable } from './store-sync.ts'

let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake()
})
after(() => lake[Symbol.asyncDispose]())

const ID: Column = { name: 'id', type: 'integer', nullable: false }
const schemaOf = (...others: readonly Column[]): TableSchema => ({ columns: [ID, ...others], primaryKey: ['id'] })
const column = (name: string, type: Column['type']): Column => ({ name, type, nullable: true })

/** The content of the table after a replacement, in the columns of `as` as a product's epochs are read. */
async function replaced(ref: TableRef, schema: TableSchema, select: string, as = schema): Promise<LakeState> {
  await commitStep(lake, ref, { operation: 'replace', schema, select })
  const state = stateOfScan(await lake.lake.scan(ref)) as LakeState
  const idOf = (name: string) => state.columns.find((known) => known.name === name)?.id
  return { ...state, columns: as.columns.map((one, at) => ({ ...one, id: idOf(one.name) ?? UNKNOWN_FIELD - at })) }
}

async function upsertsOf(earlier: LakeState, later: LakeState): Promise<readonly unknown[]> {
  const directory = await mkdtemp(join(lake.dir, 'difference-'))
  const options = { engine: lake.engine, limits: LIMITS, directory, signal: AbortSignal.timeout(600_000) }
  const { changes, close } = await deltaChangeSet(earlier, later, options)
  const rows = []
  for await (const batch of changes.upserts()) rows.push(...rowsOf(batch))
  await close()
  return rows.map((row) => [...row]).sort()
}

const newRef = (): TableRef => ({ warehouse: 'acme', namespace: 'sales', table: `t_${randomUUID()}` })

test('a column that is another one under the same name is compared by its values, and calls for a full set', async () => {
  const ref = newRef()
  const now = schemaOf(column('v', 'integer'))
  const select = (one: string) => `SELECT * FROM (VALUES (1, ${one}), (2, ${one}), (3, NULL)) t(id, v)`
  const earlier = await replaced(ref, schemaOf(column('v', 'string')), select("'5'"), now)
  const later = await replaced(
    ref,
    now,
    `SELECT id::INTEGER AS id, if(id = 1, NULL, v)::INTEGER AS v FROM (${select('5')})`,
  )
  assert.notEqual(earlier.columns[1]?.id, later.columns[1]?.id)
  assert.equal(comparable(earlier, later), false)
  assert.deepEqual(await upsertsOf(earlier, later), [[1, null]])
})

test('a column that came is no hindrance; one that an epoch lacks again is', async () => {
  const ref = newRef()
  const now = schemaOf(column('v', 'integer'))
  const without = await replaced(ref, schemaOf(), 'SELECT 1 AS id', now)
  const having = await replaced(ref, now, 'SELECT 1 AS id, 5 AS v')
  const lacking = await replaced(ref, schemaOf(), 'SELECT 1 AS id', now)
  assert.equal(comparable(without, having), true)
  assert.deepEqual(await upsertsOf(without, having), [[1, 5]])
  assert.equal(comparable(having, having), true)
  assert.deepEqual(await upsertsOf(having, having), [])
  assert.equal(comparable(having, lacking), false)
  assert.deepEqual(await upsertsOf(having, lacking), [[1, null]])
})

/** The lake's engine, and what was asked of it. */
function counted(): { readonly engine: Engine; readonly sessions: EngineSession[]; jobs: number } {
  const asked = { sessions: [] as EngineSession[], jobs: 0 }
  const engine: Engine = {
    ...lake.engine,
    async open(job, signal) {
      const session = await lake.engine.open(job, signal)
      asked.sessions.push(session)
      return session
    },
    run(job, signal) {
      asked.jobs += 1
      return lake.engine.run(job, signal)
    },
  }
  return Object.assign(asked, { engine })
}

test('small change sets of all variants come from one process, and from others where it has ended', async () => {
  const schema = schemaOf(column('v', 'integer'))
  const content = (values: string) => `SELECT * FROM (VALUES ${values}) t(id, v)`
  const states: { readonly before: LakeState; readonly after: LakeState }[] = []
  for (const ref of [newRef(), newRef()]) {
    const before = await replaced(ref, schema, content('(1, 1), (2, 2), (3, NULL)'))
    states.push({ before, after: await replaced(ref, schema, content('(1, 1), (2, 20), (4, NULL)')) })
  }
  const [clear, masked] = states as [(typeof states)[0], (typeof states)[0]]
  const rowsIn = async (part: AsyncIterable<Parameters<typeof rowsOf>[0]>) => {
    const rows = []
    for await (const batch of part) rows.push(...rowsOf(batch))
    return rows.map((row) => [...row]).sort()
  }
  const deltaOf = async (changes: ChangeSet) => [await rowsIn(changes.upserts()), await rowsIn(changes.deletes())]
  const delta = [
    [
      [2, 20],
      [4, null],
    ],
    [[3]],
  ]
  const asked = counted()
  const deps = { engine: asked.engine, limits: LIMITS, scratchDirectory: join(lake.dir, 'scratch') }
  const sets = new ChangeSets(deps, async () => [clear.after, clear.before, masked.after, masked.before])
  const signal = AbortSignal.timeout(600_000)
  const shared = { having: null, isShared: true }
  const [first, second, third] = await Promise.all([
    sets.open({ ...clear, ...shared }, signal),
    sets.open({ ...masked, ...shared }, signal),
    sets.open({ ...clear, before: null, having: 'v', isShared: true }, signal),
  ])
  for (const { changes } of [first, second, first]) assert.deepEqual(await deltaOf(changes), delta)
  const timed = [
    [1, 1],
    [2, 20],
  ]
  assert.deepEqual([await rowsIn(third.changes.upserts()), third.leftOut], [timed, 1])
  const dated = await sets.open({ ...masked, having: 'v', isShared: true }, signal)
  assert.deepEqual([await deltaOf(dated.changes), dated.leftOut], [[[[2, 20]], []], 1])
  assert.deepEqual([asked.sessions.length, asked.jobs], [1, 0])
  const foreign = await replaced(newRef(), schema, content('(7, 7)'))
  const other = await sets.open({ before: null, after: foreign, having: null, isShared: true }, signal)
  assert.deepEqual(await rowsIn(other.changes.upserts()), [[7, 7]])
  assert.equal(asked.sessions.length, 2)
  await asked.sessions[0]?.close()
  assert.deepEqual(await deltaOf(second.changes), delta)
  const late = await sets.open({ ...clear, having: 'v', isShared: true }, signal)
  assert.deepEqual(await deltaOf(late.changes), [[[2, 20]], []])
  await sets.close()
  assert.deepEqual(
    asked.sessions.filter(({ isOpen }) => isOpen),
    [],
  )
  assert.deepEqual(await readdir(deps.scratchDirectory), [])
})
