/** Change sets at their edges: where a delta begins, where a set ends, and what is told of one that was refused. */
import { type ChangeSet, isSluiceError, type Row, SluiceError, type TableSchema } from '@sluice/sdk'
import { type Check, expect, expectRefusal, vacuous } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const ofLake = ({ commit }: CheckContext['capabilities']) =>
  commit === 'lake' ? 'it reads no rows when it writes' : null

export const setEdgeChecks: readonly Check[] = [
  {
    id: 182,
    name: 'a-delta-is-refused-where-it-has-nothing-to-begin-from',
    level: 'core',
    async run(context) {
      for (const [place, make] of emptyPlaces(context)) {
        const dataset = await make()
        for (const epoch of [2, 2 ** 31 + 1]) {
          for (const deletes of [[], rowsOf(SIMPLE, 1, 1, context.random)]) {
            const commit = { epoch, previousEpoch: epoch - 1 }
            const upserts = rowsOf(SIMPLE, 5, 3, context.random)
            await expectGap(context, dataset, await dataset.prepare({ mode: 'delta', upserts, deletes, commit }), place)
          }
        }
        const where = `a place ${place}, after a delta was refused`
        await expectRefusal(
          { kind: 'TRANSIENT', codes: ['not_materialized'], tried: 'a read', where, why: 'nothing was written' },
          () => dataset.see(),
        )
        await dataset.full(rowsOf(SIMPLE, 1, 4, context.random))
        await dataset.expectRows(`a place ${place} takes a full set`)
      }
    },
  },
  {
    id: 183,
    name: 'a-set-that-ends-early-on-either-side-is-refused',
    level: 'core',
    notFor: ofLake,
    async run(context) {
      const dataset = await context.filled(24)
      for (const [what, wish] of Object.entries(wishesOf(context, dataset))) {
        for (const [how, spoil] of Object.entries(SPOILED)) {
          const write = await dataset.prepare(wish)
          const changes = spoil(write.changes)
          if (changes === null) continue
          const outcome = await attempted(context, dataset, { ...write, changes })
          expect(outcome !== null, () => ({
            what: `${what} ${how} was taken`,
            where: `store.write, mode ${wish.mode}`,
            why: 'rows that were not given are missing for good, and rows that should have gone are served',
            remedy: 'Read both sides to their ends, and count each against what was announced before the commit.',
          }))
          await dataset.expectRows(`of ${what} ${how} nothing stays`)
        }
      }
      for (const wish of Object.values(wishesOf(context, dataset))) await dataset.apply(await dataset.prepare(wish))
      await dataset.expectRows('and sets that are whole are taken')
    },
  },
  {
    id: 184,
    name: 'refused-writes-and-schemas-tell-no-value',
    level: 'core',
    notFor: ofLake,
    async run(context) {
      const errors = await refusals(context)
      expect(errors.length >= 4, () => vacuous(`only ${errors.length} of the writes were refused`))
      for (const { message, code, remedy, details } of errors) {
        expectUntold(JSON.stringify([message, code, remedy, details]), `the error ${code}`)
      }
      expectUntold(context.logger.text(), 'a line of the log')
      const { measured } = context.host
      expectUntold(JSON.stringify(measured), 'a metric')
    },
  },
]

type Places = readonly (readonly [place: string, make: () => Promise<Dataset>])[]

function emptyPlaces(context: CheckContext): Places {
  const anew = (tenant: string, end: (dataset: Dataset) => Promise<unknown>) => async () => {
    const wish = { tenant, product: 'begun' }
    await end(await context.filled(4, wish))
    return context.dataset(SIMPLE, wish)
  }
  const { store } = context
  const places: Places = [
    ['that was provisioned and never written', () => context.dataset(SIMPLE)],
    ['that was dropped and made anew', anew('begin-a', ({ target }) => store.drop(target, 'apply'))],
    ['whose tenant was dropped', anew('begin-b', ({ target }) => store.dropTenant(target.scope))],
  ]
  if (context.capabilities.commit === 'lake') return places
  const refused = async () => {
    const dataset = await context.dataset(SIMPLE)
    const write = await dataset.prepare({ mode: 'full', upserts: rowsOf(SIMPLE, 1, 4, context.random) })
    const { changes } = write
    const outcome = await attempted(context, dataset, { ...write, changes: { ...changes, upsertCount: 9 } })
    expect(outcome !== null, () => vacuous('a set that ends early was taken'))
    return dataset
  }
  return [...places, ['whose first write was refused', refused]]
}

async function expectGap(
  { store }: CheckContext,
  dataset: Dataset,
  { changes, commit }: PreparedWrite,
  place: string,
): Promise<void> {
  await expectRefusal(
    {
      kind: 'CONFLICT',
      codes: ['epoch_gap'],
      tried: `a delta from epoch ${commit.previousEpoch} on a place ${place}`,
      where: 'store.write, previousEpoch',
      why: 'a delta tells what has changed: without what it starts from, its few rows are served as the whole product',
    },
    () => store.write(dataset.target, changes, commit),
  )
}

