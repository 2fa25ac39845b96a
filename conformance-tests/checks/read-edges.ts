/** Plans at the edges of what they may ask: equal times, ranges of nothing, long lists, claims that look alike, wide rows. */
import {
  answerFromRows,
  type Claims,
  type Filter,
  type Ordering,
  projectRow,
  type ReadPlan,
  type Row,
  type RowPredicate,
  rowPasses,
  type TableSchema,
} from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, expect, expectRefusal, vacuous } from '../check.ts'
import { describeDifference, differenceOf, indexOf, keyText, sameJson, sameValue } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, planOf, pointPlan } from '../reading.ts'
import { anyOperation, filter, hook } from '../requirements.ts'
import { changed, rowsOf, SIMPLE, TIME_COLUMN } from '../shapes.ts'

const TIMES = ['2026-02-01T00:00:00.000000Z', '2026-02-01T00:00:00.000001Z', '2026-02-02T00:00:00.000000Z']
const PLANS = { core: 30, full: 60, hard: 200 } as const
const LISTS = [1, 2, 499, 1000] as const

export const readEdgeChecks: readonly Check[] = [
  {
    id: 168,
    name: 'pages-hold-over-rows-that-are-alike',
    level: 'core',
    requires: [anyOperation('scan', 'range', 'get')],
    async run(context) {
      const { random } = context
      const dataset = await context.dataset(SIMPLE, { indexed: ['name'] })
      const rows = rowsOf(SIMPLE, 1, 24, random).map((row) =>
        changed(SIMPLE, row, {
          at: random.pick(TIMES),
          name: random.pick(['a', 'b', null]),
          rank: random.pick([1, null]),
        }),
      )
      await dataset.full(rows)
      let pages = 0
      for (let trial = 0; trial < PLANS[context.level]; trial += 1) {
        const plan = randomPlan(context)
        if (plan !== null) pages += await expectPages(context, dataset, plan)
      }
      expect(pages > PLANS[context.level] / 2, () => vacuous(`${pages} pages were read`))
    },
  },
  {
    id: 169,
    name: 'every-column-counts-in-the-digest',
    level: 'full',
    requires: [hook('digest')],
    notFor: ({ commit }) => (commit === 'lake' ? 'its digest is of files, whose rows are the lake’s' : null),
    async run(context) {
      const schema = wide()
      const dataset = await context.dataset(schema)
      const rows = rowsOf(schema, 1, 2, context.random)
      await dataset.full(rows)
      const digests = [await digestOf(context, dataset)]
      const last = schema.columns.length - 1
      for (const at of [last, context.random.integer(40, last)]) {
        const [row = []] = [...dataset.content.values()]
        await dataset.delta([row.with(at, `another ${at}`)])
        digests.push(await digestOf(context, dataset))
      }
      await dataset.expectRows('the rows must be there that the digest is of')
      expect(new Set(digests).size === digests.length, () => ({
        what: 'rows that differ in one of many columns have one digest',
        where: `store.digest of ${schema.columns.length} columns`,
        why: 'damage to a column that is left out of the digest is never found',
        remedy: 'Take every column into the digest, and every byte of it.',
      }))
    },
  },
  {
    id: 170,
    name: 'answers-say-the-same-in-both-encodings',
    level: 'core',
    requires: [anyOperation('scan', 'range', 'get', 'key')],
    notFor: ({ jsonBatches }) => (jsonBatches ? null : 'the store gives columns alone'),
    async run(context) {
      const dataset = await context.filled(5)
      await context.clock.advance(90_500)
      for (const way of dataset.ways()) {
        const [row = []] = [...dataset.content.values()]
        const { target, template } = dataset
        const plan =
          way === 'scan' || way === 'range'
            ? planOf(SIMPLE, way, { limit: 2 })
            : pointPlan(way, row, { target, template, candidates: [] })
        const columns = await answerOf(context.store, target, plan)
        const json = await answerOf(context.store, target, { ...plan, encoding: 'json' })
        const facts = ({ epoch, ttlRemainingS, next = [] }: typeof json) =>
          JSON.stringify([epoch, ttlRemainingS ?? null, next.map(String)])
        const isSame = json.objects.every((object, index) =>
          SIMPLE.columns.every(({ name, type }, at) => sameJson(type, columns.rows[index]?.[at] ?? null, object[name])),
        )
        expect(columns.rows.length > 0, () => vacuous('the row that is asked for is not there'))
        expect(isSame && facts(columns) === facts(json) && json.objects.length === columns.rows.length, () => ({
          what: 'the same plan says one thing in JSON and another in columns',
          expected: facts(columns),
          came: facts(json),
          where: `read ${way}, encoding json`,
          why: 'how long an answer holds, of which epoch it is and where it goes on hang on the rows, not on their form',
          remedy: 'Give epoch, next and ttlRemainingS with batches of either encoding.',
        }))
      }
    },
  },
  {
    id: 171,
    name: 'lists-of-every-length-are-looked-up-whole',
    level: 'core',
    requires: [filter('in'), anyOperation('scan', 'range', 'get')],
    async run(context) {
      const dataset = await context.filled(12)
      const ways = context.capabilities.operations.filter((way) => way === 'get' || way === 'scan' || way === 'range')
      for (const way of ways) {
        for (const length of LISTS) {
          // The keys of rows stand at both ends of a list of others.
          const wanted = [...dataset.content.values()].slice(0, Math.min(length, 6))
          const keys = wanted.map((row) => row[0] as bigint)
          const others = Array.from({ length: length - keys.length }, (_, index) => BigInt(10_000 + index))
          const values = [...keys.slice(0, keys.length / 2), ...others, ...keys.slice(keys.length / 2)]
          const filters: Filter[] = [{ column: 'id', operator: 'in', values }]
          const { rows } = await answerOf(context.store, dataset.target, planOf(SIMPLE, way, { filters }))
          const difference = differenceOf(SIMPLE, wanted, rows)
          expect(difference === null, () => ({
            what: `a list of ${length} values finds other rows: ${difference === null ? '' : describeDifference(difference)}`,
            where: `read ${way}, filter in`,
            why: 'readers ask for up to a thousand keys at once, and a row that is left out seems not to be there',
            remedy: 'Ask your engine in parts where it takes no more, and refuse nothing.',
          }))
        }
      }
    },
  },
  {
    id: 172,
    name: 'claims-that-look-alike-are-told-apart',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      const words = ['x', 'y', 'x,y', 'y,z', 'z', '', 'null', 'undefined', '1', 'true', '"x"', 'x","y', 'x y']
      const rows = rowsOf(SIMPLE, 1, words.length, context.random).map((row, index) =>
        changed(SIMPLE, row, { name: words[index] ?? null, rank: index % 3 }),
      )
      await dataset.full(rows)
      const predicate: RowPredicate = {
        op: 'or',
        of: [
          { op: 'eq', column: 'name', value: { claim: 'left' } },
          { op: 'in', column: 'name', values: [{ claim: 'right' }, { claim: 'more' }] },
        ],
      }
      const claimed: readonly Claims[] = [
        { left: 'x,y', right: 'z' },
        { left: 'x', right: 'y,z' },
        { left: 'x', right: 'y', more: 'z' },
        { left: 'x', right: 'y,z', more: null },
        { left: '', right: '' },
        { left: '' },
        { left: null },
        { left: 'null' },
        { right: 'x', left: 'y' },
        { left: 'x","y' },
        { left: 'x', right: 'y' },
        {},
      ]
      for (const way of dataset.ways().slice(0, 2)) {
        for (const claims of [...claimed, ...claimed.toReversed()]) {
          const policy = { ...openPolicy(SIMPLE), rows: predicate, claims }
          const wanted = rows.filter((row) => rowPasses(predicate, SIMPLE, row, claims))
          const difference = differenceOf(SIMPLE, wanted, await dataset.see({ policy, way }))
          expect(difference === null, () => ({
            what: `a reader is shown what another's claims allow: ${difference === null ? '' : describeDifference(difference)}`,
            where: `read ${way}, policy.claims ${JSON.stringify(claims)}`,
            why: 'two readers may share the version of a policy, and their claims the same characters',
            remedy:
              'Bind each claim by itself; if anything is kept by claims, keep it by their names, types and values apart.',
          }))
        }
      }
    },
  },
  {
    id: 173,
    name: 'a-write-ends-with-its-caller',
    level: 'core',
    notFor: ({ commit }) => (commit === 'lake' ? 'it reads no rows when it writes' : null),
    async run(context) {
      const dataset = await context.filled(6)
      const leave = new AbortController()
      const upserts = rowsOf(SIMPLE, 100, 40, context.random)
      const write = await dataset.prepare({ mode: 'full', upserts, commit: { signal: leave.signal } })
      const { changes } = write
      let isLeft = false
      // The caller leaves when the rows have been given, all but the last of them.
      const leaving = async function* <T>(parts: AsyncIterable<T>): AsyncGenerator<T> {
        for await (const part of parts) {
          isLeft = true
          leave.abort()
          yield part
        }
      }
      await expectRefusal(
        {
          kind: 'TRANSIENT',
          tried: 'a write whose caller has left while its rows were read',
          where: 'store.write, commit.signal',
          why: 'whoever left may have been replaced, and has told nobody that the write goes on',
        },
        () =>
          context.store.write(
            dataset.target,
            {
              ...changes,
              upserts: () => leaving(changes.upserts()),
              upsertsCsv: (columns) => leaving(changes.upsertsCsv(columns)),
              upsertsKeyed: (template, columns) => leaving(changes.upsertsKeyed(template, columns)),
            },
            write.commit,
          ),
      )
      expect(isLeft, () => vacuous('the store has not read the rows of the write'))
      await dataset.expectRows('a write that was ended leaves nothing')
      await dataset.apply({ ...write, commit: { ...write.commit, signal: callDeadline() } })
      await dataset.expectRows('and may be repeated')
    },
  },
]

