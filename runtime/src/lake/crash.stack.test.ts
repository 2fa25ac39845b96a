import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { Lake, type ObjectStore, type TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, publish, readScan, stageStep } from '@sluice/iceberg/testing'
import type { TableSchema } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from './registry-catalog.ts'
import { type RegistryLake, startRegistryLake } from './testing.ts'

/** A write ends at each of its steps in turn, as it does when the process dies there: nothing is undone afterwards. */
let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: ['id'] }
const signal = () => AbortSignal.timeout(600_000)
const append = (id: number) => ({ operation: 'append', schema: SCHEMA, select: `SELECT ${id} AS id` }) as const

class Dead extends Error {}

/** The real store and catalog; the `step`-th change of either is the last thing that is not done. */
function dyingLake(step: number): { readonly test: RegistryLake; readonly steps: () => number } {
  let count = 0
  const alive = () => {
    count += 1
    if (count > step) throw new Dead()
  }
  const store = new Proxy<ObjectStore>(lake.store, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown
      if (typeof member !== 'function') return member
      return (...args: unknown[]) => {
        if (name === 'put' || name === 'adopt') alive()
        return (member as (...all: unknown[]) => unknown).apply(target, args)
      }
    },
  })
  const pool = new Proxy(lake.pool, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown
      if (name !== 'query') return typeof member === 'function' ? member.bind(target) : member
      return async (...args: unknown[]) => {
        if (/^\s*(insert|update|delete)/i.test(String(args[0]))) alive()
        return (target.query as (...all: unknown[]) => unknown)(...args)
      }
    },
  })
  const dying = new Lake({ store, catalog: registryCatalog(pool), engine: lake.engine })
  return {
    test: {
      ...lake,
      pool,
      lake: dying,
      publish: (staged) => inTransaction(pool, (tx) => dying.publish(registryCatalog(tx), staged)),
    },
    steps: () => count,
  }
}

test('a commit that dies at any step leaves the old state, and the next one is well', {
  timeout: 600_000,
}, async () => {
  const ref: TableRef = { warehouse: 'crashed', namespace: 'kept', table: `t_${randomUUID()}` }
  await commitStep(lake, ref, append(0))
  let expected = [[0]]
  for (let step = 0; ; step += 1) {
    const dying = dyingLake(step)
    const died = await commitStep(dying.test, ref, append(1_000 + step)).then(
      () => false,
      (error: unknown) => error instanceof Dead || (error as Error).cause instanceof Dead,
    )
    assert.deepEqual(await lake.lake.check(ref, signal()), [], `after step ${step}`)
    const rows = await readScan(lake, await lake.lake.scan(ref))
    if (!died) {
      assert.deepEqual(rows, [...expected, [1_000 + step]], 'it got through')
      assert.ok(step >= 4, 'a lease, a data file, a manifest, a list and the metadata were written one by one')
      return
    }
    assert.deepEqual(rows, expected, `after step ${step}`)
    await commitStep(lake, ref, append(step + 1))
    expected = [...expected, [step + 1]]
    assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), expected)
  }
})

test('a merge that dies between new rows, lists of deleted ones and the commit loses no row and shows none twice', {
  timeout: 600_000,
}, async () => {
  const ref: TableRef = { warehouse: 'crashed', namespace: 'kept', table: `t_${randomUUID()}` }
  await commitStep(lake, ref, { ...append(0), select: 'SELECT CAST(range AS INTEGER) AS id FROM range(500)' })
  const left = new Set(Array.from({ length: 500 }, (_, id) => id))
  const rows = async () => (await readScan(lake, await lake.lake.scan(ref))).map(([id]) => id)
  for (let step = 0; ; step += 1) {
    const dying = dyingLake(step)
    const died = await mergeStep(dying.test, ref, 400 + step, 1_000 + step).then(
      () => false,
      (error: unknown) => {
        if (error instanceof Dead || (error as Error).cause instanceof Dead) return true
        throw error
      },
    )
    assert.deepEqual(await lake.lake.check(ref, signal()), [], `after step ${step}`)
    if (!died) {
      left.delete(400 + step)
      left.add(1_000 + step)
    }
    assert.deepEqual(await rows(), [...left].sort(ascending), `after step ${step}`)
    if (!died) {
      assert.ok(step >= 7, 'a lease, rows, a list, a manifest of each, a list and metadata were written one by one')
      return
    }
    await mergeStep(lake, ref, step, 2_000 + step)
    left.delete(step)
    left.add(2_000 + step)
    assert.equal((await lake.lake.scan(ref)).deletes.length, 1)
    assert.deepEqual(await rows(), [...left].sort(ascending))
  }
})

const ascending = (a: number, b: number) => a - b

async function mergeStep(by: RegistryLake, ref: TableRef, gone: number, added: number): Promise<void> {
  const base = (await by.lake.load(ref)) ?? assert.fail('there is no table')
  const { written, removed, removedFrom } = await by.lake.merge(
    {
      ...{ base, scan: await by.lake.scan(base), schema: SCHEMA, rows: 'keep', key: ['id'], smallFileRows: 100 },
      job: { limits: LIMITS },
      changed: `SELECT ${added} AS id`,
      gone: `SELECT ${gone} AS id`,
    },
    signal(),
  )
  const { plan, files, writeId } = written
  const change = { base, plan, operation: 'overwrite', files, removed, removedFrom, writeId, summary: {} } as const
  await publish(by, await by.lake.stage(ref, change))
}

test('a publication that is rolled back is none, and publishing it later is refused or done once', async () => {
  const ref: TableRef = { warehouse: 'crashed', namespace: 'kept', table: `t_${randomUUID()}` }
  await commitStep(lake, ref, append(0))
  const base = await lake.lake.load(ref)
  assert.ok(base)
  const target = { ref, base, select: 'SELECT 1 AS id', schema: SCHEMA, rows: 'keep' } as const
  const { written } = await lake.lake.write({ limits: LIMITS }, [target], signal())
  const [data] = written
  assert.ok(data)
  const { plan, files, writeId } = data
  const staged = await lake.lake.stage(ref, { base, plan, operation: 'append', files, writeId, summary: {} })
  const rolledBack = inTransaction(lake.pool, async (tx) => {
    await lake.lake.publish(registryCatalog(tx), [staged])
    throw new Dead()
  })
  await assert.rejects(rolledBack, Dead)
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [[0]])
  await publish(lake, staged)
  await publish(lake, staged)
  assert.deepEqual(await readScan(lake, await lake.lake.scan(ref)), [[0], [1]])
})

test('of two commits from the same state one wins, and the loser moves no table of its transaction', async () => {
  const [ref, other] = ['raced', 'bystander'].map(
    (name): TableRef => ({ warehouse: 'crashed', namespace: 'kept', table: `${name}_${randomUUID()}` }),
  ) as [TableRef, TableRef]
  await commitStep(lake, ref, append(1))
  const [winner, loser, bystander] = [
    await stageStep(lake, ref, append(2)),
    await stageStep(lake, ref, append(3)),
    await stageStep(lake, other, append(4)),
  ]
  await publish(lake, winner)
  await assert.rejects(publish(lake, bystander, loser), { kind: 'CONFLICT', code: 'lake_commit_conflict' })
  assert.equal(await lake.lake.load(other), null)
  assert.equal((await lake.lake.scan(ref)).rows, 2)
})