type Wish = Parameters<Dataset['prepare']>[0]

/** Of several batches on each side. */
function wishesOf({ random }: CheckContext, { content }: Dataset): Readonly<Record<string, Wish>> {
  const there = [...content.values()]
  const upserts = [
    ...there.slice(12, 15).map((row) => changed(SIMPLE, row, { name: 'set' })),
    ...rowsOf(SIMPLE, 200, 9, random),
  ]
  return {
    'a set of deletes': { mode: 'delta', upserts: [], deletes: there.slice(0, 9) },
    'a set of both': { mode: 'delta', upserts, deletes: there.slice(0, 9) },
    'a set of upserts': { mode: 'delta', upserts },
    'a full set': { mode: 'full', upserts: rowsOf(SIMPLE, 300, 16, random) },
  }
}

/** Null where the set has nothing on that side. */
const SPOILED: Readonly<Record<string, (changes: ChangeSet) => ChangeSet | null>> = {
  'whose deletes are fewer than announced': (changes) =>
    changes.deleteCount === 0 ? null : { ...changes, deleteCount: changes.deleteCount + 1 },
  'whose upserts are fewer than announced': (changes) =>
    changes.upsertCount === 0 ? null : { ...changes, upsertCount: changes.upsertCount + 1 },
  'whose deletes break after their last batch': (changes) =>
    changes.deleteCount === 0
      ? null
      : {
          ...changes,
          deletes: () => breaking(changes.deletes()),
          deletesCsv: () => breaking(changes.deletesCsv()),
        },
  'whose upserts break after their last batch': (changes) =>
    changes.upsertCount === 0
      ? null
      : {
          ...changes,
          upserts: () => breaking(changes.upserts()),
          upsertsCsv: (columns) => breaking(changes.upsertsCsv(columns)),
          upsertsKeyed: (template, columns) => breaking(changes.upsertsKeyed(template, columns)),
        },
}

async function* breaking<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  yield* items
  throw new SluiceError('TRANSIENT', 'the lake could not be read to its end', { code: 'lake_read_failed' })
}

async function attempted(
  { store }: CheckContext,
  { target }: Dataset,
  { changes, commit }: PreparedWrite,
): Promise<SluiceError | null> {
  return store.write(target, changes, commit).then(
    () => null,
    (error: unknown) => {
      if (isSluiceError(error)) return error
      throw error
    },
  )
}

const SECRET = 'gibbon-5e1d'

/** A key of two texts, so that a row without one half has the other to tell. */
const KEYED: TableSchema = {
  columns: [
    { name: 'left', type: 'string', nullable: false },
    ...SIMPLE.columns.slice(1),
    { name: 'right', type: 'string', nullable: false },
  ],
  primaryKey: ['left', 'right'],
}

async function refusals(context: CheckContext): Promise<readonly SluiceError[]> {
  const { store, random } = context
  const dataset = await context.dataset(KEYED)
  const secret = (row: Row, index: number) =>
    changed(KEYED, row, { left: `${SECRET}${index}`, name: SECRET, right: SECRET })
  const rows = rowsOf(KEYED, 1, 12, random).map(secret)
  await dataset.full(rows.slice(0, 6))
  const errors: (SluiceError | null)[] = []
  for (const mode of ['delta', 'full'] as const) {
    const deletes = mode === 'delta' ? rows.slice(0, 2) : []
    const prepared = (upserts: readonly Row[], commit = {}) => dataset.prepare({ mode, upserts, deletes, commit })
    const keyless = rows.slice(6).map((row, index) => (index === 2 ? changed(KEYED, row, { right: null }) : row))
    const partly = await prepared(keyless)
    const refused = await attempted(context, dataset, partly)
    // A store may leave the row out, and take the others.
    if (refused === null) dataset.taken(partly)
    else errors.push(refused)
    for (const spoil of Object.values(SPOILED)) {
      const write = await prepared(rows.slice(6))
      const changes = spoil(write.changes)
      if (changes !== null) errors.push(await attempted(context, dataset, { ...write, changes }))
    }
    const ended = { signal: AbortSignal.abort() }
    errors.push(await attempted(context, dataset, await prepared(rows.slice(6), ended)))
  }
  const columns = KEYED.columns.map((one) => (one.name === 'name' ? { ...one, type: 'date' as const } : one))
  const { target } = context.grown(dataset, { ...KEYED, columns })
  const narrowed = await store.provision(target, 'apply').then(
    () => null,
    (error: unknown) => error,
  )
  if (isSluiceError(narrowed)) errors.push(narrowed)
  return errors.filter((error) => error !== null)
}

function expectUntold(text: string, where: string): void {
  expect(!text.includes(SECRET), () => ({
    what: `${where} tells a value of a row`,
    where: 'store.write and store.provision, where they refuse',
    why: 'errors are shown to clients, and logs to whoever runs the platform: neither may see the row',
    remedy: 'Say which column and how many rows; what a driver says goes into cause, and no row into the log.',
  }))
}
