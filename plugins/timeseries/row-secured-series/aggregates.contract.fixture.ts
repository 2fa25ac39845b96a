/** Tests of kept aggregates, which hold for every way of keeping rows. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { PostgresFixture } from '@sluice/lookup/row-secured-postgresql/fixture'
import {
  changeSet,
  commitOf,
  planOf,
  provide,
  rowsRead,
  testHost,
} from '@sluice/lookup/row-secured-postgresql/test-data'
import {
  intervalStartMs,
  openTenantScope,
  parseInterval,
  type ReadPlan,
  type Row,
  type RowPredicate,
  type ServingStore,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import fc from 'fast-check'
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

const weekly: TimeseriesConfig = {
  continuous_aggregates: [
    { interval: '1 week', columns: ['amount', 'count'] },
    { interval: '1 month', columns: ['amount'] },
  ],
}

export function testAggregates({ plugin, start }: SeriesUnderTest): void {
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

  type Change = { readonly id: number; readonly day: number; readonly amount: number | null; readonly remove: boolean }

  const history = fc.array(
    fc.uniqueArray(
      fc.record({
        id: fc.integer({ min: 1, max: 8 }),
        day: fc.integer({ min: -40, max: 80 }),
        amount: fc.option(fc.integer({ min: -999, max: 999 })),
        remove: fc.boolean(),
      }),
      { selector: (change) => change.id, maxLength: 6 },
    ),
    { minLength: 1, maxLength: 5 },
  )

  /** The aggregate's lines from the rows themselves. */
  function recomputed(rows: Iterable<Change>, interval: string): readonly unknown[] {
    const every = parseInterval(interval)
    if (!every) throw new Error(interval)
    const groups = Map.groupBy(rows, (change) => intervalStartMs(every, Date.parse(at(change.day))))
    return [...groups]
      .sort(([left], [right]) => left - right)
      .map(([startMs, group]) => {
        const amounts = group.flatMap((change) => change.amount ?? []).sort((left, right) => left - right)
        const sum = amounts.reduce((total, amount) => total + amount, 0)
        const text = (amount: number | undefined) => (amount === undefined ? null : (amount / 100).toFixed(2))
        const avg = amounts.length === 0 ? null : sum / 100 / amounts.length
        return {
          bucket: new Date(startMs).toISOString().replace('Z', '000Z'),
          amount_count: amounts.length,
          amount_sum: amounts.length === 0 ? null : text(sum),
          amount_avg: avg === null ? null : Number(avg.toFixed(9)),
          amount_min: text(amounts[0]),
          amount_max: text(amounts.at(-1)),
        }
      })
  }

  let products = 0

  test('aggregates equal what the rows give after any changes, late ones and removals included', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (epochs) => {
        products += 1
        const of = target(`aggregated_${products}`, weekly)
        await provide(store, of)
        const state = new Map<number, Change>()
        for (const [index, changes] of epochs.entries()) {
          const upserts = changes.filter((change) => index === 0 || !change.remove)
          const deletes = changes.filter((change) => index > 0 && change.remove)
          for (const change of upserts) state.set(change.id, change)
          for (const change of deletes) state.delete(change.id)
          const rows = upserts.map((change) =>
            row(change.id, change.day, change.amount === null ? null : (change.amount / 100).toFixed(2)),
          )
          const set = changeSet(
            schema,
            index === 0 ? 'full' : 'delta',
            rows,
            deletes.map((change) => [BigInt(change.id)]),
          )
          await store.write(of, set, commitOf(index + 1, index || null))
        }
        for (const interval of ['1 week', '1 month']) {
          const columns = ['bucket', 'amount_count', 'amount_sum', 'amount_avg', 'amount_min', 'amount_max']
          const expected = recomputed(state.values(), interval)
          const kept = await rowsRead(store, of, aggregatePlan(of, interval, columns))
          const rounded = (lines: readonly Record<string, unknown>[]) =>
            lines.map((line) => ({
              ...line,
              amount_avg: line.amount_avg === null ? null : Number(Number(line.amount_avg).toFixed(9)),
            }))
          assert.deepEqual(rounded(kept), expected)
          const plan = aggregatePlan(of, interval, columns)
          const always: RowPredicate = { op: 'not', of: { op: 'none' } }
          const live = await rowsRead(store, of, { ...plan, policy: { ...plan.policy, rows: always } })
          assert.deepEqual(rounded(live), expected)
        }
        await store.drop(of, 'apply')
      }),
      { numRuns: 12 },
    )
  })

  test('a reader of some rows gets the aggregate of those alone; without a policy there is none', async () => {
    const of = target('personal', weekly)
    await provide(store, of)
    await store.write(
      of,
      changeSet(schema, 'full', [row(1, 1, '1.00'), row(2, 1, '2.00'), row(3, 15, '4.00')]),
      commitOf(1, null),
    )
    const plan = aggregatePlan(of, '1 week', ['bucket', 'amount_sum'])
    const rows: RowPredicate = { op: 'eq', column: 'region', value: { claim: 'region' } }
    const odd = { ...plan, policy: { ...plan.policy, rows, claims: { region: 'odd' } } }
    assert.deepEqual(
      (await rowsRead(store, of, odd)).map((line) => line.amount_sum),
      ['1.00', '4.00'],
    )
    const range = { from: at(2), to: at(15) }
    assert.deepEqual(
      (await rowsRead(store, of, { ...odd, range })).map((line) => line.amount_sum),
      ['1.00', '4.00'],
    )
    assert.deepEqual(
      (await rowsRead(store, of, { ...plan, range })).map((line) => line.amount_sum),
      ['3.00', '4.00'],
    )
    const upTo = { from: '2026-01-05', to: '2026-01-12' }
    assert.deepEqual(await rowsRead(store, of, { ...plan, range: upTo }), [])
    assert.deepEqual(await rowsRead(store, of, { ...odd, range: upTo }), [])
    assert.deepEqual(await rowsRead(store, of, { ...plan, policy: { ...plan.policy, rows: { op: 'none' } } }), [])
    const { policy: _, ...without } = plan
    assert.deepEqual(await rowsRead(store, of, without as ReadPlan), [])
    await assert.rejects(rowsRead(store, of, { ...plan, interval: '1 year' }), { code: 'unknown_interval' })
  })

  test('a table that is emptied by hand is refused to its readers, and no other; built anew, it is read', async () => {
    const rows = [row(1, 1, '1.00'), row(2, 40, '2.00')]
    const of = target('emptied', weekly)
    const fill = async () => {
      await provide(store, of)
      await store.write(of, changeSet(schema, 'full', rows), commitOf(1, null))
    }
    const seen = async () => {
      const plans = [
        planOf(of, { operation: 'range', limit: 10 }),
        aggregatePlan(of, '1 week', ['bucket', 'amount_sum']),
      ]
      const told = plans.map((plan) =>
        rowsRead(store, of, plan).then(
          (found) => found.length,
          (error) => error.code,
        ),
      )
      return (await Promise.all(told)).join()
    }
    await fill()
    assert.equal(await seen(), '2,2')
    const tables = await fixture.admin(
      `select distinct d.endpoint, t.relid::regclass::text as name, t.isleaf and t.level > 0 as piece
         from sluice_store.datasets d, pg_partition_tree(to_regclass('sluice_partitions.' || d.partition)) t
         where d.product = 'emptied' union all
       select d.endpoint, 'sluice_partitions.' || d.partition, false from sluice_store.datasets d
         where d.product = 'emptied' and d.partition = d.relation`,
    )
    const kinds = new Map(tables.map(({ endpoint, piece }) => [`${endpoint} ${piece}`, { endpoint, piece }]))
    assert.ok(kinds.size >= 3, 'rows, by weeks, by months')
    for (const { endpoint, piece } of kinds.values()) {
      const found = await fixture.admin(
        `select d.partition from sluice_store.datasets d where d.product = 'emptied' and d.endpoint = $1`,
        [endpoint],
      )
      const own = `sluice_partitions.${found[0]?.partition}`
      const [leaf] = piece
        ? await fixture.admin(
            `select relid::regclass::text as name from pg_partition_tree($1::regclass) where isleaf and level > 0`,
            [own],
          )
        : [{ name: own }]
      await fixture.admin(`truncate ${leaf?.name}`)
      const isMonths = endpoint === 'timeseries/1 month'
      const lost = endpoint === 'timeseries' ? 'schema_conflict,2' : '2,schema_conflict'
      assert.equal(await seen(), isMonths ? '2,2' : lost, `${endpoint}, ${leaf?.name}`)
      await store.drop(of, 'apply')
      await fill()
      assert.equal(await seen(), '2,2')
    }
  })

  test('provisioning follows the config: an aggregate more, an aggregate less, a column more', async () => {
    const of = target('evolving')
    await provide(store, of)
    await store.write(of, changeSet(schema, 'full', [row(1, 1), row(2, 40)]), commitOf(1, null))
    const more = target('evolving', weekly)
    await assert.rejects(store.write(more, changeSet(schema, 'delta', []), commitOf(2, 1)), { kind: 'CONFLICT' })
    const plan = await store.provision(more, 'plan')
    assert.equal(
      plan.steps.filter((step) => step.action === 'create' && step.statement?.includes('create table')).length,
      2,
    )
    await assert.rejects(store.provision(more, 'apply', 'stale'), { code: 'stale_plan' })
    await store.provision(more, 'apply', plan.hash)
    await provide(store, more)
    assert.deepEqual((await store.provision(more, 'plan')).steps, [])
    const months = aggregatePlan(more, '1 month', ['bucket', 'amount_count'])
    assert.equal((await rowsRead(store, more, months)).length, 2)
    const wide: TableSchema = {
      ...schema,
      columns: [...schema.columns, { name: 'extra', type: 'double', nullable: true }],
    }
    const less = target('evolving', { continuous_aggregates: [{ interval: '1 month', columns: ['amount'] }] }, wide)
    assert.deepEqual(
      (await store.provision(less, 'plan')).steps.map((step) => step.action),
      ['alter', 'drop'],
    )
    await provide(store, less)
    assert.deepEqual(await ids(less), [1, 2])
    await store.write(less, changeSet(wide, 'delta', [[...row(3, 41), 0.5]]), commitOf(2, 1))
    assert.deepEqual(
      (await rowsRead(store, less, months)).map((line) => line.amount_count),
      [1, 2],
    )
    assert.equal((await rowsRead(store, less, months)).length, 2)
    await store.drop(less, 'apply')
    assert.deepEqual((await store.drop(less, 'plan')).steps, [])
    const [left] = await fixture.admin(
      `select count(*)::int as n from pg_class where relkind in ('r','p') and relname like 'evolving%'`,
    )
    assert.equal(left?.n, 0)
  })
}
