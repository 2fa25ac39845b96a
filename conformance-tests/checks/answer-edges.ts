/**
 * Answers of many batches, projections, documents, limits, variants, and values whose time is over: in every way to read that there
 * is. One idea, and so one file: each takes an answer to its end by the same two functions.
 */
import { isJsonBatch, type Row, rowsOf as rowsOfBatch, type TableSchema, type Value } from '@sluice/sdk'
import { type Check, expect, vacuous } from '../check.ts'
import { cellsText, indexOf, sameJson } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, planOf, pointPlan } from '../reading.ts'
import { anyOperation, TTL } from '../requirements.ts'
import { changed, everyType, extremeRows, rowsOf, SIMPLE } from '../shapes.ts'
import { readable, rowsOfDays, takenOf, type Way, waysOf, wishOfWays } from '../ways.ts'

const MANY = 1000
const TRIALS = { core: 4, full: 12, hard: 40 } as const
const HOUR_MS = 3_600_000

/** Numbers that no double has, alone and within; what a document holds is a value as every other. */
const DOCUMENTS = [
  '9007199254740993',
  '{"n":9007199254740993}',
  '{"n":-9007199254740993,"in":[1,{"of":12345678901234567890}]}',
  '[0.12345678901234567891,123456789012345678901234567890]',
  '{"n":0.1}',
] as const

export const answerEdgeChecks: readonly Check[] = [
  {
    id: 185,
    name: 'documents-keep-the-digits-of-their-numbers',
    level: 'core',
    notFor: ({ operations, types }) =>
      types.json !== 'exact'
        ? 'the store does not hold documents exactly'
        : operations.some((way) => way !== 'key' && way !== 'aggregate')
          ? null
          : 'a value under a key is JSON as a whole, whose numbers the store does not look at',
    async run(context) {
      const schema: TableSchema = {
        ...SIMPLE,
        columns: [...SIMPLE.columns.slice(0, 2), { name: 'document', type: 'json', nullable: true }],
      }
      const dataset = await context.dataset(schema)
      const rows = rowsOf(schema, 1, DOCUMENTS.length, context.random).map((row, index) =>
        changed(schema, row, { document: DOCUMENTS[index] ?? null }),
      )
      await dataset.full(rows.slice(0, 3))
      await dataset.delta(rows.slice(3))
      for (const way of dataset.ways().filter((one) => one !== 'key')) {
        const given = new Map((await dataset.see({ way })).map((row) => [row[0], row[2] ?? null]))
        for (const [id = null, , document = null] of rows) {
          const came = given.get(id) ?? null
          expect(numbersIn(came) === numbersIn(document), () => ({
            what: 'the numbers of a document are others than were written',
            expected: String(document),
            came: String(came),
            where: `read ${way}, a column of type json`,
            why: 'a document is given back as it was written, whatever JavaScript makes of its numbers',
            remedy: 'Keep the text, or parse it into numbers of any length.',
          }))
        }
      }
    },
  },
  {
    id: 188,
    name: 'json-answers-have-each-column-by-its-own-type',
    level: 'core',
    requires: [anyOperation('scan', 'range', 'get', 'key')],
    notFor: ({ jsonBatches }) => (jsonBatches ? null : 'the store gives columns alone'),
    async run(context) {
      const schema = everyType(context.capabilities)
      const dataset = await context.dataset(schema)
      const rows = extremeRows(schema, context.random)
      await dataset.full(rows)
      const others = schema.columns.map(({ name }) => name).filter((name) => name !== 'id')
      for (const way of dataset.ways()) {
        for (let trial = 0; trial < TRIALS[context.level]; trial += 1) {
          const some = context.random.shuffled(others).slice(0, context.random.integer(1, others.length))
          await expectProjected(context, dataset, { way, columns: context.random.shuffled(['id', ...some]), rows })
        }
      }
    },
  },
  {
    id: 189,
    name: 'an-answer-of-many-batches-is-of-one-epoch',
    level: 'core',
    notFor: ({ commit }) => (commit === 'per-key' ? 'its keys switch one by one' : null),
    async run(context) {
      const most = Math.min(MANY, context.capabilities.limits.maxReadRows)
      const { dataset, ways } = await readable(context, most)
      for (const way of ways) {
        for (const encoding of way.encodings) await expectOneEpoch(context, dataset, { way, encoding, limit: most })
      }
    },
  },
  {
    id: 190,
    name: 'what-has-expired-is-found-in-no-way',
    level: 'core',
    requires: [TTL],
    async run(context) {
      const dataset = await context.dataset(SIMPLE, { ...wishOfWays(context), ttl: '2h' })
      const rows = rowsOfDays(context, 40)
      await dataset.full(rows)
      const granularityMs = context.capabilities.ttl?.granularityMs ?? 0
      const ways = await waysOf(context, dataset, rows)
      const found = (way: Way) => taken(context, dataset, way, 'columns')
      for (const way of ways) {
        const { texts, ttls } = await found(way)
        expect(texts.length > 0, () => vacuous(`${way.name} gives nothing`))
        expect(
          ttls.every((seconds) => seconds !== undefined && seconds > 0 && seconds <= 7200),
          () => expired(way, `an answer says that it stays true for ${ttls.join(', ')} s, of 7200`),
        )
      }
      // The lake has committed the next epoch long before the store gets it.
      const committedAt = context.clock.nowText()
      await context.clock.advance(HOUR_MS)
      await dataset.apply(await dataset.prepare({ mode: 'full', upserts: rows, commit: { committedAt } }))
      for (const way of ways) {
        const { texts, ttls } = await found(way)
        expect(texts.length > 0, () => expired(way, 'rows that have half of their time left are not found'))
        expect(
          ttls.every((seconds) => seconds !== undefined && seconds <= 3600 + granularityMs / 1000),
          () => expired(way, `an answer says that it stays true for ${ttls.join(', ')} s, of 3600 since the commit`),
        )
      }
      await context.clock.advance(HOUR_MS + granularityMs + 1)
      for (const opened of [false, true]) {
        if (opened) await context.reopen()
        for (const way of ways) {
          const { texts } = await found(way)
          expect(texts.length === 0, () => expired(way, `${texts.length} rows whose time is over are found`))
        }
      }
    },
  },
  {
    id: 193,
    name: 'answers-hold-no-more-rows-than-their-limit',
    level: 'core',
    async run(context) {
      const { dataset, ways } = await readable(context, 28)
      let turned = 0
      for (const way of ways.filter(({ isPaged }) => isPaged)) {
        const { texts: all } = await taken(context, dataset, way, 'columns')
        for (const limit of [1, 2, all.length - 1, all.length]) {
          for (const encoding of way.encodings)
            turned += await expectLimited(context, dataset, { way, encoding, limit }, all)
        }
      }
      expect(turned > 0 || ways.every(({ isPaged }) => !isPaged), () => vacuous('no answer had a second page'))
    },
  },
  {
    id: 194,
    name: 'variants-of-one-product-keep-their-own-rows',
    level: 'core',
    async run(context) {
      const variants: Dataset[] = []
      for (const [index, variant] of VARIANTS.entries()) {
        const dataset = await context.dataset(SIMPLE, { product: 'twins', variant })
        await dataset.full(rowsOf(SIMPLE, 1, 4, context.random).map((row) => changed(SIMPLE, row, { rank: index })))
        variants.push(dataset)
      }
      const expectAll = async (why: string) => {
        for (const dataset of variants) {
          for (const way of dataset.ways()) {
            const own = `${why}, the variant ${dataset.target.variant} shows its own rows`
            await dataset.expectRows(own, undefined, { way })
          }
        }
      }
      await expectAll('beside others of its product')
      for (const dataset of variants) await dataset.delta(rowsOf(SIMPLE, 4, 3, context.random))
      await expectAll('after all were written to')
      while (variants.length > 1) {
        const [gone] = variants.splice(context.random.integer(0, variants.length - 1), 1)
        if (gone) await context.store.drop(gone.target, 'apply')
        await expectAll(`when ${gone?.target.variant} was dropped`)
      }
    },
  },
]

