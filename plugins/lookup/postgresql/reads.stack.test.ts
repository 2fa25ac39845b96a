/**
 * Reads by a key, of which much is remembered between two of them: that each answers what holds at its own moment for its own
 * reader, whatever was asked before and beside it. What is right says a model of the rows in memory.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  isJsonBatch,
  type LogicalType,
  openTenantScope,
  type ReadPlan,
  type ReadPolicy,
  type Row,
  type RowPredicate,
  rowPasses,
  rowsOf,
  type ServingStore,
  type TableSchema,
  type Target,
  toJsonValue,
  type Value,
} from '@sluice/sdk'
import fc from 'fast-check'
import pg from 'pg'
import { type PostgresFixture, startPostgres } from '../row-secured-postgresql/fixture.ts'
import { parseLogin } from '../row-secured-postgresql/index.ts'
import { Lane } from '../row-secured-postgresql/one-sync.ts'
import {
  changeSet,
  commitOf,
  planOf as planWithin,
  provide,
  readAll,
  rowsRead,
  testHost,
} from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import lookup from './index.ts'

/** Far longer than any read takes, on a machine that is busy. */
const planOf = (target: Target<LookupConfig>, more: Partial<ReadPlan> = {}) =>
  planWithin(target, { timeoutMs: 300_000, ...more })

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const LONG = 'long '.repeat(20_000)

/** Keys of each type, and among them those that look alike. */
const KEYS: Readonly<Record<string, { readonly type: LogicalType; readonly values: readonly NonNullable<Value>[] }>> = {
  string: {
    type: 'string',
    values: [
      '',
      ' ',
      'a',
      'A',
      'NULL',
      '{}',
      '{a,b}',
      '"',
      '\\',
      '\\"',
      "'; drop",
      'é',
      'e\u0301',
      '😀',
      '1',
      '01',
      LONG,
    ],
  },
  integer: { type: 'integer', values: [0, 1, -1, 10, 2147483647, -2147483648] },
  long: { type: 'long', values: [0n, -1n, 9007199254740992n, 9007199254740993n, 9223372036854775807n] },
  decimal: { type: 'decimal(20,4)', values: ['0.0000', '1.5000', '-1.5000', '1234567890123456.7890'] },
  date: { type: 'date', values: ['1970-01-01', '0001-01-01', '9999-12-31'] },
  timestamptz: { type: 'timestamptz', values: ['2026-03-29T02:30:00.000001Z', '2026-03-29T02:30:00.000000Z'] },
  uuid: { type: 'uuid', values: ['00000000-0000-0000-0000-000000000000', 'ffffffff-1234-4abc-8def-0123456789ab'] },
}

const CELLS: readonly { readonly name: string; readonly type: LogicalType; readonly value: fc.Arbitrary<Value> }[] = [
  { name: 'team', type: 'string', value: fc.constantFrom('red', 'blue', null) },
  { name: 'level', type: 'integer', value: fc.constantFrom(0, 1, 2, null) },
  { name: 'text', type: 'string', value: fc.option(fc.string({ unit: 'grapheme', maxLength: 8 }).map(withoutNul)) },
  { name: 'big', type: 'long', value: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })) },
  { name: 'money', type: 'decimal(12,2)', value: fc.constantFrom('0.00', '-0.01', '9999999999.99', null) },
  { name: 'ratio', type: 'double', value: fc.option(fc.double({ noNaN: false })) },
  { name: 'seen', type: 'timestamptz', value: fc.constantFrom('1969-12-31T23:59:59.999999Z', null) },
  { name: 'bytes', type: 'binary', value: fc.option(fc.uint8Array({ maxLength: 5 })) },
]

function withoutNul(text: string): string {
  return text.replaceAll('\0', '')
}

const anyCells: fc.Arbitrary<readonly Value[]> = fc.tuple(...CELLS.map(({ value }) => value))

const ROWS: readonly RowPredicate[] = [
  { op: 'all' },
  { op: 'none' },
  { op: 'eq', column: 'team', value: { claim: 'team' } },
  { op: 'ge', column: 'level', value: { claim: 'level' } },
  {
    op: 'or',
    of: [
      { op: 'is_null', column: 'team' },
      { op: 'eq', column: 'team', value: { literal: 'blue' } },
    ],
  },
]

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

type Rows = Map<NonNullable<Value>, Row>

interface Dataset {
  readonly target: Target<LookupConfig>
  readonly key: { readonly type: LogicalType; readonly values: readonly NonNullable<Value>[] }
  readonly rows: Rows
  epoch: number
}

