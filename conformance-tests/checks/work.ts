/** How much a read costs, counted and not timed: what grows with the rows that are not asked for is the wrong way. */
import { createHook } from 'node:async_hooks'
import type { ReadOperation, Row } from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, planOf, pointPlan } from '../reading.ts'
import { filter, operation } from '../requirements.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const MANY = { core: 600, full: 3000, hard: 20_000 } as const
const ABANDONED = 60
const READS = { core: 60, full: 300, hard: 2000 } as const

export const workChecks: readonly Check[] = [
  {
    id: 58,
    name: 'stream-backpressure-bounded-memory',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 60)
      for (const way of dataset.ways()) {
        for (let read = 0; read < ABANDONED; read += 1) await abandoned(context, dataset, way)
        const slow = begun(context, dataset, way)
        await slow.next()
        await dataset.expectRows(`${ABANDONED} reads that nobody took to their end hold nothing`, undefined, { way })
        await slow.return?.()
      }
      await dataset.delta(rowsOf(SIMPLE, 100, 3, context.random))
      await dataset.expectRows('and the store can be written to')
    },
  },
  {
    id: 90,
    name: 'rls-cost-set-based',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, MANY[context.level])
      const [way = 'scan'] = dataset.ways()
      const open = planFor(dataset, way)
      const rows = { op: 'ge', column: 'id', value: { literal: 0n } } as const
      const policied = { ...open, policy: { ...openPolicy(SIMPLE), rows } }
      await answerOf(context.store, dataset.target, policied)
      const without = await workOf(() => answerOf(context.store, dataset.target, open))
      const under = await workOf(() => answerOf(context.store, dataset.target, policied))
      context.measured['policied_read_work'] = under.steps
      context.measured['open_read_work'] = without.steps
      const difference = differenceOf(SIMPLE, without.result.rows, under.result.rows)
      expect(difference === null && under.result.rows.length > 0, () =>
        vacuous('a policy that lets all rows pass changes them'),
      )
      expect(under.steps <= 3 * without.steps + 100, () => ({
        what: `a read of ${under.result.rows.length} rows takes ${without.steps} steps, and ${under.steps} under a policy`,
        where: `read ${way} under a policy`,
        why: 'a policy that is asked row by row costs twenty times the read',
        remedy: 'Put the predicate into the statement, or look at it once for all rows.',
      }))
    },
  },
  {
    id: 97,
    name: 'index-columns-used',
    level: 'core',
    requires: [operation('get'), filter('eq')],
    async run(context) {
      const small = await filled(context, 20)
      const large = await filled(context, MANY[context.level])
      const works = []
      for (const dataset of [small, large]) {
        const row = changed(SIMPLE, [...dataset.content.values()][7] ?? [], { name: 'needle' })
        await dataset.delta([row])
        for (const column of ['id', 'name']) {
          const filters = [{ column, operator: 'eq' as const, values: [row[column === 'id' ? 0 : 2] ?? ''] }]
          const read = () => answerOf(context.store, dataset.target, planOf(SIMPLE, 'get', { filters }))
          await read()
          const { result, steps } = await workOf(read)
          works.push(steps)
          expect(result.rows.length === 1 && result.rows[0]?.[0] === row[0], () =>
            vacuous(`the row is not found by ${column}`),
          )
        }
      }
      const [fewId = 0, fewName = 0, manyId = 0, manyName = 0] = works
      expect(manyId <= 3 * fewId + 100 && manyName <= 3 * fewName + 100, () => ({
        what: `a point read takes ${fewId} steps of 20 rows and ${manyId} of ${MANY[context.level]}`,
        where: 'read get by the key and by a column of index_columns',
        why: 'an index that is not used is a scan',
        remedy: 'Make an index for the key and for each of index_columns, the tenant first.',
      }))
    },
  },
  {
    id: 98,
    name: 'batch-get-order-and-missing',
    level: 'core',
    requires: [filter('in')],
    async run(context) {
      const dataset = await filled(context, 30)
      const all = [...dataset.content.values()]
      for (const way of dataset.ways().filter((name) => name !== 'key')) {
        for (let trial = 0; trial < 8; trial += 1) {
          const wanted = context.random.shuffled(all).slice(0, trial)
          const absent = rowsOf(SIMPLE, 900, 3, context.random)
          const ids = context.random.shuffled([...wanted, ...wanted.slice(0, 2), ...absent]).map(([id]) => id as bigint)
          const plan = planOf(SIMPLE, way, { filters: [{ column: 'id', operator: 'in', values: ids }] })
          const { rows } = await answerOf(context.store, dataset.target, plan)
          expectSame(way, wanted, rows)
          const again = await answerOf(context.store, dataset.target, plan)
          const isStable = again.rows.map(([id]) => id).join() === rows.map(([id]) => id).join()
          expect(isStable, () => ({
            what: 'the same keys were answered in two orders',
            where: `read ${way}, filter in`,
            why: 'an order that changes makes pages overlap',
            remedy: 'Order by the key.',
          }))
        }
      }
    },
  },
  {
    id: 123,
    name: 'metrics-and-trace-propagated',
    level: 'core',
    async run(context) {
      const secret = 'ocelot-93be'
      const dataset = await filled(context, 5)
      const { host, logger } = context
      const before = host.met.length
      const name = { name: secret }
      await dataset.delta(rowsOf(SIMPLE, 1, 5, context.random).map((row) => changed(SIMPLE, row, name)))
      await dataset.expectRows('the rows must be there before anything can be said of their writing')
      const points = host.met.slice(before)
      expect(points.length > 0 && points.every((point) => TRACE.test(point)), () => ({
        what:
          points.length > 0
            ? `a fault point is called ${points.find((point) => !TRACE.test(point))}`
            : 'a write leaves no trace',
        where: 'host.faultPoint',
        why: 'the steps of a write are told apart by these names when one of them fails',
        remedy: 'Name each by the store and by what has just happened: lookup.after-stage.',
      }))
      const wrong = host.measured.find((one) => !isMetric(one, [secret, dataset.target.scope.tenant]))
      expect(wrong === undefined, () => ({
        what: `the metric ${wrong?.name} has a value, a name or a label that metrics cannot have`,
        where: 'host.metrics',
        why: 'labels are kept for ever, one series each: no values of rows, no keys, no tenants',
        remedy: 'Label with what there are few of: the operation, the outcome.',
      }))
      expect(!logger.lines.some(({ message }) => message.trim() === ''), () =>
        vacuous('a line of the log says nothing'),
      )
    },
  },
  {
    id: 124,
    name: 'bench-p50-p99-recorded',
    level: 'core',
    async run(context) {
      const dataset = await filled(context, 200)
      const way = dataset.ways().at(-1) ?? 'scan'
      const rows = [...dataset.content.values()]
      const tookMs: number[] = []
      for (let read = 0; read < READS[context.level]; read += 1) {
        const row = context.random.pick(rows)
        const startedMs = performance.now()
        const answer = await answerOf(context.store, dataset.target, planFor(dataset, way, row))
        tookMs.push(performance.now() - startedMs)
        expect(
          answer.rows.some(([id]) => id === row[0]),
          () => vacuous(`read ${read} did not give the row that it asked for`),
        )
      }
      tookMs.sort((left, right) => left - right)
      context.measured['read_p50_ms'] = tookMs[Math.floor(tookMs.length * 0.5)] ?? 0
      context.measured['read_p99_ms'] = tookMs[Math.floor(tookMs.length * 0.99)] ?? 0
    },
  },
]

