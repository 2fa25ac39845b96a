import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type LogicalType,
  openTenantScope,
  type Row,
  type ServingStore,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { type PostgresFixture, startPostgres } from '../row-secured-postgresql/fixture.ts'
import { changeSet, commitOf, planOf, provide, rowsRead, testHost } from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import lookup from './index.ts'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
    { name: 'region', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}

let fixture: PostgresFixture
let store: ServingStore<LookupConfig>

before(async () => {
  fixture = await startPostgres()
  store = await lookup.open(fixture.settings, testHost())
})

after(async () => {
  await store?.close()
  await fixture?.stop()
})

function target(tenant: string, more: Partial<Target<LookupConfig>> = {}): Target<LookupConfig> {
  const scope = openTenantScope(tenant)
  return { scope, domain: 'sales', product: 'orders', variant: 'clear', schema, config: {}, ...more }
}

const byId = (id: bigint) => ({ filters: [{ column: 'id', operator: 'eq' as const, values: [id] }] })

test('a full set, then a delta, then reads by key', async () => {
  const acme = target('acme')
  assert.ok((await store.provision(acme, 'plan')).steps.length > 0)
  await provide(store, acme)
  assert.deepEqual((await store.provision(acme, 'plan')).steps, [])
  await assert.rejects(rowsRead(store, acme, planOf(acme, byId(1n))), { code: 'not_materialized' })
  const first = changeSet(schema, 'full', [
    [1n, 'one', 'eu'],
    [2n, 'two', null],
    [9007199254740993n, '', 'us'],
  ])
  const receipt = await store.write(acme, first, commitOf(1, null))
  assert.deepEqual(receipt, { epoch: 1, outcome: 'applied', upserted: 3, deleted: 0 })
  assert.deepEqual(await rowsRead(store, acme, planOf(acme, byId(2n))), [{ id: 2, name: 'two', region: null }])
  assert.deepEqual(await rowsRead(store, acme, planOf(acme, byId(9007199254740993n))), [
    { id: '9007199254740993', name: '', region: 'us' },
  ])
  const delta = changeSet(
    schema,
    'delta',
    [
      [2n, 'zwei', 'de'],
      [4n, 'four', null],
    ],
    [[1n]],
  )
  assert.equal((await store.write(acme, delta, commitOf(2, 1))).deleted, 1)
  assert.equal((await store.write(acme, delta, commitOf(2, 1))).outcome, 'already_applied')
  assert.deepEqual(await rowsRead(store, acme, planOf(acme, byId(1n))), [])
  assert.deepEqual(await rowsRead(store, acme, planOf(acme, { operation: 'scan', columns: ['name'] })), [
    { name: 'zwei' },
    { name: 'four' },
    { name: '' },
  ])
})

test('variants of one product are dropped and built anew at the same time', async () => {
  const narrow = { ...schema, columns: schema.columns.slice(0, 2) }
  const variants = ['clear', 'masked', 'masked_pii', 'masked_phi']
  const made = async (variant: string, shape: TableSchema) => {
    const of = target('reshaped', { variant, schema: shape })
    await provide(store, of)
    const rows = [[1n, 'one', 'eu'].slice(0, shape.columns.length)]
    await store.write(of, changeSet(shape, 'full', rows), commitOf(1, null))
    return of
  }
  for (let round = 0; round < 8; round += 1) {
    const shape = round % 2 === 0 ? schema : narrow
    const targets = await Promise.all(variants.map((variant) => made(variant, shape)))
    for (const of of targets) assert.equal((await rowsRead(store, of, planOf(of, byId(1n)))).length, 1)
    await Promise.all(targets.map((of) => store.drop(of, 'apply')))
  }
})

test('what a store says of a copy stays right while tables of the same name come and go', async () => {
  const looked = target('looked', { product: 'shared' })
  await provide(store, looked)
  await store.write(looked, changeSet(schema, 'full', [[1n, 'one', 'eu']]), commitOf(1, null))
  const look = async () => ({
    wall: (await store.rls.describe(looked)).tenantIsolation,
    epoch: (await store.recover?.(looked))?.epoch,
    digest: await store.digest?.(looked, new AbortController().signal),
    rows: await rowsRead(store, looked, planOf(looked, { operation: 'scan' })),
  })
  const right = await look()
  let isOver = false
  const looking = (async () => {
    for (let looks = 1; ; looks += 1) {
      assert.deepEqual(await look(), right)
      if (isOver) return looks
    }
  })()
  const wider = { ...schema, columns: [...schema.columns, { name: 'more', type: 'string', nullable: true } as const] }
  const comesAndGoes = async (tenant: string) => {
    for (let time = 1; time <= 3; time += 1) {
      const own = target(tenant, { product: 'shared' })
      await provide(store, own)
      await store.write(own, changeSet(schema, 'full', [[2n, 'two', 'us']]), commitOf(1, null))
      await provide(store, { ...own, schema: wider })
      if (time === 2) await store.dropTenant(own.scope)
      else await store.drop(own, 'apply')
    }
  }
  await Promise.all(['one', 'two', 'three', 'four'].map(comesAndGoes)).finally(() => {
    isOver = true
  })
  assert.ok((await looking) > 3)
})

test('a copy that leaves a table in which others have rows is read where it is by then', async () => {
  const leave = async (to: TableSchema, how: 'grown' | 'built anew') => {
    const product = how.replace(' ', '_')
    const [own, neighbour] = [target('leaving', { product }), target('staying', { product })]
    const full = (of: Target<LookupConfig>, row: Row, epoch: number) =>
      store.write(of, changeSet(of.schema, 'full', [row]), commitOf(epoch, null))
    for (const one of [own, neighbour]) {
      await provide(store, one)
      await full(one, [1n, 'one', one.scope.tenant], 1)
      // Both ways of reading have seen where it lies.
      for (const more of [byId(1n), { operation: 'scan' as const }]) {
        assert.deepEqual(await rowsRead(store, one, planOf(one, more)), [
          { id: 1, name: 'one', region: one.scope.tenant },
        ])
      }
    }
    const moved = { ...own, schema: to }
    if (how === 'built anew') await store.drop(own, 'apply')
    await provide(store, moved)
    if (how === 'built anew') await full(moved, [1n, true, null], 1)
    const points = Array.from({ length: 12 }, () => byId(1n))
    const plans = [...points, { operation: 'scan' as const }].map((more) => planOf(moved, more))
    const read = await Promise.all(plans.map((plan) => rowsRead(store, moved, plan)))
    assert.deepEqual((await store.provision(neighbour, 'plan')).steps, [])
    assert.deepEqual(await rowsRead(store, neighbour, planOf(neighbour, byId(1n))), [
      { id: 1, name: 'one', region: 'staying' },
    ])
    return [...new Set(read.map((rows) => JSON.stringify(rows)))]
  }
  const column = (name: string, type: LogicalType) => ({ name, type, nullable: true })
  const wider = { ...schema, columns: [...schema.columns, column('more', 'string')] }
  assert.deepEqual(await leave(wider, 'grown'), ['[{"id":1,"name":"one","region":"leaving","more":null}]'])
  const [id = column('id', 'long')] = schema.columns
  const other = { ...schema, columns: [id, column('name', 'boolean'), column('rest', 'date')] }
  assert.deepEqual(await leave(other, 'built anew'), ['[{"id":1,"name":true,"rest":null}]'])
})
