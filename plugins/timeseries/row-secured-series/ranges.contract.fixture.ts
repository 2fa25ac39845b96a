/** Ranges of rows, whose plans the server may keep: that each read has the rows of its own range, as they are by then. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { PostgresFixture } from '@sluice/lookup/row-secured-postgresql/fixture'
import {
  changeSet,
  commitOf,
  planOf,
  provide,
  readAll,
  testHost,
} from '@sluice/lookup/row-secured-postgresql/test-data'
import {
  isJsonBatch,
  openTenantScope,
  type ReadPlan,
  type Row,
  type RowPredicate,
  rowPasses,
  type ServingStore,
  type TableSchema,
  type Target,
  toJsonValue,
  type Value,
} from '@sluice/sdk'
import fc from 'fast-check'
import type { TimeseriesConfig } from './config.ts'
import type { SeriesUnderTest } from './series-under-test.fixture.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'at', type: 'timestamptz', nullable: false },
    { name: 'text', type: 'string', nullable: true },
    { name: 'amount', type: 'decimal(12,2)', nullable: true },
    { name: 'ratio', type: 'double', nullable: true },
    { name: 'bytes', type: 'binary', nullable: true },
  ],
  primaryKey: ['id'],
}

const CELLS: readonly (readonly Value[])[] = [
  ['', 'a', '"\\\n\t', '😀', 'NULL', 'long '.repeat(2_000), null],
  ['0.00', '-0.01', '9999999999.99', null],
  [0, 1e21, 5e-324, Number.NaN, Number.NEGATIVE_INFINITY, null],
  [new Uint8Array(), new Uint8Array([0, 255]), null],
]

const PREDICATES: readonly RowPredicate[] = [
  { op: 'all' },
  { op: 'all' },
  { op: 'all' },
  { op: 'none' },
  { op: 'eq', column: 'text', value: { claim: 'text' } },
]

const DAY_MS = 86_400_000
const FIRST_MS = Date.UTC(2000, 0, 1)

export function testRanges({ plugin, start }: SeriesUnderTest): void {
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

  test('ranges have their rows in order of time, while rows and parts of the table come and go', async (t) => {
    t.diagnostic(`seed ${SEED}`)
    const numbers = fc.sample(fc.nat(), { numRuns: 60_000, seed: SEED })
    const upTo = (most: number) => (numbers.pop() as number) % most
    const pick = <T>(items: readonly T[]): T => items[upTo(items.length)] as T
    const instant = (day: number) => new Date(FIRST_MS + day * DAY_MS).toISOString().replace('Z', '000Z')

    const made = async (tenant: string, interval: string) => {
      const config: TimeseriesConfig = { time_column: 'at', chunk_interval: interval }
      const scope = openTenantScope(tenant)
      const product = `ranges_${interval.replaceAll(' ', '_')}`
      const target: Target<TimeseriesConfig> = { scope, domain: 'hot', product, variant: 'clear', schema, config }
      await provide(store, target)
      await store.write(target, changeSet(schema, 'full', []), commitOf(1, null))
      return { target, rows: new Map<bigint, Row>(), epoch: 1 }
    }
    type Series = Awaited<ReturnType<typeof made>>

    const change = async (of: Series, isFull: boolean, lastDay: number) => {
      const ids = Array.from({ length: 1 + upTo(30) }, () => BigInt(upTo(120)))
      const upserts = new Map(
        ids.map((id): [bigint, Row] => [id, [id, instant(upTo(lastDay)), ...CELLS.map((values) => pick(values))]]),
      )
      const gone = isFull ? [] : [...of.rows.keys()].filter((id) => !upserts.has(id) && upTo(10) === 0)
      const deletes = gone.map((id): Row => [id])
      const changes = changeSet(schema, isFull ? 'full' : 'delta', [...upserts.values()], deletes)
      await store.write(of.target, changes, commitOf(of.epoch + 1, isFull ? null : of.epoch))
      of.epoch += 1
      if (isFull) of.rows.clear()
      for (const id of gone) of.rows.delete(id)
      for (const [id, row] of upserts) of.rows.set(id, row)
    }

    /** The pages of a range, one behind the other; and as the model has them. */
    const compare = async ({ target, rows, epoch }: Series, lastDay: number) => {
      const [from, to] = [upTo(lastDay), upTo(lastDay)].sort((a, b) => a - b) as [number, number]
      const bounds = { from: pick([instant(from), instant(from), null]), to: pick([instant(to), instant(to), null]) }
      const direction = pick(['asc', 'asc', 'desc'] as const)
      const plan = planOf(target, { operation: 'range', range: bounds, orderBy: [{ column: 'at', direction }] })
      const policy = { ...plan.policy, rows: pick(PREDICATES), claims: { text: pick(['a', 'NULL']) } }
      const asked: ReadPlan = { ...plan, policy, limit: pick([3, 17, 100]), timeoutMs: 300_000 }
      const found: string[] = []
      let position: readonly Value[] | undefined
      do {
        const batch = await readAll(store, target, position === undefined ? asked : { ...asked, after: position })
        assert.ok(isJsonBatch(batch))
        assert.equal(batch.epoch, epoch)
        assert.ok(batch.rowCount <= asked.limit)
        if (batch.rowCount > 0) found.push(batch.json.slice(1, -1))
        position = batch.next
      } while (position !== undefined)
      const wanted = [...rows.values()]
        .filter((row) => {
          const at = String(row[1])
          return (bounds.from === null || at >= bounds.from) && (bounds.to === null || at < bounds.to)
        })
        .filter((row) => rowPasses(policy.rows, schema, row, policy.claims))
        .sort((a, b) => {
          const byTime = String(a[1]) < String(b[1]) ? -1 : Number(String(a[1]) > String(b[1]))
          return (direction === 'asc' ? byTime : -byTime) || Number((a[0] as bigint) - (b[0] as bigint))
        })
        .map((row) => {
          const members = schema.columns.map(
            ({ name, type }, index) =>
              `${JSON.stringify(name)}:${JSON.stringify(toJsonValue(row[index] ?? null, type))}`,
          )
          return `{${members.join(',')}}`
        })
      assert.equal(found.join(','), wanted.join(','), JSON.stringify([bounds, direction, policy.rows, asked.limit]))
    }

    // Few parts and many: of the first a plan is kept, of the last none may be.
    const few = [await made('acme', '1 year'), await made('other', '1 year')]
    const many = [await made('acme', '1 week')]
    for (let round = 0; round < 25; round += 1) {
      // From time to time rows are of a year that no plan has heard of.
      const lastDay = 400 + 200 * (round >> 1)
      const changed = pick([...few, ...few, ...many])
      await change(changed, upTo(5) === 0, lastDay)
      await Promise.all(
        Array.from({ length: 8 }, () => compare(pick([changed, changed, ...few, ...many]), lastDay + 100)),
      )
    }
  })
}
