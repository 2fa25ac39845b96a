/** Digests, and serving a kept epoch again. */
import type { Digest, Row, TableSchema } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect, expectRefusal } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { hook } from '../requirements.ts'
import { changed, everyType, extremeRows, rowsOf, SIMPLE } from '../shapes.ts'

export const digestChecks: readonly Check[] = [
  {
    id: 119,
    name: 'digest-equal-iff-content-equal',
    level: 'core',
    requires: [hook('digest')],
    async run(context) {
      const [one, other] = [await context.dataset(SIMPLE), await context.dataset(SIMPLE)]
      const rows = rowsOf(SIMPLE, 1, 20, context.random)
      const committedAt = '2026-03-01T00:00:30.000000Z'
      await one.apply(await one.prepare({ mode: 'full', upserts: rows, commit: { committedAt } }))
      await other.apply(await other.prepare({ mode: 'full', upserts: [...rows].reverse(), commit: { committedAt } }))
      expectEqual(await digestOf(context, one), await digestOf(context, other), true, 'written in another order')
      const before = await digestOf(context, one)
      expect(before.rowCount === 20, () => wrongDigest(`the digest counts ${before.rowCount} of 20 rows`))
      const [row = []] = rows
      await one.delta([changed(SIMPLE, row, { rank: 4711 })])
      expectEqual(before, await digestOf(context, one), false, 'after one cell was changed')
      await one.delta([], rows.slice(5, 6))
      expect((await digestOf(context, one)).rowCount === 19, () => wrongDigest('a deleted row is still counted'))
    },
  },
  {
    id: 120,
    name: 'single-cell-flip-found',
    level: 'core',
    requires: [hook('digest')],
    async run(context) {
      const schema = everyType(context.capabilities)
      const dataset = await context.dataset(schema)
      const rows = extremeRows(schema, context.random)
      await dataset.full(rows)
      const seen = new Set([(await digestOf(context, dataset)).sha256])
      const blank = rows.find((row) => row.slice(2).every((cell) => cell === null)) ?? []
      const filled = rows.find((row) => row.slice(2).every((cell) => cell !== null)) ?? []
      expect(blank.length > 0 && filled.length > 0, () => wrongDigest('the generator made no row of nulls'))
      for (const { name } of schema.columns.slice(2)) {
        const value = filled[schema.columns.findIndex((column) => column.name === name)] ?? null
        await dataset.delta([changed(schema, blank, { [name]: value })])
        seen.add((await digestOf(context, dataset)).sha256)
      }
      expect(seen.size === schema.columns.length - 1, () =>
        wrongDigest(`${schema.columns.length - 2} changes of one cell gave ${seen.size - 1} new digests`),
      )
    },
  },
  {
    id: 155,
    name: 'digest-tells-contents-apart-that-join-alike',
    level: 'core',
    requires: [hook('digest')],
    async run(context) {
      const dataset = await context.dataset(TEXTS)
      const digestAfter = async (upserts: readonly Row[]) => {
        const commit = { committedAt: '2026-03-01T00:00:30.000000Z' }
        await dataset.apply(await dataset.prepare({ mode: 'full', upserts, commit }))
        return digestOf(context, dataset)
      }
      const contents = alikeContents(context)
      const seen = new Map<string, string>()
      for (const [how, rows] of contents) {
        const { sha256 } = await digestAfter(rows)
        const former = seen.get(sha256)
        expect(former === undefined, () => wrongDigest(`the digest is the same of ${former} and of ${how}`))
        seen.set(sha256, how)
      }
      const [[how, rows] = ['', []]] = contents
      const again = await digestAfter(rows)
      expect(seen.get(again.sha256) === how, () =>
        wrongDigest(`the digest of ${how} is another when it is written again`),
      )
    },
  },
  {
    id: 121,
    name: 'activate-rollback-atomic',
    level: 'core',
    requires: [hook('activate')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      await dataset.full(rowsOf(SIMPLE, 1, 5, context.random))
      const first = [...dataset.content.values()]
      await dataset.full(rowsOf(SIMPLE, 3, 9, context.random.fork('second')))
      await dataset.expectRows('the newest epoch is served')
      await context.store.activate?.(dataset.target, 1)
      await dataset.expectRows('an activated epoch is served as it was', first)
      await context.reopen()
      await dataset.expectRows('also after the next start', first)
      await context.store.activate?.(dataset.target, 2)
      await dataset.expectRows('and the newer one can be activated again')
    },
  },
  {
    id: 122,
    name: 'expire-never-removes-served-epoch',
    level: 'core',
    requires: [hook('activate')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      const contents: (readonly Row[])[] = []
      for (let epoch = 1; epoch <= 3; epoch += 1) {
        await dataset.full(rowsOf(SIMPLE, epoch * 10, 4, context.random.fork(`epoch ${epoch}`)))
        contents.push([...dataset.content.values()])
      }
      await dataset.expectRows('the newest epoch is served')
      await context.store.activate?.(dataset.target, 2)
      for (let sweep = 0; sweep < 3; sweep += 1) {
        await context.clock.advance(7 * HOUR_MS)
        await dataset.expectRows('whatever is cleared away, the epoch that is served stays', contents[1])
      }
      await expectRefusal(
        {
          kind: 'CONFLICT',
          tried: 'activating an epoch that was never there',
          where: 'store.activate',
          why: 'a roll-back to nothing is an outage',
        },
        async () => context.store.activate?.(dataset.target, 99),
      )
      await dataset.expectRows('a refused activation leaves what is served', contents[1])
      await dataset.full(rowsOf(SIMPLE, 70, 4, context.random))
      await dataset.expectRows('the next epoch is served as soon as it is written')
    },
  },
]

