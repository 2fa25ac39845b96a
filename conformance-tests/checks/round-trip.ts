/** What is written comes back, by every way of reading. */
import { type Check, CheckFailure, expect } from '../check.ts'
import { sameJson, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, planOf, pointPlan } from '../reading.ts'
import { COMPOSITE, changed, everyType, extremeRows, instantAt, rowsOf, SIMPLE } from '../shapes.ts'

/** They look like no value once they are taken apart. */
const DOCUMENTS = ['null', '""', '"null"', '[]', '{}', '0', 'false', '[null]', '{"":null}', '{"a":null}']

export const roundTripChecks: readonly Check[] = [
  {
    id: 35,
    name: 'round-trip-every-logical-type',
    level: 'core',
    async run(context) {
      const schema = everyType(context.capabilities)
      const rows = extremeRows(schema, context.random)
      const dataset = await context.dataset(schema)
      await dataset.full(rows)
      expect(rows.length > 20 && schema.columns.length > 3, () => nothingExact())
      for (const way of dataset.ways()) {
        await dataset.expectRows('a value comes back as it was written, extremes of every type included', rows, { way })
      }
      await expectJson(context, dataset)
      await dataset.delta(extremeRows(schema, context.random.fork('again')))
      await dataset.expectRows('a value that comes in a delta comes back as one that comes in a full set')
    },
  },
  {
    id: 159,
    name: 'documents-that-hold-nothing-are-values',
    level: 'core',
    notFor: ({ operations, types }) =>
      types.json !== 'exact'
        ? 'the store does not hold documents exactly'
        : operations.some((way) => way !== 'key' && way !== 'aggregate')
          ? null
          : 'a value under a key is JSON as a whole, in which the document null and no value are one',
    async run(context) {
      const document = (name: string) => ({ name, type: 'json' as const, nullable: true })
      const schema = { ...SIMPLE, columns: [...SIMPLE.columns.slice(0, 2), document('a'), document('b')] }
      const dataset = await context.dataset(schema)
      const texts = [null, ...DOCUMENTS]
      const rows = texts.flatMap((a, index) => {
        const [row = []] = rowsOf(schema, index + 1, 1, context.random)
        return [changed(schema, row, { a, b: context.random.pick(texts) })]
      })
      await dataset.full(rows)
      await dataset.delta(rows.slice(1).map((row, index) => changed(schema, row, { b: rows[index]?.[2] ?? null })))
      for (const way of dataset.ways().filter((one) => one !== 'key')) {
        await dataset.expectRows('the document null, and others that hold nothing, are not no value', undefined, {
          way,
        })
      }
    },
  },
  {
    id: 37,
    name: 'upsert-last-wins-within-batch',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      const rows = rowsOf(SIMPLE, 1, 20, context.random)
      await dataset.full(rows)
      for (const name of ['second', 'third']) {
        await dataset.delta(rows.slice(0, 10).map((row) => changed(SIMPLE, row, { name, amount: null })))
        await dataset.expectRows('an upsert replaces the whole row of its key, values that became null included')
      }
    },
  },
  {
    id: 38,
    name: 'upsert-changes-only-key',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      await dataset.full(rowsOf(SIMPLE, 1, 30, context.random))
      const [row] = [...dataset.content.values()]
      await dataset.delta(row ? [changed(SIMPLE, row, { name: 'only this one' })] : [])
      await dataset.expectRows('an upsert of one key leaves every other row as it was')
    },
  },
  {
    id: 39,
    name: 'composite-key-order-and-separator-injection',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(COMPOSITE)
      await dataset.full(COLLIDING)
      for (const way of dataset.ways()) {
        await dataset.expectRows('keys that look alike once joined are still different keys', COLLIDING, { way })
      }
      const [first, ...others] = COLLIDING
      if (first) await dataset.delta([], [first])
      await dataset.expectRows('deleting one of them leaves the others', others)
    },
  },
  {
    id: 42,
    name: 'empty-batch-and-empty-txn',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      await dataset.full(rowsOf(SIMPLE, 1, 5, context.random))
      await dataset.expectRows('the rows must be there before an empty change set can be told from a lost one')
      await dataset.delta([])
      await dataset.expectRows('an empty delta moves the epoch and no row')
      await expectEpoch(context, dataset)
      await dataset.full([])
      await dataset.expectRows('an empty full set empties the dataset')
      await expectEpoch(context, dataset)
    },
  },
  {
    id: 44,
    name: 'delete-then-read-absent',
    aliases: ['delete-missing-ok'],
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      const rows = rowsOf(SIMPLE, 1, 12, context.random)
      await dataset.full(rows)
      await dataset.expectRows('the rows must be there before they can be deleted')
      await dataset.delta([], rows.slice(0, 4))
      for (const way of dataset.ways()) await dataset.expectRows('deleted rows are gone', undefined, { way })
      await dataset.delta([], [...rows.slice(0, 2), ...rowsOf(SIMPLE, 100, 2, context.random)])
      await dataset.expectRows('deleting what is not there is no error and deletes nothing else')
      await dataset.delta(rows.slice(0, 2))
      await dataset.expectRows('a deleted key can be written again')
    },
  },
  {
    id: 45,
    name: 'full-mode-removes-absent-rows',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      await dataset.full(rowsOf(SIMPLE, 1, 20, context.random))
      await dataset.expectRows('the rows must be there before a full set can remove them')
      await dataset.full(rowsOf(SIMPLE, 15, 20, context.random))
      for (const way of dataset.ways()) {
        await dataset.expectRows('a full set is the whole content: what it does not hold goes', undefined, { way })
      }
    },
  },
  {
    id: 46,
    name: 'delta-mode-keeps-absent-rows',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      await dataset.full(rowsOf(SIMPLE, 1, 20, context.random))
      await dataset.delta(rowsOf(SIMPLE, 18, 10, context.random))
      expect(dataset.content.size === 27, () => ({ ...nothingExact(), what: 'the generator made other rows' }))
      await dataset.expectRows('a delta adds and replaces; rows that it does not name stay')
    },
  },
]

