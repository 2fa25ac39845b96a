import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  compareAs,
  type Filter,
  isJsonBatch,
  type LogicalType,
  type Ordering,
  openTenantScope,
  type ReadPlan,
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
import { type PostgresFixture, startPostgres } from '../row-secured-postgresql/fixture.ts'
import {
  changeSet,
  commitOf,
  planOf,
  provide,
  readAll,
  rowsRead,
  testHost,
} from '../row-secured-postgresql/test-data.ts'
import type { LookupConfig } from './config.ts'
import lookup from './index.ts'

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

function target(product: string, schema: TableSchema, config: LookupConfig = {}): Target<LookupConfig> {
  return { scope: openTenantScope('acme'), domain: 'reads', product, variant: 'clear', schema, config }
}

async function fill(of: Target<LookupConfig>, rows: readonly Row[]): Promise<void> {
  await provide(store, of)
  await store.write(of, changeSet(of.schema, 'full', rows), commitOf(1, null))
}

const VALUES: Readonly<Record<string, { readonly type: LogicalType; readonly values: readonly Value[] }>> = {
  string: { type: 'string', values: ['', 'a', 'B', 'é', '😀', '"\\\n\t', "'; drop", 'NULL', '\\N', ' '] },
  boolean: { type: 'boolean', values: [true, false] },
  integer: { type: 'integer', values: [0, -1, 2147483647, -2147483648] },
  long: {
    type: 'long',
    values: [0n, 9007199254740991n, 9007199254740992n, -9223372036854775808n, 9223372036854775807n],
  },
  float: { type: 'float', values: [0, Math.fround(0.1), Number.NaN, Number.POSITIVE_INFINITY, Math.fround(3.4e38)] },
  double: { type: 'double', values: [0, 0.1, 1e300, 5e-324, Number.NaN, Number.NEGATIVE_INFINITY, 1e21] },
  decimal: {
    type: 'decimal(38,10)',
    values: ['0.0000000000', '-9999999999999999999999999999.9999999999', '1.5000000000'],
  },
  small: { type: 'decimal(4,2)', values: ['-10.00', '9.00', '10.00', '99.99'] },
  date: { type: 'date', values: ['1970-01-01', '2026-02-28', '0001-01-01', '9999-12-31'] },
  timestamp: { type: 'timestamp', values: ['2026-03-29T02:30:00.000001', '1969-12-31T23:59:59.999999'] },
  timestamptz: { type: 'timestamptz', values: ['2026-03-29T02:30:00.000001Z', '1582-10-15T00:00:00.000000Z'] },
  uuid: { type: 'uuid', values: ['00000000-0000-0000-0000-000000000000', 'ffffffff-1234-4abc-8def-0123456789ab'] },
  binary: {
    type: 'binary',
    values: [new Uint8Array(), new Uint8Array([0, 255, 92, 120]), new Uint8Array(100).fill(7)],
  },
  json: { type: 'json', values: ['{"b": 1, "a": [1, null, "x"]}', '"text"', 'null', '[]', '12345678901234567890'] },
}

const everyType: TableSchema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    ...Object.entries(VALUES).map(([name, { type }]) => ({ name: `c_${name}`, type, nullable: true })),
  ],
  primaryKey: ['id'],
}

const everyRow: readonly Row[] = Array.from({ length: 12 }, (_, id) => [
  id,
  ...Object.values(VALUES).map(({ values }) => (id === 11 ? null : (values[id % values.length] ?? null))),
])

test('every logical type survives, as JSON and as columns, built and merged', async () => {
  for (const mode of ['built', 'merged']) {
    const of = target(`types_${mode}`, everyType)
    await fill(of, mode === 'built' ? everyRow : [])
    if (mode === 'merged') await store.write(of, changeSet(everyType, 'delta', everyRow), commitOf(2, 1))
    const scan = planOf(of, { operation: 'scan' })
    const columns = await readAll(store, of, { ...scan, encoding: 'columns' })
    assert.ok(!isJsonBatch(columns))
    assert.deepEqual([...rowsOf(columns)], everyRow)
    const expected = everyRow.map((row) =>
      Object.fromEntries(
        everyType.columns.map((column, index) => [column.name, toJsonValue(row[index] ?? null, column.type)]),
      ),
    )
    assert.deepEqual(await rowsRead(store, of, scan), expected)
  }
})

