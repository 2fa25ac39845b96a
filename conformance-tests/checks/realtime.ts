/** Values by key that expire. */
import { isSluiceError, type ReadOperation, type Row } from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { indexOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, pointPlan } from '../reading.ts'
import { operation, TTL } from '../requirements.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const HOUR_MS = 3_600_000

export const realtimeChecks: readonly Check[] = [
  {
    id: 112,
    name: 'ttl-expires-in-virtual-time',
    level: 'core',
    requires: [TTL],
    async run(context) {
      const dataset = await withTtl(context, '2h')
      const granularityMs = context.capabilities.ttl?.granularityMs ?? 0
      await expectRemaining(context, dataset, 7200)
      await context.clock.advance(2 * HOUR_MS - granularityMs - 1)
      await dataset.expectRows('a value stays until its ttl has passed')
      await context.clock.advance(2 * granularityMs + 1)
      for (const way of dataset.ways()) await dataset.expectRows('a value is gone once its ttl has passed', [], { way })
      await context.reopen()
      await dataset.expectRows('and it does not come back with a restart', [])
      await dataset.full(rowsOf(SIMPLE, 1, 4, context.random))
      await dataset.expectRows('a full set brings values back')
    },
  },
  {
    id: 113,
    name: 'ttl-reset-on-rewrite',
    level: 'core',
    requires: [TTL],
    async run(context) {
      const dataset = await withTtl(context, '2h')
      await context.clock.advance(1.5 * HOUR_MS)
      const [row = []] = [...dataset.content.values()]
      await dataset.delta([changed(SIMPLE, row, { name: 'renewed' })])
      await expectRemaining(context, dataset, 7200)
      await context.clock.advance(1.5 * HOUR_MS)
      await dataset.expectRows('an epoch renews every key that it still holds, changed or not')
      await context.clock.advance(HOUR_MS)
      await dataset.expectRows('and after the last one everything expires', [])
    },
  },
  {
    id: 114,
    name: 'template-placeholder-missing-or-null',
    level: 'core',
    requires: [operation('key')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE, { keyTemplate: 'n:{name}' })
      const rows = ['ada', null, 'bob'].map((name, index) =>
        changed(SIMPLE, rowsOf(SIMPLE, index + 1, 1, context.random)[0] ?? [], { name }),
      )
      await dataset.full(rows)
      await expectUnder(context, dataset, { 'n:ada': rows[0], 'n:bob': rows[2], 'n:null': undefined, 'n:': undefined })
      const named = changed(SIMPLE, rows[1] ?? [], { name: 'cid' })
      const unnamed = changed(SIMPLE, rows[0] ?? [], { name: null })
      await dataset.delta([named, unnamed], rows.slice(2))
      await expectUnder(context, dataset, {
        'n:cid': named,
        'n:ada': undefined,
        'n:bob': undefined,
        'n:null': undefined,
      })
    },
  },
  {
    id: 115,
    name: 'template-value-cannot-escape-prefix',
    level: 'core',
    requires: [operation('key')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE, { keyTemplate: '{name}:{rank}', product: 'keys' })
      const other = await context.dataset(SIMPLE, { keyTemplate: '{name}:{rank}', product: 'keys2' })
      const names = ['a', 'a:1', '', ':', '..', '%3A', 'a%3A1', 'x'.repeat(3000), `${'x'.repeat(2999)}y`, '😀:', '/']
      const rows = names.map((name, index) =>
        changed(SIMPLE, rowsOf(SIMPLE, index + 1, 1, context.random)[0] ?? [], { name, rank: 1 }),
      )
      await dataset.full(rows)
      await other.full([])
      for (const row of rows) {
        await expectFound(context, dataset, row, row)
        await expectFound(context, other, row, undefined)
      }
      await expectUnder(context, dataset, { 'a:1:1': undefined, '': undefined, 'a%3A1:1': rows[1] })
    },
  },
  {
    id: 125,
    name: 'shared-key-goes-to-the-last-by-primary-key',
    level: 'core',
    requires: [operation('key')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE, { keyTemplate: '{name}' })
      const rows = rowsOf(SIMPLE, 8, 5, context.random).map((row) => changed(SIMPLE, row, { name: 'shared' }))
      await dataset.full(context.random.shuffled(rows))
      await expectUnder(context, dataset, { shared: rows[4] })
      await dataset.delta([changed(SIMPLE, rows[0] ?? [], { name: 'shared', rank: 1 })])
      await expectUnder(context, dataset, { shared: rows[4] })
      await dataset.delta([changed(SIMPLE, rows[3] ?? [], { name: 'moved' })], rows.slice(4))
      await expectUnder(context, dataset, { shared: rows[2], moved: changed(SIMPLE, rows[3] ?? [], { name: 'moved' }) })
    },
  },
  {
    id: 116,
    name: 'include-columns-only',
    level: 'core',
    requires: [operation('key')],
    async run(context) {
      const included = ['id', 'at', 'name']
      const dataset = await context.dataset(SIMPLE, { include: included })
      const rows = rowsOf(SIMPLE, 1, 4, context.random).map((row) =>
        changed(SIMPLE, row, { rank: 4711, amount: '77.77' }),
      )
      await dataset.full(rows)
      for (const row of rows) {
        const sight = { target: dataset.target, template: dataset.template, candidates: [] }
        const policy = { ...openPolicy(SIMPLE), visibleColumns: included }
        const plan = pointPlan('key', row, { ...sight, policy }, { columns: included })
        const { rows: given } = await answerOf(context.store, dataset.target, plan)
        const isThere =
          given.length === 1 && included.every((name, index) => given[0]?.[index] === row[indexOf(SIMPLE, name)])
        expect(isThere, () => wrongColumns('an included column does not come back'))
        const rest = await answerOf(context.store, dataset.target, pointPlan('key', row, sight)).catch(refused)
        const text = rest === null ? '' : rest.rows.map((one) => one.map(String).join()).join()
        expect(!text.includes('4711') && !text.includes('77.77'), () =>
          wrongColumns('a column that is not included is kept'),
        )
      }
    },
  },
  {
    id: 117,
    name: 'absent-vs-expired-distinct',
    level: 'core',
    requires: [TTL, operation('key')],
    async run(context) {
      const dataset = await withTtl(context, '1h')
      const [absent = []] = rowsOf(SIMPLE, 900, 1, context.random)
      await expectRemaining(context, dataset, 3600, absent)
      await context.clock.advance(HOUR_MS + 120_000)
      await expectRemaining(context, dataset, 0)
      await dataset.expectRows('expired values are gone', [])
    },
  },
  {
    id: 154,
    name: 'time-to-live-is-never-told-too-long',
    level: 'core',
    requires: [TTL],
    async run(context) {
      let parted = 0
      for (let trial = 0; trial < 6; trial += 1) {
        const hours = context.random.integer(1, 30)
        const dataset = await withTtl(context, `${hours}h`)
        const fromMs = context.clock.nowMs()
        // The last second is none that could still be promised.
        const least = trial === 0 ? hours * HOUR_MS - 999 : 1
        const most = hours * HOUR_MS - (trial === 0 ? (context.capabilities.ttl?.granularityMs ?? 0) + 1 : 5000)
        await context.clock.advance(context.random.integer(Math.min(least, most), most))
        const leftMs = fromMs + hours * HOUR_MS - context.clock.nowMs()
        if (leftMs % 1000 !== 0) parted += 1
        for (const way of dataset.ways()) await expectNotTooLong(context, dataset, way, leftMs)
      }
      expect(parted > 0, () => vacuous('all times were of whole seconds'))
    },
  },
  {
    id: 118,
    name: 'rebuild-does-not-drop-hot-keys',
    level: 'core',
    requires: [operation('key')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      await dataset.full(rowsOf(SIMPLE, 1, 10, context.random))
      const before = [...dataset.content.values()]
      const write = await dataset.prepare({ mode: 'full', upserts: rowsOf(SIMPLE, 1, 10, context.random.fork('new')) })
      let looks = 0
      context.host.atEachPoint(async (point) => {
        if (point.includes('commit') && point.includes('after')) return
        looks += 1
        await dataset.expectRows(`while a full set is written (${point}) the former epoch is served`, before)
      })
      await dataset.apply(write)
      context.host.atEachPoint(null)
      await dataset.expectRows('and then the new one')
      expect(looks > 0, () => ({
        what: 'the write passed no fault point before its commit',
        where: 'store.write',
        why: 'nothing could be read while it ran',
        remedy: 'Await host.faultPoint between the steps of a write.',
      }))
    },
  },
]

