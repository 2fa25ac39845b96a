import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS } from '@sluice/iceberg/testing'
import { type Column, rowsOf, type TableSchema } from '@sluice/sdk'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import { deltaChangeSet } from './change-set.ts'
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