test('numbers have the digits of JSON.stringify, where the server has others', async () => {
  const powers = Array.from({ length: 300 }, (_, at) => 2 ** (at - 150))
  const halves = fc.sample(fc.integer({ min: 0, max: 2 ** 27 }), 100).map((quarters) => quarters / 4)
  const large = fc.sample(fc.float({ noNaN: true, min: 2 ** 24, max: 2 ** 70 }), 250)
  const doubles = fc.sample(fc.double({ noNaN: true, min: 1e15, max: 1e42 }), 250)
  const known = [1e5, 1e6, 1e15, 1e16, 1e20, 1e21, 1e22, 1.5e-5, 1e-6, 1e-7, 0.1, 36028801313931260, 1e300, 5e-324]
  const numbers = [...known, ...powers, ...halves, ...large, ...doubles]
  const float = (number: number) => (Number.isFinite(Math.fround(number)) ? Math.fround(number) : null)
  const of = target('digits', {
    columns: [
      { name: 'id', type: 'integer', nullable: false },
      { name: 'f', type: 'float', nullable: true },
      { name: 'd', type: 'double', nullable: true },
    ],
    primaryKey: ['id'],
  })
  await fill(
    of,
    numbers.map((number, id) => [id, float(number), number]),
  )
  const digits = (value: Value, type: LogicalType) => JSON.stringify(toJsonValue(value, type))
  const read = await readAll(store, of, { ...planOf(of, { operation: 'scan' }), limit: numbers.length })
  assert.ok(isJsonBatch(read))
  assert.deepEqual(
    read.json.slice(1, -1).split(/(?<=}),/),
    numbers.map((number, id) => `{"id":${id},"f":${digits(float(number), 'float')},"d":${digits(number, 'double')}}`),
  )
})

const filterable = everyType.columns.filter((column) => column.type !== 'json')
const indexAll: LookupConfig = { index_columns: filterable.map((column) => column.name) }

function matches(filter: Filter, row: Row): boolean {
  const index = everyType.columns.findIndex((column) => column.name === filter.column)
  const cell = row[index] ?? null
  const type = everyType.columns[index]?.type ?? 'string'
  if (cell === null) return false
  return filter.values.some((value) => {
    const order = compareAs(type, cell, value)
    const { operator } = filter
    if (operator === 'eq' || operator === 'in') return order === 0
    if (operator === 'ne') return order !== 0
    if (operator === 'lt') return order < 0
    if (operator === 'le') return order <= 0
    return operator === 'gt' ? order > 0 : order >= 0
  })
}

const column = fc.constantFrom(...filterable.filter((candidate) => candidate.name !== 'id'))

function anyValue(name: string): fc.Arbitrary<NonNullable<Value>> {
  const values = VALUES[name.replace('c_', '')]?.values ?? []
  return fc.constantFrom(...values.filter((value) => value !== null))
}

const anyFilter: fc.Arbitrary<Filter> = column.chain(({ name }) =>
  fc
    .record({
      operator: fc.constantFrom('eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in' as const),
      values: fc.array(anyValue(name), { minLength: 1, maxLength: 3 }),
    })
    .map(({ operator, values }) => {
      return { column: name, operator, values: operator === 'in' ? values : values.slice(0, 1) } as Filter
    }),
)

test('filters agree with the meaning of values', async () => {
  const of = target('filtered', everyType, indexAll)
  await fill(of, everyRow)
  await fc.assert(
    fc.asyncProperty(fc.array(anyFilter, { maxLength: 2 }), async (filters) => {
      const rows = await rowsRead(store, of, planOf(of, { operation: 'scan', columns: ['id'], filters }))
      const expected = everyRow.filter((row) => filters.every((filter) => matches(filter, row)))
      assert.deepEqual(
        rows.map((row) => row.id),
        expected.map((row) => row[0]),
      )
    }),
    { numRuns: 150 },
  )
})

const { predicate } = fc.letrec<{ predicate: RowPredicate }>((tie) => ({
  predicate: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom<RowPredicate>({ op: 'all' }, { op: 'none' }),
    column.map(({ name }): RowPredicate => ({ op: 'is_null', column: name })),
    column.chain(({ name }) =>
      fc.record({
        op: fc.constantFrom('eq', 'ne', 'lt', 'le', 'gt', 'ge' as const),
        column: fc.constant(name),
        value: fc.oneof(
          anyValue(name).map((literal) => ({ literal })),
          fc.constantFrom({ claim: name }, { claim: 'no' }),
        ),
      }),
    ) as fc.Arbitrary<RowPredicate>,
    column.chain(({ name }) =>
      fc
        .array(
          fc.oneof(
            anyValue(name).map((literal) => ({ literal })),
            fc.constant({ claim: 'no' }),
          ),
          { maxLength: 3 },
        )
        .map((values): RowPredicate => ({ op: 'in', column: name, values })),
    ),
    tie('predicate').map((of): RowPredicate => ({ op: 'not', of })),
    fc.record({ op: fc.constantFrom('and', 'or' as const), of: fc.array(tie('predicate'), { maxLength: 3 }) }),
  ),
}))