function refused(error: unknown): null {
  if (isSluiceError(error)) return null
  throw error
}

function wrongColumns(what: string) {
  return {
    what,
    where: 'read key of an endpoint with include_columns',
    why: 'a value holds the columns that its endpoint names, and no others',
    remedy: 'Store include_columns alone; what is asked for beyond them is null or refused.',
  }
}

async function withTtl(context: CheckContext, ttl: string): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE, { ttl })
  await dataset.full(rowsOf(SIMPLE, 1, 4, context.random))
  await dataset.expectRows('the values must be there before they can expire')
  return dataset
}

/** In whole seconds, rounded down, and by so much as the store declares to be inexact. */
async function expectNotTooLong(
  { store, capabilities }: CheckContext,
  { target, template, candidates }: Dataset,
  way: ReadOperation,
  leftMs: number,
): Promise<void> {
  const granularityMs = capabilities.ttl?.granularityMs ?? 0
  const parts = way === 'get' || way === 'key' ? {} : { filters: [] }
  const plan = pointPlan(way, candidates[0] ?? [], { target, template, candidates: [] }, parts)
  const { ttlRemainingS = Number.NaN } = await answerOf(store, target, plan)
  const most = Math.floor((leftMs + granularityMs) / 1000)
  const least = Math.floor((leftMs - granularityMs) / 1000)
  // A clock of whole milliseconds is exact to one of them.
  const isExact = granularityMs <= 1 ? ttlRemainingS === Math.floor(leftMs / 1000) : true
  expect(isExact && ttlRemainingS >= least && ttlRemainingS <= most, () => ({
    what: `an answer says that it stays true for ${ttlRemainingS} s, when ${leftMs} ms are left`,
    expected: least === most ? `${most} s` : `${least} to ${most} s`,
    came: `${ttlRemainingS} s`,
    where: `read ${way}, ttlRemainingS`,
    why: 'readers keep an answer for as long as it says: one that is rounded up is kept when it is gone',
    remedy: 'Round the time down that is left, to whole seconds.',
  }))
}