const HOUR_MS = 3_600_000

const TEXTS: TableSchema = {
  columns: [
    ...SIMPLE.columns.slice(0, 2),
    ...['a', 'b', 'c'].map((name) => ({ name, type: 'string' as const, nullable: true })),
  ],
  primaryKey: ['id'],
}

/** What a store might put between cells, rows and names, or in the place of null. */
const MARKS = [
  '|',
  ',',
  ';',
  ':',
  '\t',
  '\n',
  '\u001f',
  '\u001e',
  '\u0001',
  '"',
  "'",
  '","',
  '\\',
  '\\N',
  ' ',
  '-',
  '',
  'a',
]
const NOTHINGS = ['', ' ', 'null', 'NULL', '\\N', 'undefined', 'None', '0', '""', '\u0001', '\ufffd']

/** No two are the same, and many look it once their cells are joined, added up or put in order. */
function alikeContents({ random, level }: CheckContext): readonly (readonly [how: string, rows: readonly Row[]])[] {
  const [first = [], second = []] = rowsOf(TEXTS, 1, 2, random)
  const of = (row: Row, a: Row[number], b: Row[number], c: Row[number]) => changed(TEXTS, row, { a, b, c })
  const contents: (readonly Row[])[] = [
    [of(first, 'p', 'u', null), of(second, 'q', 'v', null)],
    [of(first, 'q', 'u', null), of(second, 'p', 'v', null)],
    [of(first, 'u', 'p', null), of(second, 'v', 'q', null)],
    [of(first, 'p', null, null), of(second, 'p', null, null)],
    [of(first, 'q', null, null), of(second, 'q', null, null)],
    [of(first, null, null, null)],
  ]
  const some = level === 'core' ? 8 : MARKS.length
  for (const mark of ['|', ...random.shuffled(MARKS.slice(1)).slice(0, some)]) {
    contents.push(
      [of(first, `x${mark}y`, 'z', 'w')],
      [of(first, 'x', `y${mark}z`, 'w')],
      [of(first, 'x', 'y', `z${mark}w`)],
    )
  }
  for (const text of random.shuffled(NOTHINGS).slice(0, some)) {
    contents.push([of(first, text, null, 'x')], [of(first, null, text, 'x')], [of(first, 'x', null, text)])
  }
  const textOf = (rows: readonly Row[]) => rows.map((row) => JSON.stringify(row.slice(2))).join(' and ')
  return [...new Map(contents.map((rows) => [textOf(rows), rows]))]
}

async function digestOf({ store }: CheckContext, dataset: Dataset): Promise<Digest> {
  const digest = await store.digest?.(dataset.target, callDeadline())
  if (digest && /^[0-9a-f]{64}$/.test(digest.sha256)) return digest
  throw new CheckFailure(wrongDigest('the digest is no SHA-256 in hexadecimal'))
}

function expectEqual(one: Digest, other: Digest, isEqual: boolean, when: string): void {
  expect((one.sha256 === other.sha256) === isEqual, () =>
    wrongDigest(`${when}, the digest is ${isEqual ? 'another' : 'the same'}`),
  )
}

function wrongDigest(what: string) {
  return {
    what,
    where: 'store.digest',
    why: 'drift is found by comparing digests: equal content gives equal ones, and nothing else does',
    remedy: 'Hash every cell, with null apart from every value, in an order that the content alone decides.',
  }
}