async function dataset(tenant: string, product: string, keyType: string): Promise<Dataset> {
  const key = KEYS[keyType] as Dataset['key']
  const columns = [{ name: 'k', type: key.type, nullable: false }]
  const cells = CELLS.map(({ name, type }) => ({ name, type, nullable: true }))
  const schema: TableSchema = { columns: [...columns, ...cells], primaryKey: ['k'] }
  const scope = openTenantScope(tenant)
  const target: Target<LookupConfig> = { scope, domain: 'hot', product, variant: 'clear', schema, config: {} }
  await provide(store, target)
  await store.write(target, changeSet(schema, 'full', []), commitOf(1, null))
  return { target, key, rows: new Map(), epoch: 1 }
}

/** The runtime makes target and policy anew with each load of a product, equal ones or others. */
const reloaded = ({ target }: Dataset): Target<LookupConfig> => ({
  ...target,
  scope: openTenantScope(target.scope.tenant),
})

async function change(of: Dataset, mode: 'full' | 'delta', upserts: readonly Row[], deleted: readonly Value[]) {
  const { schema } = of.target
  const gone = deleted.filter((key) => key !== null && of.rows.has(key))
  const deletes = mode === 'full' ? [] : gone.map((key): Row => [key])
  const previous = mode === 'full' ? null : of.epoch
  await store.write(of.target, changeSet(schema, mode, upserts, deletes), commitOf(of.epoch + 1, previous))
  of.epoch += 1
  if (mode === 'full') of.rows.clear()
  for (const [key] of deletes) of.rows.delete(key as NonNullable<Value>)
  for (const row of upserts) of.rows.set(row[0] as NonNullable<Value>, row)
}

interface Asked {
  readonly of: Dataset
  readonly key: NonNullable<Value>
  readonly policy: ReadPolicy
  readonly columns: readonly string[]
  readonly encoding: ReadPlan['encoding']
}

function planFor({ of, key, policy, columns, encoding }: Asked): ReadPlan {
  const filters = [{ column: 'k', operator: 'eq', values: [key] }] as const
  return planOf(of.target, { policy, columns, filters, encoding })
}

/** The text of the answer as it has to be, byte for byte. */
function expected({ of: { rows, target }, key, policy, columns, encoding }: Asked): string {
  const { schema } = target
  const row = rows.get(key)
  if (row === undefined || !rowPasses(policy.rows, schema, row, policy.claims)) return encoding === 'json' ? '[]' : ''
  const cells = columns.map((name) => {
    const index = schema.columns.findIndex((column) => column.name === name)
    return { name, type: schema.columns[index]?.type ?? 'string', value: row[index] ?? null }
  })
  if (encoding === 'columns') return cells.map(({ value }) => shown(value)).join('|')
  const members = cells.map(
    ({ name, type, value }) => `${JSON.stringify(name)}:${JSON.stringify(toJsonValue(value, type))}`,
  )
  return `[{${members.join(',')}}]`
}