function wide(): TableSchema {
  const more = Array.from({ length: 60 }, (_, index) => ({
    name: `more_${index}`,
    type: 'string' as const,
    nullable: true,
  }))
  return { ...SIMPLE, columns: [...SIMPLE.columns, ...more] }
}

async function digestOf({ store }: CheckContext, { target }: Dataset): Promise<string> {
  return (await store.digest?.(target, callDeadline()))?.sha256 ?? ''
}

function randomPlan({ capabilities, random }: CheckContext): ReadPlan | null {
  const { operations, filters: operators } = capabilities
  const way = random.pick(operations.filter((one) => one === 'scan' || one === 'range' || one === 'get'))
  const isPoint = way === 'get' && operators.includes('eq')
  if (way === 'get' && !isPoint) return null
  const column = random.pick([TIME_COLUMN, 'rank', 'name'])
  const directions = ['asc', 'desc'] as const
  const orderBy: Ordering[] = random.chance(0.3) ? [] : [{ column, direction: random.pick(directions) }]
  // Rows of one time follow by the key, and by what stands before the key where that is asked for.
  if (orderBy.length > 0 && column !== TIME_COLUMN && (way === 'range' || random.chance(0.3)))
    orderBy.push({ column: TIME_COLUMN, direction: random.pick(directions) })
  const bound = () => random.pick([null, ...TIMES, '2026-02-01T12:00:00.000000Z'])
  return planOf(SIMPLE, way, {
    orderBy: isPoint ? [] : orderBy,
    limit: random.pick([1, 2, 5, 12, 24]),
    filters: isPoint ? [{ column: 'name', operator: 'eq', values: [random.pick(['a', 'b'])] }] : [],
    ...(way === 'range' ? { range: { from: bound(), to: bound() } } : {}),
  })
}