/** A product has as many masked twins as there are sets of classes that readers may see. */
const VARIANTS = ['clear', 'masked', 'masked_1', 'masked_12', 'masked_2', 'masked_1_2'] as const

interface Projected {
  readonly way: ReturnType<Dataset['ways']>[number]
  readonly columns: readonly string[]
  readonly rows: readonly Row[]
}

async function expectProjected(
  { store, random }: CheckContext,
  { target, template }: Dataset,
  { way, columns, rows }: Projected,
): Promise<void> {
  const { schema } = target
  const isWhole = way === 'scan' || way === 'range'
  const asked = random.pick(rows)
  const plan = isWhole
    ? planOf(schema, way, { columns, encoding: 'json', limit: rows.length })
    : pointPlan(way, asked, { target, template, candidates: [] }, { columns, encoding: 'json' })
  const { objects } = await answerOf(store, target, plan)
  const wanted = new Map(rows.map((row) => [Number(row[0]), row]))
  expect(objects.length === (isWhole ? rows.length : 1), () => vacuous(`${objects.length} rows came`))
  for (const object of objects) {
    const row = wanted.get(Number(object['id'])) ?? []
    for (const name of columns) {
      const at = indexOf(schema, name)
      const type = schema.columns[at]?.type ?? 'string'
      expect(sameJson(type, row[at] ?? null, object[name]), () => ({
        what: `a ${type} stands in JSON otherwise than its type is written`,
        expected: `${name} of ${cellsText([row[at] ?? null])}, as toJsonValue writes a ${type}`,
        came: JSON.stringify(object[name]) ?? 'nothing',
        where: `read ${way}, encoding json, columns ${columns.join(', ')}`,
        why: 'readers take a column for what its type is, in whatever order they ask for columns',
        remedy: 'Look up the type of each column by its name.',
      }))
    }
  }
}

