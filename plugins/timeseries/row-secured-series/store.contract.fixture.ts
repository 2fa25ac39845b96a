/** Tests of how rows are kept by time, which hold for every way of keeping rows. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { PostgresFixture } from '@sluice/lookup/row-secured-postgresql/fixture'
import {
  changeSet,
  commitOf,
  planOf,
  provide,
  readAll,
  rowsRead,
  testHost,
} from '@sluice/lookup/row-secured-postgresql/test-data'
import {
  openTenantScope,
  type ReadPlan,
  type Row,
  type ServingStore,
  SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import type { TimeseriesConfig } from './config.ts'
import type { SeriesUnderTest } from './series-under-test.fixture.ts'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'at', type: 'timestamptz', nullable: false },
    { name: 'region', type: 'string', nullable: true },
    { name: 'amount', type: 'decimal(10,2)', nullable: true },
    { name: 'count', type: 'integer', nullable: true },
  ],
  primaryKey: ['id'],
}

const keyless: TableSchema = { ...schema, primaryKey: [] }

const weekly: TimeseriesConfig = {
  continuous_aggregates: [
    { interval: '1 week', columns: ['amount', 'count'] },
    { interval: '1 month', columns: ['amount'] },
  ],
}

export function testSeries({ plugin, start, chunks, probe }: SeriesUnderTest): void {
  let fixture: PostgresFixture
  let store: ServingStore<TimeseriesConfig>

  before(async () => {
    fixture = await start()
    store = await plugin.open(fixture.settings, testHost())
  })

  after(async () => {
    await store?.close()
    await fixture?.stop()
  })

  function target(
    product: string,
    config: TimeseriesConfig = {},
    shape = schema,
    tenant = 'acme',
  ): Target<TimeseriesConfig> {
    return { scope: openTenantScope(tenant), domain: 'series', product, variant: 'clear', schema: shape, config }
  }

  const at = (day: number, time = '12:00:00.000000') =>
    `${new Date(Date.UTC(2026, 0, day)).toISOString().slice(0, 10)}T${time}Z`

  function row(id: number, day: number, amount: string | null = '1.00', count: number | null = 1): Row {
    return [BigInt(id), at(day), id % 2 ? 'odd' : 'even', amount, count]
  }

  async function ids(of: Target<TimeseriesConfig>, more: Partial<ReadPlan> = {}): Promise<unknown[]> {
    return (await rowsRead(store, of, planOf(of, { operation: 'range', limit: 1000, ...more }))).map(
      (found) => found.id,
    )
  }

  function aggregatePlan(
    of: Target<TimeseriesConfig>,
    interval: string,
    columns: string[],
    more: Partial<ReadPlan> = {},
  ): ReadPlan {
    const plan = planOf(of, { operation: 'aggregate', interval, columns, limit: 1000, ...more })
    return { ...plan, policy: { ...plan.policy, visibleColumns: [...plan.policy.visibleColumns, ...columns] } }
  }

  test('ranges are half-open, in order of time, and pages end where the next begins', async () => {
    const of = target('ranged')
    await provide(store, of)
    await store.write(of, changeSet(schema, 'full', [row(3, 3), row(1, 1), row(2, 2), row(9, 40)]), commitOf(1, null))
    assert.deepEqual(await ids(of), [1, 2, 3, 9])
    assert.equal(await chunks(fixture, 'ranged'), 4)
    const range = (from: string | null, to: string | null) => ids(of, { range: { from, to } })
    assert.deepEqual(await range(at(1), at(3)), [1, 2])
    assert.deepEqual(await range(at(1, '12:00:00.000001'), at(3, '12:00:00.000001')), [2, 3])
    assert.deepEqual(await range('2026-01-02', '2026-01-03'), [2])
    assert.deepEqual(await range(null, at(2)), [1])
    assert.deepEqual(await range(at(3), null), [3, 9])
    assert.deepEqual(await range(at(3), at(3)), [])
    await assert.rejects(range('secret', null), { code: 'invalid_value' })
    const first = await readAll(store, of, planOf(of, { operation: 'range', limit: 2 }))
    assert.deepEqual(first.next, [at(2), 2n])
    assert.deepEqual(await ids(of, { after: first.next ?? [] }), [3, 9])
    assert.deepEqual(await ids(of, { filters: [{ column: 'region', operator: 'eq', values: ['odd'] }] }), [1, 3, 9])
    assert.deepEqual(await ids(of, { orderBy: [{ column: 'at', direction: 'desc' }], limit: 1 }), [9])
  })

  test('under a key rows are replaced where they are, also when they move in time', async () => {
    const of = target('moved', weekly)
    await provide(store, of)
    await store.write(of, changeSet(schema, 'full', [row(1, 1), row(2, 1), row(3, 20)]), commitOf(1, null))
    const delta = changeSet(schema, 'delta', [row(1, 60, '5.00'), row(4, 2)], [[3n]])
    assert.deepEqual(await store.write(of, delta, commitOf(2, 1)), {
      epoch: 2,
      outcome: 'applied',
      upserted: 2,
      deleted: 1,
    })
    assert.equal((await store.write(of, delta, commitOf(2, 1))).outcome, 'already_applied')
    assert.deepEqual(await ids(of), [2, 4, 1])
    const columns = ['bucket', 'amount_sum', 'amount_count']
    assert.deepEqual(await rowsRead(store, of, aggregatePlan(of, '1 week', columns)), [
      { bucket: '2025-12-29T00:00:00.000000Z', amount_sum: '2.00', amount_count: 2 },
      { bucket: '2026-02-23T00:00:00.000000Z', amount_sum: '5.00', amount_count: 1 },
    ])
  })

  test('without a key a delta is added once and a full set takes its place', async () => {
    const of = target('appended', weekly, keyless)
    await provide(store, of)
    await store.write(of, changeSet(keyless, 'full', [row(1, 1), row(1, 1)]), commitOf(1, null))
    const delta = changeSet(keyless, 'delta', [row(1, 1), row(2, 9)])
    await store.write(of, delta, commitOf(2, 1))
    await store.write(of, delta, commitOf(2, 1))
    assert.deepEqual(await ids(of), [1, 1, 1, 2])
    const first = await readAll(store, of, planOf(of, { operation: 'range', limit: 2 }))
    assert.deepEqual(await ids(of, { after: first.next ?? [] }), [1, 2])
    await store.write(of, changeSet(keyless, 'full', [row(7, 7)]), commitOf(3, null))
    assert.deepEqual(await ids(of), [7])
    const lines = await rowsRead(store, of, aggregatePlan(of, '1 month', ['bucket', 'amount_count']))
    assert.deepEqual(lines, [{ bucket: '2026-01-01T00:00:00.000000Z', amount_count: 1 }])
  })

  test('dates, timestamps and instants all part at midnight UTC', async () => {
    const midnight = ['2026-03-28T23:59:59.999999', '2026-03-29T00:00:00.000000', '2026-03-29T01:30:00.000000']
    for (const type of ['date', 'timestamp', 'timestamptz'] as const) {
      const shape: TableSchema = { columns: [{ name: 'time', type, nullable: false }], primaryKey: ['time'] }
      const of = target(
        `midnight_${type}`,
        { continuous_aggregates: [{ interval: '1 day', columns: ['time'] }] },
        shape,
      )
      await provide(store, of)
      const values =
        type === 'date'
          ? ['2026-03-28', '2026-03-29']
          : midnight.map((time) => (type === 'timestamptz' ? `${time}Z` : time))
      await store.write(
        of,
        changeSet(
          shape,
          'full',
          values.slice(0, 1).map((value) => [value]),
        ),
        commitOf(1, null),
      )
      await store.write(
        of,
        changeSet(
          shape,
          'delta',
          values.slice(1).map((value) => [value]),
        ),
        commitOf(2, 1),
      )
      const found = await rowsRead(
        store,
        of,
        planOf(of, { operation: 'range', range: { from: '2026-03-29', to: '2026-03-30' } }),
      )
      assert.deepEqual(
        found.map((line) => line.time),
        values.slice(1),
      )
      const lines = await rowsRead(store, of, aggregatePlan(of, '1 day', ['bucket', 'time_count']))
      assert.deepEqual(lines, [
        { bucket: '2026-03-28T00:00:00.000000Z', time_count: 1 },
        { bucket: '2026-03-29T00:00:00.000000Z', time_count: values.length - 1 },
      ])
    }
  })

  test('rows that no chunk can take are refused, and nothing of theirs stays', async () => {
    const of = target('strict')
    await provide(store, of)
    const bad = async (upserts: Row[], code: string) => {
      await assert.rejects(store.write(of, changeSet(schema, 'full', upserts), commitOf(1, null)), {
        code,
        kind: 'INVALID_DATA',
      })
    }
    await bad([[1n, null, null, null, null]], 'missing_time')
    await bad([[1n, 'infinity', null, null, null]], 'time_out_of_range')
    await store.write(of, changeSet(schema, 'full', [row(1, 1)]), commitOf(1, null))
    const delta = changeSet(schema, 'delta', [[1n, null, null, null, null]])
    await assert.rejects(store.write(of, delta, commitOf(2, 1)), { code: 'missing_time' })
    assert.deepEqual(await ids(of), [1])
  })

  test('very many intervals share chunks, and later rows find room between them', async () => {
    const of = target('sparse')
    await provide(store, of)
    const rows = Array.from({ length: 900 }, (_, index) => row(index, index * 3))
    await store.write(of, changeSet(schema, 'full', rows), commitOf(1, null))
    const count = await chunks(fixture, 'sparse')
    assert.ok(count > 100 && count <= 400, String(count))
    const more = Array.from({ length: 20 }, (_, index) => row(2000 + index, index * 150 - 10))
    await store.write(of, changeSet(schema, 'delta', more), commitOf(2, 1))
    assert.equal((await ids(of)).length, 920)
  })

  test('after a failure at any point, a repeat reaches the same end', async () => {
    for (const point of ['timeseries.after-stage', 'timeseries.before-commit', 'timeseries.after-commit']) {
      const of = target(`crash_${point.slice(11)}`, weekly)
      await provide(store, of)
      for (const [epoch, set] of [
        [1, changeSet(schema, 'full', [row(1, 1), row(2, 20)])],
        [2, changeSet(schema, 'delta', [row(2, 1), row(3, 50)], [[1n]])],
      ] as const) {
        let armed = true
        const failing = await plugin.open(
          fixture.settings,
          testHost((name) => {
            if (name !== point || !armed) return
            armed = false
            throw new SluiceError('TRANSIENT', 'crash', { code: 'crash' })
          }),
        )
        const commit = commitOf(epoch, epoch === 1 ? null : 1)
        await assert.rejects(failing.write(of, set, commit), { code: 'crash' })
        await failing.write(of, set, commit)
        await failing.close()
      }
      assert.deepEqual(await ids(of), [2, 3])
      const lines = await rowsRead(store, of, aggregatePlan(of, '1 month', ['bucket', 'amount_count']))
      assert.deepEqual(
        lines.map((line) => line.amount_count),
        [1, 1],
      )
    }
  })

  test('the probe says how rows are kept', async () => {
    const report = await store.probe(new AbortController().signal)
    assert.ok(report.ok, JSON.stringify(report))
    assert.ok(report.checks.some((check) => check.name === probe))
  })

  test('two writers that need the same new chunks: one applies the epoch, the rows are there once', async () => {
    const of = target('raced', weekly)
    await provide(store, of)
    await store.write(of, changeSet(schema, 'full', [row(0, 0)]), commitOf(1, null))
    const other = await plugin.open(fixture.settings, testHost())
    for (let epoch = 2; epoch < 8; epoch += 1) {
      const rows = Array.from({ length: 10 }, (_, index) => row(epoch * 100 + index, epoch * 10 + index))
      const write = (via: ServingStore<TimeseriesConfig>) =>
        via.write(of, changeSet(schema, 'delta', rows), commitOf(epoch, epoch - 1))
      const settled = await Promise.allSettled([write(store), write(other)])
      const outcomes = settled.map((one) => (one.status === 'fulfilled' ? one.value.outcome : one.reason.code))
      assert.equal(outcomes.filter((outcome) => outcome === 'applied').length, 1, String(outcomes))
    }
    assert.equal((await ids(of)).length, 61)
    assert.equal(await chunks(fixture, 'raced'), 61)
    await other.close()
  })

  test('a writer that was overtaken while it staged is fenced, and its chunks stay empty', async () => {
    const of = target('zombie', weekly)
    await provide(store, of)
    await store.write(of, changeSet(schema, 'full', [row(1, 1)]), commitOf(1, null, { fence: 1n }))
    const zombie = await plugin.open(
      fixture.settings,
      testHost(async (name) => {
        if (name !== 'timeseries.after-stage') return
        await store.write(of, changeSet(schema, 'delta', [row(2, 2)]), commitOf(2, 1, { fence: 2n }))
      }),
    )
    const late = zombie.write(of, changeSet(schema, 'delta', [row(66, 66)]), commitOf(2, 1, { fence: 1n }))
    await assert.rejects(late, { kind: 'FENCED' })
    assert.deepEqual(await ids(of), [1, 2])
    const lines = await rowsRead(store, of, aggregatePlan(of, '1 month', ['bucket', 'amount_count']))
    assert.deepEqual(
      lines.map((line) => line.amount_count),
      [2],
    )
    await zombie.close()
  })
}
