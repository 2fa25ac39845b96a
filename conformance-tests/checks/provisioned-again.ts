/** Indexes and whatever else serves beside the rows, after the place was provisioned a second time. */
import { createHook } from 'node:async_hooks'
import { isJsonBatch, type Row, rowsOf as rowsOfBatch } from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { cellsText } from '../compare.ts'
import { type CheckContext, FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, planOf } from '../reading.ts'
import { changed, rowsOf, SIMPLE, WIDER } from '../shapes.ts'
import { rowsOfDays, type Way, waysOf, wishOfWays } from '../ways.ts'

const MANY = { core: 400, full: 1000, hard: 5000 } as const

export const provisionedAgainChecks: readonly Check[] = [
  {
    id: 180,
    name: 'what-serves-beside-the-rows-outlives-a-second-provision',
    level: 'core',
    async run(context) {
      const wish = wishOfWays(context)
      const dataset = await context.dataset(SIMPLE, wish)
      const rows = rowsOfDays(context, MANY[context.level]).map((row, at) => (at === 7 ? named(row, 'former') : row))
      await dataset.full(rows)
      const ways = await waysOf(context, dataset, rows)
      const before = new Map<string, Work>()
      for (const way of ways) before.set(way.name, await workOf(context, dataset, way))
      const grown = context.grown(dataset, WIDER, wish)
      const again = [
        ['the same was provisioned again', dataset, () => context.store.provision(dataset.target, 'apply')],
        ['a column was added', grown, () => provisioned(context, grown)],
        ['that was provisioned again, and the store opened anew', grown, () => provisioned(context, grown, true)],
      ] as const
      for (const [done, of, act] of again) {
        await act()
        for (const way of ways) await expectSame(before.get(way.name), await workOf(context, of, way), way, done)
      }
      await expectFollowed(context, grown, ways)
    },
  },
]

const named = (row: Row, name: string) => changed(SIMPLE, row, { name })

async function provisioned(context: CheckContext, { target }: Dataset, isReopened = false): Promise<void> {
  await context.store.provision(target, 'apply')
  await context.store.rls.install(target, FORCED_POLICY)
  if (isReopened) await context.reopen()
}

interface Work {
  readonly rows: readonly string[]
  /** Asynchronous steps begun meanwhile: statements, reads of files, turns of the event loop. */
  readonly steps: number
}

/** Of the second of two reads: the first may look up what is remembered from then on. */
async function workOf(context: CheckContext, dataset: Dataset, way: Way): Promise<Work> {
  await rowsBy(context, dataset, way)
  let steps = 0
  const watch = createHook({ init: () => void (steps += 1) }).enable()
  try {
    const rows = await rowsBy(context, dataset, way)
    expect(rows.length > 0, () => vacuous(`${way.name} gives nothing`))
    return { rows, steps }
  } finally {
    watch.disable()
  }
}

async function rowsBy({ store }: CheckContext, { target }: Dataset, way: Way): Promise<readonly string[]> {
  const rows: string[] = []
  for await (const batch of way.read(store, target)) {
    if (!isJsonBatch(batch)) rows.push(...[...rowsOfBatch(batch)].map(cellsText))
  }
  return rows
}

async function expectSame(before: Work | undefined, after: Work, way: Way, done: string): Promise<void> {
  const told = {
    where: `${way.name}, after ${done}`,
    remedy: 'Keep indexes and what is kept beside the rows whenever the place is provisioned.',
  }
  expect(JSON.stringify(after.rows) === JSON.stringify(before?.rows), () => ({
    ...told,
    what: 'a second provision has changed the answer',
    expected: `${before?.rows.length} rows, the first ${before?.rows[0]}`,
    came: `${after.rows.length} rows, the first ${after.rows[0]}`,
    why: 'each deployment provisions what is there already, and its rows stay served',
  }))
  expect(after.steps <= 3 * (before?.steps ?? 0) + 100, () => ({
    ...told,
    what: `a read took ${before?.steps} steps before and ${after.steps} afterwards`,
    why: 'an index that a deployment forgets makes each read a scan from then on',
  }))
}

/** What is written from then on is found, and what is replaced or deleted is not. */
async function expectFollowed(context: CheckContext, grown: Dataset, ways: readonly Way[]): Promise<void> {
  const [gone = [], ...rest] = [...grown.content.values()]
  const row = rest[6] ?? []
  const moved = changed(WIDER, row, { name: 'latter' })
  await grown.delta([moved, ...rowsOf(WIDER, 900_001, 3, context.random)], [gone])
  const { operations, filters } = context.capabilities
  if (operations.includes('get') && filters.includes('eq')) {
    for (const [name, count] of [
      ['latter', 1],
      ['former', 0],
    ] as const) {
      const by = [{ column: 'name', operator: 'eq' as const, values: [name] }]
      const { rows } = await answerOf(context.store, grown.target, planOf(WIDER, 'get', { filters: by }))
      expect(rows.length === count, () => stale(`get by name = ${name}`, `${count} rows`, `${rows.length} rows`))
    }
  }
  const fresh = await context.dataset(WIDER, wishOfWays(context))
  await fresh.full([...grown.content.values()])
  for (const way of ways.filter(({ name }) => !name.includes(' states'))) {
    const [given, wanted] = [await rowsBy(context, grown, way), await rowsBy(context, fresh, way)]
    expect(JSON.stringify(given) === JSON.stringify(wanted), () =>
      stale(way.name, `${wanted.length} rows, the first ${wanted[0]}`, `${given.length} rows, the first ${given[0]}`),
    )
  }
}

function stale(where: string, expected: string, came: string) {
  return {
    what: 'after a second provision a write does not reach what serves beside the rows',
    expected,
    came,
    where,
    why: 'the same rows are answered alike, however often their place was provisioned',
    remedy: 'Let every write follow into each index, whenever that was made.',
  }
}
