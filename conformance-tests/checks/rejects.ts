/** Rows and change sets that cannot be taken: refused whole, and nothing of them stays. */
import {
  type ChangeSet,
  isSluiceError,
  LOGICAL_TYPE_NAMES,
  type LogicalType,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'
import { type Check, CheckFailure, expect } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { changed, everyType, extremeRows, rowsOf, SIMPLE } from '../shapes.ts'

export const rejectChecks: readonly Check[] = [
  {
    id: 36,
    name: 'lossy-type-reported-per-row',
    level: 'core',
    async run(context) {
      const schema = everyType(context.capabilities)
      const dataset = await context.dataset(schema)
      const rows = extremeRows(schema, context.random)
      await dataset.full([])
      for (const row of rows.slice(0, 12)) await dataset.delta([row])
      await dataset.expectRows('a type that is declared exact bends no value, whichever row it comes in')
      const others = LOGICAL_TYPE_NAMES.filter((name) => context.capabilities.types[name] === 'rejected')
      for (const name of others)
        await expectTypeRefused(context, name === 'decimal' ? 'decimal(9,2)' : (name as LogicalType))
    },
  },
  {
    id: 40,
    name: 'missing-key-column-is-rejected-row-not-failed-batch',
    level: 'core',
    async run(context) {
      if (context.capabilities.commit === 'lake') return await expectUnread(context)
      const dataset = await context.filled(8)
      const [good = [], other = []] = rowsOf(SIMPLE, 50, 2, context.random)
      const nameless = changed(SIMPLE, other, { id: null })
      const write = await dataset.prepare({ mode: 'delta', upserts: [good, nameless] })
      dataset.candidates.splice(dataset.candidates.indexOf(nameless), 1)
      const refused = await outcomeOf(context, dataset, write)
      expect(refused === null || refused.kind === 'INVALID_DATA', () => wrongKind('a row without its key', refused))
      const rows = [...dataset.content.values(), ...(refused === null ? [good] : [])]
      await dataset.expectRows(
        'a row without a key is refused with its set, or left out of it; nothing else is lost',
        rows,
      )
      if (refused !== null) await dataset.delta([good])
      else dataset.taken({ ...write, content: new Map([...write.content].filter(([, row]) => row !== nameless)) })
      await dataset.expectRows('and the rows that have one can be written')
    },
  },
  {
    id: 41,
    name: 'batch-partial-reject-exact-rows',
    level: 'core',
    async run(context) {
      if (context.capabilities.commit === 'lake') return await expectUnread(context)
      const dataset = await context.filled(8)
      for (const mode of ['delta', 'full'] as const) {
        for (const [what, spoil] of Object.entries(SPOILED)) {
          const write = await dataset.prepare({
            mode,
            upserts: rowsOf(SIMPLE, 40, 30, context.random),
            deletes: mode === 'delta' ? [...dataset.content.values()].slice(0, 2) : [],
          })
          const refused = await outcomeOf(context, dataset, { ...write, changes: spoil(write.changes) })
          expect(refused !== null, () => wrongKind(`a ${mode} set ${what}`, null))
          await dataset.expectRows(`of a ${mode} set ${what} nothing stays`)
        }
      }
      await dataset.delta(rowsOf(SIMPLE, 90, 3, context.random))
      await dataset.expectRows('and the next set is taken')
    },
  },
]

/** Change sets that end otherwise than they announced. */
const SPOILED: Readonly<Record<string, (changes: ChangeSet) => ChangeSet>> = {
  'whose stream breaks': (changes) => ({
    ...changes,
    upserts: () => broken(changes.upserts()),
    upsertsCsv: (columns) => broken(changes.upsertsCsv(columns)),
    upsertsKeyed: (template, columns) => broken(changes.upsertsKeyed(template, columns)),
  }),
  'that ends too early': (changes) => ({
    ...changes,
    upsertCount: changes.upsertCount + 3,
  }),
}

/** A store that keeps no rows takes none: what stands in the change set beside the lake's files does not matter to it. */
async function expectUnread(context: CheckContext): Promise<void> {
  const dataset = await context.filled(8)
  for (const mode of ['delta', 'full'] as const) {
    const write = await dataset.prepare({ mode, upserts: rowsOf(SIMPLE, 40, 30, context.random) })
    const changes = SPOILED['whose stream breaks']?.(write.changes) ?? write.changes
    await dataset.apply({ ...write, changes })
    await dataset.expectRows('a store of the commit class lake reads the lake’s files, and no row of a change set')
  }
}

async function* broken<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  for await (const item of items) {
    yield item
    throw new SluiceError('TRANSIENT', 'the lake could not be read any further', { code: 'lake_read_failed' })
  }
}

async function outcomeOf(
  { store }: CheckContext,
  dataset: Dataset,
  { changes, commit }: PreparedWrite,
): Promise<SluiceError | null> {
  try {
    await store.write(dataset.target, changes, commit)
    return null
  } catch (error) {
    if (isSluiceError(error)) return error
    // It says by itself what is wrong.
    if (error instanceof CheckFailure) throw error
    throw new CheckFailure(
      {
        what: `a write threw something other than a SluiceError: ${String(error)}`,
        where: 'store.write',
        why: 'the runtime decides by kind alone what to do next',
        remedy: 'Wrap what is thrown, with the original as cause.',
      },
      error,
    )
  }
}

function wrongKind(what: string, refused: SluiceError | null) {
  return {
    what: `${what} ${refused ? `was refused as ${refused.kind} ${refused.code}` : 'was taken'}`,
    where: 'store.write',
    why: 'rows that nobody sent, or that nobody can address, are worse than an error',
    remedy:
      'Count what comes against upsertCount and deleteCount before the commit; refuse rows without a key as INVALID_DATA.',
  }
}

async function expectTypeRefused(context: CheckContext, type: LogicalType): Promise<void> {
  const schema: TableSchema = { ...SIMPLE, columns: [...SIMPLE.columns, { name: 'odd', type, nullable: true }] }
  const dataset = context.unprovisioned(schema)
  const refused = await context.store.provision(dataset.target, 'apply').then(
    () => null,
    (error: unknown) => error,
  )
  const isRefused = ['UNSUPPORTED', 'CONFIG', 'CONFLICT', 'INVALID_DATA'].some((kind) =>
    isSluiceError(refused, kind as 'CONFIG'),
  )
  expect(isRefused, () => ({
    what: `a column of the rejected type ${type} was accepted`,
    where: 'store.provision',
    why: 'a type that is rejected must be refused when the product is deployed, and not when its rows come',
    remedy: 'Throw UNSUPPORTED, or declare the type exact or lossy.',
  }))
}