test('row predicates agree with their meaning, nulls and missing claims included', async () => {
  const of = target('predicates', everyType)
  await fill(of, everyRow)
  const claims = Object.fromEntries(
    Object.entries(VALUES).map(([name, { values }]) => [`c_${name}`, values[1] ?? null]),
  )
  await fc.assert(
    fc.asyncProperty(predicate, async (rows) => {
      const plan = planOf(of, { operation: 'scan', columns: ['id'] })
      const found = await rowsRead(store, of, { ...plan, policy: { ...plan.policy, rows, claims } })
      const expected = everyRow.filter((row) => rowPasses(rows, everyType, row, claims))
      assert.deepEqual(
        found.map((row) => row.id),
        expected.map((row) => row[0]),
      )
    }),
    { numRuns: 150 },
  )
})

/** Null above every value, ties by key. */
function sorted(rows: readonly Row[], orderBy: readonly Ordering[]): readonly Row[] {
  return [...rows].sort((left, right) => {
    for (const { column: name, direction } of [...orderBy, { column: 'id', direction: 'asc' }]) {
      const index = everyType.columns.findIndex((candidate) => candidate.name === name)
      const [a, b] = [left[index] ?? null, right[index] ?? null]
      const order =
        a === null || b === null
          ? Number(a === null) - Number(b === null)
          : compareAs(everyType.columns[index]?.type ?? 'string', a, b)
      if (order !== 0) return direction === 'asc' ? order : -order
    }
    return 0
  })
}

async function pages(of: Target<LookupConfig>, plan: ReadPlan): Promise<unknown[]> {
  const found: unknown[] = []
  let after: readonly Value[] | undefined
  do {
    const batch = await readAll(store, of, after ? { ...plan, after } : plan)
    assert.ok(isJsonBatch(batch))
    found.push(...JSON.parse(batch.json).map((row: { id: unknown }) => row.id))
    after = batch.next
  } while (after)
  return found
}

test('pages in any order skip nothing and repeat nothing', async () => {
  const rows = Array.from(
    { length: 40 },
    (_, id): Row => [
      id,
      ...Object.values(VALUES).map(({ values }, at) =>
        (id * 7 + at) % 5 === 0 ? null : (values[(id + at) % values.length] ?? null),
      ),
    ],
  )
  const of = target('paged', everyType)
  await fill(of, rows)
  const ordering = fc.uniqueArray(
    fc.record({ column: column.map(({ name }) => name), direction: fc.constantFrom('asc', 'desc' as const) }),
    { selector: (order) => order.column, maxLength: 3 },
  )
  await fc.assert(
    fc.asyncProperty(ordering, fc.integer({ min: 1, max: 17 }), async (orderBy, limit) => {
      const plan = planOf(of, { operation: 'scan', columns: ['id'], orderBy, limit })
      assert.deepEqual(
        await pages(of, plan),
        sorted(rows, orderBy).map((row) => row[0]),
      )
    }),
    { numRuns: 30 },
  )
})

test('rows without a key are kept apart and paged', async () => {
  const schema: TableSchema = { columns: [{ name: 'id', type: 'integer', nullable: true }], primaryKey: [] }
  const of = target('keyless', schema, { index_columns: ['id'] })
  await fill(of, [[1], [1], [null]])
  await store.write(of, changeSet(schema, 'delta', [[1], [2]]), commitOf(2, 1))
  assert.deepEqual(await pages(of, planOf(of, { operation: 'scan', limit: 2 })), [1, 1, null, 1, 2])
  const digest = await store.digest?.(of, new AbortController().signal)
  await store.write(of, changeSet(schema, 'full', [[2], [1], [null], [1], [1]]), commitOf(3, 2))
  assert.deepEqual(await store.digest?.(of, new AbortController().signal), digest)
  await store.write(of, changeSet(schema, 'full', [[2], [1], [null], [1]]), commitOf(4, 3))
  assert.notDeepEqual(await store.digest?.(of, new AbortController().signal), digest)
})

