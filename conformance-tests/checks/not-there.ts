/** What a store says of rows that were never written, or are gone: the runtime builds a copy anew by that code alone. */
import type { Target } from '@sluice/sdk'
import { type Check, expect, expectRefusal, vacuous } from '../check.ts'
import type { CheckContext } from '../context.ts'
import { SIMPLE } from '../shapes.ts'
import { rowsOfDays, takenOf, type Way, waysOf, wishOfWays } from '../ways.ts'

export const notThereChecks: readonly Check[] = [
  {
    id: 177,
    name: 'what-is-not-there-is-said-by-its-code',
    level: 'core',
    async run(context) {
      const { store } = context
      const rows = rowsOfDays(context, 40)
      const wish = wishOfWays(context)
      const dataset = await context.dataset(SIMPLE, wish)
      await dataset.full(rows)
      const ways = await waysOf(context, dataset, rows)
      for (const way of ways) {
        const { rowCount } = await takenOf(way.read(store, dataset.target))
        expect(rowCount > 0, () => vacuous(`${way.name} gives nothing of what is there`))
      }
      await expectNothing(context, ways, context.targetFor(SIMPLE, wish), 'nothing was provisioned')
      const bare = await context.dataset(SIMPLE, { ...wish, policy: 'none' })
      await expectNothing(context, ways, bare.target, 'a place was made and nothing more')
      const empty = await context.dataset(SIMPLE, wish)
      await expectNothing(context, ways, empty.target, 'nothing was written')
      const gap = await empty.prepare({ mode: 'delta', upserts: rows, commit: { previousEpoch: 7, epoch: 9 } })
      // It was to be refused: what is looked at is what it has left.
      await store.write(empty.target, gap.changes, gap.commit).catch(() => undefined)
      await expectNothing(context, ways, empty.target, 'the first write was refused')
      await store.drop(dataset.target, 'apply')
      await expectNothing(context, ways, dataset.target, 'it was dropped')
      const gone = await context.dataset(SIMPLE, { ...wish, tenant: 'gone' })
      await gone.full(rows)
      await store.dropTenant(gone.target.scope)
      await expectNothing(context, ways, gone.target, 'its tenant was dropped')
      await empty.full(rows)
      for (const way of ways) {
        const { rowCount } = await takenOf(way.read(store, empty.target))
        expect(rowCount > 0, () => vacuous(`${way.name} gives nothing after the first write`))
      }
    },
  },
]

async function expectNothing(
  context: CheckContext,
  ways: readonly Way[],
  target: Target,
  state: string,
): Promise<void> {
  const { store } = context
  const asked = ways.flatMap((way) =>
    way.encodings.map((encoding) => [way.name, () => takenOf(way.read(store, target, { encoding }))] as const),
  )
  for (const [name, run] of asked) {
    await expectRefusal(
      {
        kind: 'TRANSIENT',
        codes: ['not_materialized'],
        tried: `${name} where ${state}`,
        where: `store.${name}`,
        why: 'by this code the runtime tells a copy that was emptied from a store that is away, and builds it anew',
      },
      run,
    )
  }
}