const TRACE = /^[a-z][a-z0-9_]*(\.[a-z0-9-]+)+$/

function isMetric(one: CheckContext['host']['measured'][number], forbidden: readonly string[]): boolean {
  const labels = Object.entries(one.labels)
  const texts = [one.name, ...labels.flat()]
  const isNamed = /^[a-z][a-z0-9_]*$/.test(one.name) && labels.every(([label]) => /^[a-z][a-z0-9_]*$/.test(label))
  return isNamed && Number.isFinite(one.value) && !texts.some((text) => forbidden.some((word) => text.includes(word)))
}

async function filled(context: CheckContext, count: number): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE, { indexed: ['id', 'name'] })
  await dataset.full(rowsOf(SIMPLE, 1, count, context.random))
  const { rows } = await answerOf(context.store, dataset.target, planFor(dataset, dataset.ways()[0] ?? 'scan'))
  expect(rows.length > 0, () => vacuous('the rows are not there'))
  return dataset
}

/** The largest answer that the way can give; of one row where it is a point read. */
function planFor(dataset: Dataset, way: ReadOperation, row: Row = [...dataset.content.values()][0] ?? []) {
  const sight = { target: dataset.target, template: dataset.template, candidates: [] }
  return way === 'scan' || way === 'range' ? planOf(SIMPLE, way, { limit: 500 }) : pointPlan(way, row, sight)
}

function begun({ store }: CheckContext, dataset: Dataset, way: ReadOperation) {
  return store.read(dataset.target, planFor(dataset, way))[Symbol.asyncIterator]()
}

async function abandoned(context: CheckContext, dataset: Dataset, way: ReadOperation): Promise<void> {
  const reading = begun(context, dataset, way)
  await reading.next()
  await reading.return?.()
}

/** Asynchronous steps begun meanwhile: statements, reads of files, turns of the event loop. */
async function workOf<T>(run: () => Promise<T>): Promise<{ readonly result: T; readonly steps: number }> {
  let steps = 0
  const watch = createHook({ init: () => void (steps += 1) }).enable()
  try {
    const result = await run()
    return { result, steps }
  } finally {
    watch.disable()
  }
}

function expectSame(way: string, wanted: readonly Row[], given: readonly Row[]): void {
  const difference = differenceOf(SIMPLE, wanted, given)
  if (difference === null) return
  throw new CheckFailure({
    what: `several keys at once give other rows than they name: ${describeDifference(difference)}`,
    where: `read ${way}, filter in`,
    why: 'each row that is there comes once, however often it is asked for, and those that are not there are left out',
    remedy: 'Select by the set of keys.',
  })
}