/** What stores put between the columns of a key, or what they escape with. */
const SEPARATORS = [':', '', '/', '|', ',', '-', '_', '.', '%', '#', ' ', '\t', '\\', '"', "'", '%3A', '\u001f', '😀']

/** For each separator three keys that are one once they are joined with it, in one order of columns or the other. */
const ALIKE = SEPARATORS.flatMap((separator) => [
  [`x${separator}y`, 'z', 1],
  ['x', `y${separator}z`, 1],
  ['y', `z${separator}x`, 1],
])

const OTHERS = [
  ['', 'xyz', 1],
  ['X', 'yz', 1],
  ['x', 'y', 11],
  ['x', 'y1', 1],
  ['x', 'y', -1],
]

const COLLIDING = [...ALIKE, ...OTHERS].map(([left = '', right = '', number = 0], index) => [
  left,
  right,
  number,
  instantAt(index),
  `row ${index}`,
])

/** The JSON of an answer says the same as its columns. */
async function expectJson(context: CheckContext, dataset: Dataset): Promise<void> {
  if (!context.capabilities.jsonBatches) return
  const { columns } = dataset.target.schema
  const objects = await objectsOf(context, dataset)
  for (const row of dataset.content.values()) {
    const given = objects.get(String(row[0])) ?? {}
    for (const [index, { name, type }] of columns.entries()) {
      const written = row[index] ?? null
      if (sameJson(type, written, given[name])) continue
      throw new CheckFailure({
        what: `${name} (${type}) was written as ${shown(written)} and stands in the JSON as ${JSON.stringify(given[name])}`,
        where: `read ${dataset.ways()[0]}, encoding json`,
        why: 'a JSON batch writes values as toJsonValue does: it goes to clients as it is',
        remedy: 'Compare with toJsonValue for this type.',
      })
    }
  }
}

type JsonObject = Readonly<Record<string, unknown>>

/** By the text of the first column, which is the key. */
async function objectsOf({ store }: CheckContext, dataset: Dataset): Promise<ReadonlyMap<string, JsonObject>> {
  const { target, template, content } = dataset
  const [way = 'scan'] = dataset.ways()
  const sight = { target, candidates: [], template }
  const plans =
    way === 'key' || way === 'get'
      ? [...content.values()].map((row) => pointPlan(way, row, sight, { encoding: 'json' }))
      : [planOf(target.schema, way, { encoding: 'json' })]
  const objects: JsonObject[] = []
  for (const plan of plans) objects.push(...(await answerOf(store, target, plan)).objects)
  const [key] = target.schema.columns
  return new Map(objects.map((object) => [String(object[key?.name ?? '']), object]))
}

async function expectEpoch({ store }: CheckContext, dataset: Dataset): Promise<void> {
  const [way = 'scan'] = dataset.ways()
  const [row = []] = dataset.candidates
  const sight = { target: dataset.target, candidates: [], template: dataset.template }
  const plan = way === 'key' || way === 'get' ? pointPlan(way, row, sight) : planOf(SIMPLE, way)
  const { epoch } = await answerOf(store, dataset.target, plan)
  expect(epoch === dataset.epoch, () => ({
    what: `the answer names epoch ${epoch} after epoch ${dataset.epoch} was applied`,
    where: `read ${way}, batch.epoch`,
    why: 'every answer says which epoch it was read from, also an empty one',
    remedy: 'Advance the epoch with every commit, whether it held rows or not.',
  }))
}

function nothingExact() {
  return {
    what: 'the store declares no type as exact',
    where: 'capabilities.types',
    why: 'without one there is nothing whose round trip could be proven',
    remedy: 'Declare the types that survive as exact.',
  }
}