/** Page by page against the SDK's own meaning of a plan. */
async function expectPages({ store, capabilities }: CheckContext, dataset: Dataset, plan: ReadPlan): Promise<number> {
  const { from = null, to = null } = plan.range ?? {}
  const time = indexOf(SIMPLE, TIME_COLUMN)
  const isIn = (row: Row) => (from === null || String(row[time]) >= from) && (to === null || String(row[time]) < to)
  const rows = [...dataset.content.values()].filter(isIn)
  const inOrder = (then: readonly string[]) =>
    answerFromRows({ ...plan, limit: rows.length + 1 }, SIMPLE, rows, then).rows
  const byTime = inOrder([TIME_COLUMN])
  const byKey = inOrder([])
  // The key makes an order total; a store of ranges may have the time before it, as its rows lie.
  const isRange = plan.operation === 'range' && plan.orderBy.length === 0
  const wholes = isRange ? [byTime] : capabilities.operations.includes('range') ? [byKey, byTime] : [byKey]
  const given: Row[] = []
  let pages = 0
  let after: ReadPlan['after']
  do {
    const answer = await answerOf(store, dataset.target, after === undefined ? plan : { ...plan, after })
    given.push(...answer.rows)
    pages += 1
    after = answer.next
  } while (after !== undefined && pages <= rows.length + 1)
  const isGiven = (whole: readonly Row[]) =>
    whole.length === given.length &&
    whole
      .map((row) => projectRow(row, SIMPLE, plan.columns))
      .every((row, at) =>
        SIMPLE.columns.every(({ type }, n) => sameValue(type, row[n] ?? null, given[at]?.[n] ?? null)),
      )
  const keys = (all: readonly Row[]) => all.map((row) => keyText(SIMPLE, row)).join(' ')
  expect(wholes.some(isGiven), () => ({
    what: 'pages over rows that are alike are not the rows of the plan in their order',
    expected: wholes.map((whole) => keys(whole) || 'no row').join(', or '),
    came: keys(given) || 'no row',
    where: `read ${plan.operation}, pages of ${plan.limit}, order ${JSON.stringify(plan.orderBy)}, range ${JSON.stringify(plan.range ?? null)}`,
    why: 'an order is made total by the key, a range is half open and may hold nothing, and a full page says where it goes on',
    remedy: 'Compare with totalOrder and answerFromRows of the SDK.',
  }))
  return pages
}