function shown(value: Value): string {
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('hex')}`
  return `${typeof value} ${Object.is(value, -0) ? '-0' : String(value)}`
}

async function answered(asked: Asked, target: Target<LookupConfig>): Promise<string> {
  const batch = await readAll(store, target, planFor(asked))
  assert.equal(batch.epoch, asked.of.epoch)
  assert.equal(batch.next, undefined)
  if (isJsonBatch(batch)) return batch.json
  return [...rowsOf(batch)].map((row) => row.map(shown).join('|')).join('\n')
}

test('reads by a key answer what holds when they are made, to whom they are made', async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const numbers = fc.sample(fc.nat(), { numRuns: 50_000, seed: SEED })
  const at = <T>(items: readonly T[]): T => items[(numbers.pop() as number) % items.length] as T
  const cells = fc.sample(anyCells, { numRuns: 400, seed: SEED })
  // The same names for two tenants, and two products of one shape, which share a table.
  const datasets: Dataset[] = []
  for (const keyType of Object.keys(KEYS)) {
    for (const [tenant, product] of [
      ['acme', 'one'],
      ['other', 'one'],
      ['acme', 'two'],
    ] as const)
      datasets.push(await dataset(tenant, `${product}_${keyType}`, keyType))
  }
  const names = ['k', ...CELLS.map(({ name }) => name)]
  const claims = [{}, { team: 'red', level: 1 }, { team: 'blue', level: 2 }]
  const policies = ROWS.flatMap((rows) =>
    claims.map((own): ReadPolicy => {
      return { version: '1', rows, claims: own, visibleColumns: names, maskedColumns: [] }
    }),
  )
  // As the runtime asks: all that is visible by the very same list, or some of it in another order.
  const columnsFor = ({ visibleColumns }: ReadPolicy) =>
    at([visibleColumns, visibleColumns, ['k'], ['text', 'k'], ['money', 'ratio', 'big'], ['bytes', 'seen', 'team']])
  for (let round = 0; round < 60; round += 1) {
    const changed = at(datasets)
    const keys = changed.key.values.filter(() => at([true, false]))
    const upserts = keys.map((key): Row => [key, ...at(cells)])
    await change(changed, at(['full', 'delta', 'delta']), upserts, [at(changed.key.values)])
    const asked = Array.from({ length: 40 }, (): Asked => {
      const of = at([changed, changed, at(datasets)])
      const policy = at(policies)
      const encoding = at(['json', 'json', 'columns'] as const)
      return { of, policy, columns: columnsFor(policy), key: at(of.key.values), encoding }
    })
    const found = await Promise.all(asked.map((one) => answered(one, at([one.of.target, reloaded(one.of)]))))
    for (const [index, one] of asked.entries())
      assert.equal(found[index], expected(one), `round ${round}, ${one.of.target.product}, ${shown(one.key)}`)
  }
})

test('a policy that is another one decides anew, though its reader, columns and key are the same', async () => {
  const of = await dataset('acme', 'policies', 'integer')
  const row: Row = [1, 'red', 1, 'text', 1n, '1.00', 1, null, null]
  await change(of, 'full', [row], [])
  const open = planOf(of.target, { filters: [{ column: 'k', operator: 'eq', values: [1] }] })
  const read = (policy: Partial<ReadPolicy>, more: Partial<ReadPlan> = {}) =>
    rowsRead(store, of.target, { ...open, ...more, policy: { ...open.policy, ...policy } })
  for (let time = 0; time < 3; time += 1) {
    assert.equal((await rowsRead(store, of.target, open)).length, 1)
    assert.deepEqual(await read({ rows: { op: 'none' } }), [])
    const byTeam: RowPredicate = { op: 'eq', column: 'team', value: { claim: 'team' } }
    assert.equal((await read({ rows: byTeam, claims: { team: 'red' } })).length, 1)
    assert.deepEqual(await read({ rows: byTeam, claims: { team: 'blue' } }), [])
    await assert.rejects(read({ maskedColumns: ['k'] }), { code: 'column_masked' })
    await assert.rejects(read({ visibleColumns: ['k', 'team'] }), { code: 'column_not_visible' })
    await assert.rejects(read({ visibleColumns: ['team'] }, { columns: ['team'] }), { code: 'column_not_visible' })
    await assert.rejects(read({}, { operation: 'range' }), { code: 'unsupported' })
    await assert.rejects(read({}, { limit: 0 }), { code: 'limit_out_of_range' })
    // Whether its value could be one is nobody's to learn of a column that he does not see.
    const wrong = { columns: ['team'], filters: [{ column: 'k', operator: 'eq', values: ['x'] }] } as const
    await assert.rejects(read({ visibleColumns: ['team'] }, wrong), { code: 'column_not_visible' })
    const { policy: _, ...without } = open
    assert.deepEqual(await rowsRead(store, of.target, without as ReadPlan), [])
  }
})

test('a copy that is dropped, made anew or of another shape is met as it is by the next read', async () => {
  const of = await dataset('acme', 'moving', 'integer')
  const plan = planOf(of.target, { columns: ['k'], filters: [{ column: 'k', operator: 'eq', values: [1] }] })
  const cells = CELLS.map(() => null)
  await change(of, 'full', [[1, ...cells]], [])
  for (let time = 0; time < 3; time += 1) assert.deepEqual(await rowsRead(store, of.target, plan), [{ k: 1 }])
  await store.drop(of.target, 'apply')
  await assert.rejects(rowsRead(store, of.target, plan), { code: 'not_materialized' })
  await assert.rejects(rowsRead(store, of.target, plan), { code: 'not_materialized' })
  // The same product in a table with one column more: what was remembered of the former names another table.
  const { schema } = of.target
  const wider = { ...schema, columns: [...schema.columns, { name: 'more', type: 'string' as const, nullable: true }] }
  const moved: Target<LookupConfig> = { ...of.target, schema: wider }
  await provide(store, moved)
  await store.write(moved, changeSet(wider, 'full', [[1, ...cells, 'm']]), commitOf(1, null))
  for (let time = 0; time < 3; time += 1)
    assert.deepEqual(await rowsRead(store, moved, { ...planOf(moved), ...plan, policy: planOf(moved).policy }), [
      { k: 1 },
    ])
})

test('reads that wait together end at their own time, and those that have more are answered', async () => {
  const of = await dataset('acme', 'waiting', 'integer')
  await change(of, 'full', KEYS['integer']?.values.map((key): Row => [key, ...CELLS.map(() => null)]) ?? [], [])
  const plan = (key: NonNullable<Value>, more: Partial<ReadPlan> = {}) =>
    planOf(of.target, { columns: ['k'], filters: [{ column: 'k', operator: 'eq', values: [key] }], ...more })
  // So that it is known where it lies.
  for (const key of of.key.values) assert.deepEqual(await rowsRead(store, of.target, plan(key)), [{ k: key }])
  const unlock = await locked('waiting')
  const controller = new AbortController()
  const late = of.key.values.map((key) => rowsRead(store, of.target, plan(key, { timeoutMs: 60 })))
  const off = rowsRead(store, of.target, plan(1, { signal: controller.signal, timeoutMs: 300_000 }))
  const patient = of.key.values.map((key) => rowsRead(store, of.target, plan(key, { timeoutMs: 300_000 })))
  for (const one of late) await assert.rejects(one, { code: 'deadline_exceeded' })
  controller.abort()
  await assert.rejects(off, { code: 'aborted' })
  // The server has ended what waited on the pipelined connections: it waits elsewhere by now.
  const waiting = `select count(*)::int as n from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  while (Number((await fixture.admin(waiting))[0]?.['n']) < of.key.values.length) await sleep(20)
  await unlock()
  assert.deepEqual(
    await Promise.all(patient),
    of.key.values.map((key) => [{ k: key }]),
  )
})

