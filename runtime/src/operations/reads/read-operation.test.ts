import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RecordingLogger, TestHost, VirtualClock } from '@sluice/conformance'
import reference, { ReferenceMemory } from '@sluice/conformance/reference'
import {
  batchFromRows,
  CLEAR,
  openTenantScope,
  type Row,
  type ServingStore,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { askedBy, type Serving, servedBy } from './operation-under-test.fixture.ts'
import { offeredOperations } from './read-operation.ts'

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
    { name: 'city', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const ROWS: readonly Row[] = [
  [1n, 'Ana', 'Bonn'],
  [2n, 'Banana', 'Bonn'],
  [9007199254740993n, 'Anna Nana', 'Ulm'],
  [4n, 'Otto', 'Köln'],
]
const MASKED = ROWS.map(([id = null, , city = null]) => [id, 'xxx', city])
type Operate = NonNullable<ServingStore['operate']>
const { signal } = new AbortController()

async function serving(): Promise<Serving> {
  const host = { clock: new VirtualClock(), logger: new RecordingLogger(), stateDirectory: '', seed: 1 }
  const store = await reference.open({ memory: new ReferenceMemory() }, new TestHost(host))
  return { type: 'reference', plugin: reference, store }
}

async function copy({ store }: Serving, variant: string, rows: readonly Row[]): Promise<Target> {
  const target = {
    scope: openTenantScope('acme'),
    domain: 'crm',
    product: 'people',
    variant,
    schema: SCHEMA,
    config: {},
  }
  await store.provision(target, 'apply')
  await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
  const changes = {
    ...{ mode: 'full' as const, schema: SCHEMA, upsertCount: rows.length, deleteCount: 0 },
    async *upserts() {
      yield batchFromRows(rows, SCHEMA.columns.length)
    },
    async *deletes() {},
  }
  const commit = { epoch: 1, previousEpoch: null, fence: 1n, committedAt: '2026-01-01T00:00:00.000000Z', signal }
  await store.write(target, changes as never, commit)
  return target
}

const an = { column: 'name', text: 'an' }

test('rows of a declared operation come with what it adds, as reads spell values', async () => {
  const store = await serving()
  const product = servedBy(store, [{ target: await copy(store, CLEAR, ROWS), maskedColumns: [] }])
  const { data, meta, next_cursor: next } = await askedBy(store, product, { input: an })
  assert.deepEqual(data, [
    { id: 2, name: 'Banana', city: 'Bonn', matches: 2 },
    { id: '9007199254740993', name: 'Anna Nana', city: 'Ulm', matches: 1 },
  ])
  assert.deepEqual([meta['epoch'], meta['store'], next], [1, 'reference:memory', null])
  const narrow = await askedBy(store, product, { input: an, columns: ['matches', 'id'] })
  assert.deepEqual(narrow.data[0], { matches: 2, id: 2 })
})

test('what a plugin calls as built-in types do is its own, whatever it holds', async () => {
  const store = await serving()
  const config = { include_columns: 3, key_template: ['{id}'], history_mode: { kept: true } }
  const target = { ...(await copy(store, CLEAR, ROWS)), config: {} }
  const product = servedBy(store, [{ target, maskedColumns: [] }])
  const served = servedBy(
    {
      ...store,
      store: { ...store.store, operate: (at, plan) => (store.store.operate as Operate)({ ...at, config: {} }, plan) },
    },
    [{ target: { ...target, config }, maskedColumns: [] }],
  )
  const own = await askedBy(store, served, { input: an })
  assert.deepEqual(own.data, (await askedBy(store, product, { input: an })).data)
})

test('its pages are those of one request, and of no other', async () => {
  const store = await serving()
  const product = servedBy(store, [{ target: await copy(store, CLEAR, ROWS), maskedColumns: [] }])
  const first = await askedBy(store, product, { input: an, limit: 1 })
  const cursor = String(first.next_cursor)
  const second = await askedBy(store, product, { input: an, limit: 1, cursor })
  assert.deepEqual(
    [first, second].map(({ data }) => data.map(({ id }) => id)),
    [[2], ['9007199254740993']],
  )
  assert.equal(second.next_cursor, null)
  const others = [{ input: { ...an, text: 'na' } }, { input: an, columns: ['id'] }]
  for (const other of others) await assert.rejects(askedBy(store, product, { ...other, cursor }), /another request/)
})

test('who is shown a column masked chooses by others, and sees the mask', async () => {
  const store = await serving()
  const copies = [
    { target: await copy(store, CLEAR, ROWS), maskedColumns: [] },
    { target: await copy(store, 'masked', MASKED), maskedColumns: ['name'] },
  ]
  const product = servedBy(store, copies, { name: 'pii.name' })
  await assert.rejects(askedBy(store, product, { input: an }), { code: 'column_masked' })
  const { data } = await askedBy(store, product, { input: { column: 'city', text: 'Ulm' } })
  assert.deepEqual(data, [{ id: '9007199254740993', name: 'xxx', city: 'Ulm', matches: 1 }])
})

test('a plugin that does not say what it selects by selects by all columns', async () => {
  const store = await serving()
  const silent = { ...store, plugin: { ...store.plugin, selects: undefined } }
  const target = await copy(store, 'masked', MASKED)
  const product = servedBy(silent as never, [{ target, maskedColumns: ['name'] }], { name: 'pii.name' })
  const city = { column: 'city', text: 'Ulm' }
  await assert.rejects(askedBy(silent as never, product, { input: city }), { code: 'column_masked' })
})

test('columns that are not there are refused, in the input and in the answer', async () => {
  const store = await serving()
  const product = servedBy(store, [{ target: await copy(store, CLEAR, ROWS), maskedColumns: [] }])
  await assert.rejects(askedBy(store, product, { input: { ...an, column: 'nope' } }), { code: 'unknown_column' })
  await assert.rejects(askedBy(store, product, { input: an, columns: ['nope'] }), { code: 'unknown_column' })
  await assert.rejects(askedBy(store, product, { input: { ...an, column: 'id' } }), { code: 'invalid_value' })
})

test('two types that declare an operation of one name do not start', async () => {
  const [one, other] = [await serving(), { ...(await serving()), type: 'search' }]
  assert.throws(() => offeredOperations({ servingTypes: () => [one, other] }), { code: 'plugin_invalid' })
  const without = { ...other, store: { ...other.store, operate: undefined } }
  assert.deepEqual(
    offeredOperations({ servingTypes: () => [one, without as never] }).map(({ name, type }) => [name, type]),
    [['containing', 'reference']],
  )
})
