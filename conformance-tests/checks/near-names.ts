/** Tenants, domains, products and variants whose names are near each other, and what a hook on one does to the others. */
import { isSluiceError, isUsableName } from '@sluice/sdk'
import { type Check, CheckFailure, expect } from '../check.ts'
import type { CheckContext, DatasetWish } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { heldNames } from '../names.ts'
import { answerOf, pointPlan } from '../reading.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'

/** Makes of a name others that a store might take for it: by case, spaces, form, separators, patterns, length. */
const NEAR: readonly ((name: string) => string)[] = [
  (name) => name.toUpperCase(),
  (name) => `${name} `,
  (name) => `${name}x`,
  (name) => name.slice(0, -1),
  (name) => `${name}%`,
  (name) => `${name}_`,
  (name) => `${name.slice(0, -1)}_`,
  (name) => `${name}.${name}`,
  (name) => `${name}__masked`,
  (name) => `${name}:`,
  (name) => name.replace('e', 'é'),
  (name) => name.replace('e', 'e\u0301'),
  (name) => name.replace('a', 'а'),
]

/** What a store might join names by, the most usual first. */
const MARKS = ['.', '_', '__', ':', '/', '-', '"."', ' ']
const MARKS_TRIED = { core: 2, full: MARKS.length, hard: MARKS.length } as const

const SOME = { core: 4, full: NEAR.length, hard: NEAR.length } as const

export const nearNameChecks: readonly Check[] = [
  {
    id: 158,
    name: 'near-names-are-strangers-to-every-hook',
    level: 'core',
    async run(context) {
      const makers = NEAR.slice(0, SOME[context.level])
      await expectStrangers(context, 'tenant', makers)
      await expectStrangers(context, 'product', makers)
      await expectBoundaries(context)
    },
  },
  {
    id: 160,
    name: 'columns-named-like-parts-of-objects',
    level: 'core',
    async run(context) {
      // An engine that knows names in lower case alone says so of all names.
      const names = heldNames(context, OBJECT_NAMES)
      const columns = names.map((name) => ({ name, type: 'string' as const, nullable: true }))
      const schema = { ...SIMPLE, columns: [...SIMPLE.columns.slice(0, 2), ...columns] }
      const dataset = await context.dataset(schema)
      const rows = rowsOf(schema, 1, 8, context.random).map((row) =>
        row.map((cell, at) =>
          at < 2 ? cell : context.random.chance(0.5) ? null : `${columns[at - 2]?.name} ${row[0]}`,
        ),
      )
      await dataset.full(rows)
      await dataset.delta(rows.slice(0, 3).map((row) => row.map((cell, at) => (at < 2 ? cell : null))))
      for (const way of dataset.ways()) {
        await dataset.expectRows('a null is a null, whatever its column is called', undefined, { way })
        const [row = []] = [...dataset.content.values()]
        const plan = pointPlan(way, row, { target: dataset.target, template: dataset.template, candidates: [] })
        if (context.capabilities.jsonBatches) {
          const { objects } = await answerOf(context.store, dataset.target, { ...plan, encoding: 'json' })
          const isRight = objects.every((object) => names.every((name) => Object.hasOwn(object, name)))
          expect(isRight && objects.length > 0, () => ({
            what: 'an object of a JSON answer lacks a column',
            where: `read ${way}, encoding json`,
            why: 'readers tell null from what was not asked for',
            remedy: 'Write every column of the plan, null too.',
          }))
        }
      }
    },
  },
]

/** What every object of the language has, or a table of its own that a store might keep beside the rows. */
const OBJECT_NAMES = [
  'constructor',
  'toString',
  'valueOf',
  'hasOwnProperty',
  'length',
  'then',
  'default',
  'key',
  'value',
  'row',
  'epoch',
]

type Named = 'tenant' | 'product'

async function expectStrangers(context: CheckContext, named: Named, makers: typeof NEAR): Promise<void> {
  const { store, capabilities } = context
  // Nobody else's, and of letters that the makers look for.
  const name = `near_${context.tenant('near').tenant.replaceAll(/[^a-z0-9]/g, '_')}_a`
  const made = new Set(
    makers.map((make) => make(name)).filter((one) => one !== name && isUsableName(one, capabilities)),
  )
  const own = await namedDataset(context, named, name, 1)
  const others = new Map<string, Dataset>()
  for (const other of made) others.set(other, await namedDataset(context, named, other, others.size + 2))
  const expectOthers = async (done: string) => {
    for (const [other, dataset] of others) await expectUntouched(context, dataset, { named, name, other, done })
  }
  await own.delta(rowsOf(SIMPLE, 1, 1, context.random), [...own.content.values()].slice(2, 3))
  await store.rls.install(own.target, { version: '2', tenantIsolation: 'forced' })
  await store.drop(own.target, 'apply')
  if (named === 'tenant') await store.dropTenant(own.target.scope)
  // What any of them does to another stays done, so that each of the others is looked at once.
  await expectOthers(named === 'tenant' ? 'a write, a policy, or a drop' : 'a write, a policy, or the drop')
}

async function namedDataset(context: CheckContext, named: Named, name: string, number: number): Promise<Dataset> {
  if (named === 'tenant') context.tenantNamed(name, name)
  const wish: DatasetWish = named === 'tenant' ? { tenant: name, product: 'shape' } : { product: name }
  return filled(context, wish, number)
}

async function filled(context: CheckContext, wish: DatasetWish, number: number): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE, wish)
  await dataset.full(rowsOf(SIMPLE, number * 10, 4, context.random))
  return dataset
}

/** A domain and a product that a store might join to one text, parted at other places; and twins that look like products. */
async function expectBoundaries(context: CheckContext): Promise<void> {
  const { capabilities, store } = context
  for (const mark of MARKS.slice(0, MARKS_TRIED[context.level])) {
    const pairs = [
      [`a${mark}b`, 'c'],
      ['a', `b${mark}c`],
      [`a${mark}`, `b${mark}c`],
    ].filter((pair) => pair.every((one) => isUsableName(one, capabilities)))
    const made: Dataset[] = []
    for (const [domain = '', product = ''] of pairs)
      made.push(await filled(context, { domain, product }, made.length + 1))
    for (const [index, one] of made.entries()) {
      await store.drop(one.target, 'apply')
      const { domain, product } = one.target
      for (const other of made.slice(index + 1)) {
        const names = { name: `${domain} / ${product}`, other: `${other.target.domain} / ${other.target.product}` }
        await expectUntouched(context, other, { named: 'product', ...names, done: 'the drop' })
      }
    }
  }
}

interface Done {
  readonly named: Named
  readonly name: string
  readonly other: string
  readonly done: string
}

async function expectUntouched({ store }: CheckContext, dataset: Dataset, done: Done): Promise<void> {
  try {
    await dataset.expectRows(`${done.done} of ${JSON.stringify(done.name)} is nothing to ${JSON.stringify(done.other)}`)
    const { version } = await store.rls.describe(dataset.target)
    expect(version === '1', () => reached(done))
  } catch (error) {
    if (isSluiceError(error)) throw new CheckFailure(reached(done), error)
    throw error
  }
}

function reached({ named, name, other, done }: Done) {
  return {
    what: `${done} of the ${named} ${JSON.stringify(name)} reached the ${named} ${JSON.stringify(other)}`,
    where: 'store.drop, store.dropTenant, store.write or store.rls.install',
    why: 'names that are not equal are strangers, however near: what is done to one must not be felt by another',
    remedy: 'Compare names as they are, byte by byte, and never by a pattern or a collation; keep their parts apart.',
  }
}