async function expectRemaining({ store }: CheckContext, dataset: Dataset, seconds: number, row?: Row): Promise<void> {
  const [way = 'scan'] = dataset.ways()
  const [first = []] = dataset.candidates
  const sight = { target: dataset.target, template: dataset.template, candidates: [] }
  const { ttlRemainingS } = await answerOf(store, dataset.target, pointPlan(way, row ?? first, sight, { filters: [] }))
  expect(ttlRemainingS !== undefined && Math.abs(ttlRemainingS - seconds) <= 1, () => ({
    what: `an answer says that it stays true for ${ttlRemainingS} s instead of ${seconds} s`,
    where: `read ${way}, ttlRemainingS`,
    why: 'the ttl begins with the commit of the newest epoch, for every key, and never goes below 0',
    remedy: 'Take committedAt of the applied epoch plus ttl, less clock.nowMs().',
  }))
}

async function expectFound(
  context: CheckContext,
  dataset: Dataset,
  row: Row,
  expected: Row | undefined,
): Promise<void> {
  const plan = pointPlan('key', row, { target: dataset.target, template: dataset.template, candidates: [] })
  await expectUnder(context, dataset, { [plan.key ?? '']: expected })
}

async function expectUnder(
  { store }: CheckContext,
  dataset: Dataset,
  expected: Readonly<Record<string, Row | undefined>>,
): Promise<void> {
  for (const [key, row] of Object.entries(expected)) {
    const plan = pointPlan('key', [], { target: dataset.target, template: dataset.template, candidates: [] }, { key })
    const { rows } = await answerOf(store, dataset.target, plan)
    const isRight = row === undefined ? rows.length === 0 : rows.length === 1 && rows[0]?.[0] === row[0]
    expect(isRight, () => ({
      what: `under the key ${key.slice(0, 40)} lies ${rows.length === 0 ? 'nothing' : `row ${rows[0]?.[0]}`}, expected ${row ? `row ${row[0]}` : 'nothing'}`,
      where: `read key, template ${dataset.template}`,
      why: 'each row lies under its own rendered key; a null renders none, and of several rows the last by primary key counts',
      remedy: 'Render keys with renderKey of the SDK, and follow rows whose key changes.',
    }))
  }
}