interface Batches {
  readonly texts: readonly string[]
  readonly epochs: readonly number[]
  readonly ttls: readonly (number | undefined)[]
}

/** To its end; `between` is done once, after the first batch. */
async function taken(
  { store }: CheckContext,
  { target }: Dataset,
  way: Way,
  encoding: 'columns' | 'json',
  { limit = 100, between }: { readonly limit?: number; between?(): Promise<unknown> } = {},
): Promise<Batches> {
  const texts: string[] = []
  const epochs: number[] = []
  const ttls: (number | undefined)[] = []
  for await (const batch of way.read(store, target, { encoding, limit: way.isPaged ? limit : 1 })) {
    epochs.push(batch.epoch)
    ttls.push(batch.ttlRemainingS)
    const rows: readonly unknown[] = isJsonBatch(batch)
      ? (JSON.parse(batch.json) as unknown[]).map((one) => JSON.stringify(one))
      : [...rowsOfBatch(batch)].map(cellsText)
    texts.push(...rows.map(String))
    if (epochs.length === 1) await between?.()
  }
  return { texts, epochs, ttls }
}

async function expectOneEpoch(
  context: CheckContext,
  dataset: Dataset,
  { way, encoding, limit }: { readonly way: Way; readonly encoding: 'columns' | 'json'; readonly limit: number },
): Promise<void> {
  const before = await taken(context, dataset, way, encoding, { limit })
  const { epoch } = dataset
  const next = [...dataset.content.values()].map((row) => changed(SIMPLE, row, { rank: Number(row[4] ?? 0) + 1 }))
  const beside = await taken(context, dataset, way, encoding, { limit, between: () => dataset.delta(next) })
  const isSame =
    beside.texts.length === before.texts.length && beside.texts.every((text, at) => text === before.texts[at])
  expect(before.texts.length > 0, () => vacuous(`${way.name} gives nothing`))
  expect(isSame && beside.epochs.every((one) => one === epoch), () => ({
    what: 'an answer in whose middle an epoch was written is not of the epoch that it began with',
    expected: `${before.texts.length} rows of epoch ${epoch}, in each batch`,
    came: `${beside.texts.length} rows, ${isSame ? 'the same' : 'others'}, of the epochs ${[...new Set(beside.epochs)].join(', ')}`,
    where: `${way.name}, ${encoding}, with a write after the first batch`,
    why: 'an answer is kept, and compared with others, by the epoch that it names: rows and name are of one moment',
    remedy: 'Take rows and epoch of all batches from one snapshot.',
  }))
}

interface Limited {
  readonly way: Way
  readonly encoding: 'columns' | 'json'
  readonly limit: number
}

/** How often it went on. */
async function expectLimited(
  { store }: CheckContext,
  { target }: Dataset,
  { way, encoding, limit }: Limited,
  all: readonly string[],
): Promise<number> {
  if (limit < 1) return 0
  let after: readonly Value[] | undefined
  let [pages, came, most] = [0, 0, 0]
  do {
    const { rowCount, next } = await takenOf(way.read(store, target, { encoding, limit, ...(after ? { after } : {}) }))
    after = next
    pages += 1
    came += rowCount
    most = Math.max(most, rowCount)
  } while (after !== undefined && pages <= all.length)
  expect(most <= limit && came === all.length, () => ({
    what: most > limit ? 'an answer holds more rows than were asked for' : 'the pages of an answer are not all of it',
    expected: `${all.length} rows in pages of ${limit}`,
    came: `${came} rows, ${most} at once`,
    where: `${way.name}, ${encoding}`,
    why: 'a limit is what keeps an answer from the memory of whoever asks, in every way to ask',
    remedy: 'Cut every answer at its limit, and say in next where it goes on.',
  }))
  return pages - 1
}

function expired(way: Way, what: string) {
  return {
    what,
    where: `${way.name} of an endpoint with a ttl`,
    why: 'what has expired is gone for every reader, whichever way he asks',
    remedy: 'Look at the time to live where rows are taken, and not in one way to read.',
  }
}

/** The document with its numbers as they are written, so that two are equal only digit by digit. */
function numbersIn(document: Value): string {
  if (typeof document !== 'string') return 'no document'
  const raw = JSON as typeof JSON & { rawJSON(text: string): unknown }
  type Reviver = (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown
  const asWritten: Reviver = (_, value, { source }) =>
    typeof value === 'number' && source !== undefined ? raw.rawJSON(plain(source)) : value
  return JSON.stringify(JSON.parse(document, asWritten as Parameters<typeof JSON.parse>[1]))
}

/** Without zeros at the end of a fraction, which an engine may add. */
const plain = (number: string) => (/^-?\d+\.\d+$/.test(number) ? number.replace(/\.?0+$/, '') : number)