/** Holds a lock that reads of the product's table wait for. */
async function locked(product: string): Promise<() => Promise<void>> {
  const found = await fixture.admin('select relation from sluice_store.datasets where product = $1', [product])
  const client = new pg.Client(parseLogin('owner', fixture.settings.owner).config)
  await client.connect()
  await client.query('begin')
  await client.query(`lock table hot."${found[0]?.['relation']}" in access exclusive mode`)
  return async () => {
    await client.query('rollback')
    await client.end()
  }
}

test('a connection keeps a bounded number of statements, and of partitions in the plans of all of them', async () => {
  const { config } = parseLogin('reader', fixture.settings.reader)
  const lane = await Lane.connect(config, () => {}, 300_000)
  const read = async (text: string, partitions = 0) =>
    (await lane.read('acme', 'generic', [{ text, values: [], partitions }]))[0]?.[0]?.[0]
  const kept = async (like: string) =>
    Number(await read(`select count(*)::text from pg_prepared_statements where statement like '${like}%'`))
  try {
    for (let round = 0; round < 2; round += 1) {
      for (let number = 0; number < 310; number += 1) assert.equal(await read(`select '${number}'`), String(number))
      assert.equal(await kept(''), 301, 'and the one that sets the tenant')
    }
    for (let round = 0; round < 2; round += 1) {
      for (let number = 0; number < 25; number += 1) assert.equal(await read(`select 'w${number}'`, 100), `w${number}`)
      assert.equal(await kept(`select ''w`), 20)
    }
    // The table of one has grown: its plan counts as what it is by now, and others make room.
    assert.equal(await read(`select 'w24'`, 1_000), 'w24')
    assert.equal(await kept(`select ''w`), 11)
  } finally {
    await lane.close()
  }
})

test('pages of long rows end before they grow too large, and go on where they ended', async () => {
  const schema: TableSchema = {
    columns: [
      { name: 'k', type: 'integer', nullable: false },
      { name: 'text', type: 'string', nullable: true },
    ],
    primaryKey: ['k'],
  }
  const scope = openTenantScope('acme')
  const of: Target<LookupConfig> = { scope, domain: 'hot', product: 'long', variant: 'clear', schema, config: {} }
  await provide(store, of)
  const MIB = 2 ** 20
  // The first does not fit at all, and is a page by itself; the next two fit together.
  const lengths = [33, 1, 20, 15, 0].map((mib) => mib * MIB)
  const rows = lengths.map((length, k): Row => [k, length === 0 ? null : 'x'.repeat(length)])
  await store.write(of, changeSet(schema, 'full', rows), commitOf(1, null))
  const read: string[] = []
  let position: readonly Value[] | undefined
  do {
    const more = position === undefined ? {} : { after: position }
    const batch = await readAll(store, of, planOf(of, { operation: 'scan', limit: 4, ...more }))
    assert.ok(isJsonBatch(batch))
    const found = JSON.parse(batch.json) as { k: number; text: string | null }[]
    assert.equal(found.length, batch.rowCount)
    for (const { k, text } of found) assert.equal(text?.length ?? 0, lengths[k])
    read.push(found.map(({ k }) => k).join(' '))
    position = batch.next
  } while (position !== undefined)
  assert.deepEqual(read, ['0', '1 2', '3 4'])
})