test('what a reader may not do is refused before the server is asked', async () => {
  const of = target('refused', everyType, { index_columns: ['c_string'] })
  await fill(of, everyRow)
  const base = planOf(of, { columns: ['id'] })
  const policy = { ...base.policy, visibleColumns: ['id', 'c_string', 'c_date'], maskedColumns: ['c_string'] }
  const by = (name: string, value: NonNullable<Value>): Partial<ReadPlan> => {
    return { filters: [{ column: name, operator: 'eq', values: [value] }] }
  }
  const refused = async (plan: Partial<ReadPlan>, code: string): Promise<void> => {
    await assert.rejects(rowsRead(store, of, { ...base, policy, ...plan }), (error: Error & { code: string }) => {
      assert.equal(error.code, code)
      assert.ok(!error.message.includes('secret-value'))
      return true
    })
  }
  await refused(by('c_string', 'secret-value'), 'column_masked')
  await refused({ orderBy: [{ column: 'c_string', direction: 'asc' }] }, 'column_masked')
  await refused(by('c_long', 1n), 'column_not_visible')
  await refused({ columns: ['c_uuid'] }, 'column_not_visible')
  await refused({ columns: ['row_number'] }, 'column_not_visible')
  await refused(by('c_date', '2026-01-01'), 'filter_not_indexed')
  await refused(by('id', 'secret-value'), 'invalid_value')
  await refused(by('id', 99999999999), 'invalid_value')
  await refused({ after: ['secret-value'] }, 'invalid_cursor')
  await refused({ after: [1, 2] }, 'invalid_cursor')
  await refused({ operation: 'range' }, 'unsupported')
  await refused({ history: { kind: 'all' } }, 'unsupported')
  await refused({ limit: 0 }, 'limit_out_of_range')
  const { policy: _, ...without } = base
  assert.deepEqual(await rowsRead(store, of, without as ReadPlan), [])
})

test('a read ends at its time-out and when it is called off, and the connection is not lost to others', async () => {
  const of = target('slow', everyType)
  await fill(of, everyRow)
  const lock = await lockedParent('slow')
  const plan = planOf(of, { filters: [{ column: 'id', operator: 'eq', values: [1] }], timeoutMs: 60 })
  await assert.rejects(rowsRead(store, of, plan), { code: 'deadline_exceeded' })
  const controller = new AbortController()
  const scan = rowsRead(store, of, planOf(of, { operation: 'scan', signal: controller.signal }))
  setTimeout(() => controller.abort(), 20)
  await assert.rejects(scan, { code: 'aborted' })
  await lock()
  assert.equal((await rowsRead(store, of, { ...plan, timeoutMs: 300_000 })).length, 1)
})

/** Holds a lock that reads must wait for. */
async function lockedParent(product: string): Promise<() => Promise<void>> {
  const { default: pg } = await import('pg')
  const { parseLogin } = await import('../row-secured-postgresql/index.ts')
  const client = new pg.Client(parseLogin('owner', fixture.settings.owner).config)
  await client.connect()
  await client.query('begin')
  await client.query(`lock table reads."${product}" in access exclusive mode`)
  return async () => {
    await client.query('rollback')
    await client.end()
  }
}

test('reads go on after every connection was lost', async () => {
  const of = target('restarted', everyType)
  await fill(of, everyRow)
  const plan = planOf(of, { filters: [{ column: 'id', operator: 'eq', values: [1] }] })
  const reading = Array.from({ length: 50 }, () => rowsRead(store, of, plan).catch((error) => error))
  await fixture.restart()
  for (const result of await Promise.all(reading)) {
    assert.ok(Array.isArray(result) || result.kind === 'TRANSIENT', String(result))
  }
  for (const startedMs = performance.now(); ; ) {
    const result = await rowsRead(store, of, plan).catch((error) => error)
    if (Array.isArray(result)) break
    assert.ok(result.kind === 'TRANSIENT' && performance.now() - startedMs < 300_000, String(result))
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  await store.write(of, changeSet(everyType, 'delta', []), commitOf(2, 1))
})

test('before a policy is installed there are no rows', async () => {
  const of = target('unpoliced', everyType)
  await store.provision(of, 'apply')
  await store.write(of, changeSet(everyType, 'full', everyRow), commitOf(1, null))
  const scan = planOf(of, { operation: 'scan' })
  const point = planOf(of, { filters: [{ column: 'id', operator: 'eq', values: [1] }] })
  assert.deepEqual(await rowsRead(store, of, scan), [])
  assert.deepEqual(await rowsRead(store, of, point), [])
  await store.rls.install(of, { version: '1', tenantIsolation: 'forced' })
  assert.equal((await rowsRead(store, of, scan)).length, everyRow.length)
  assert.equal((await rowsRead(store, of, point)).length, 1)
})
