/** Wherever a process ends, the next one reaches the same state as if nothing had happened. */
import { isSluiceError } from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { hook } from '../requirements.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

export const crashChecks: readonly Check[] = [
  {
    id: 60,
    name: 'crash-before-prepare-no-rows',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(12)
      const points = await pointsOfWrite(context)
      const write = await nextWrite(context, dataset, 'delta')
      await crash(context, dataset, write, 0)
      const seen = await dataset.see()
      const isOld = differenceOf(SIMPLE, [...dataset.content.values()], seen) === null
      expect(points.length === 1 || isOld, () => ({
        what: 'rows of an epoch that was never committed can be read',
        where: `after a crash at ${points[0]}, the first fault point of ${points.length}`,
        why: 'nothing of an epoch is visible before its commit',
        remedy: 'Put a fault point before the commit, and make rows visible by the commit alone.',
      }))
    },
  },
  {
    id: 61,
    name: 'crash-after-prepare-recover-then-commit-or-abort',
    level: 'core',
    requires: [hook('recover')],
    async run(context) {
      for (const [index, point] of (await pointsOfWrite(context)).entries()) {
        const dataset = await context.filled(12)
        const write = await nextWrite(context, dataset, 'delta')
        await crash(context, dataset, write, index)
        const recovered = await context.store.recover?.(dataset.target)
        const shown = await shownAfter(dataset, write, point)
        expect(recovered?.epoch === shown, () => ({
          what: `recover says epoch ${recovered?.epoch ?? 'none'}, and reads show epoch ${shown}`,
          where: `after a crash at ${point}`,
          why: 'the runtime continues from what recover says',
          remedy: 'Keep the applied epoch in the same transaction as the rows, and read it from there.',
        }))
      }
    },
  },
  {
    id: 62,
    name: 'crash-during-commit-recovers-to-all-or-nothing',
    level: 'core',
    async run(context) {
      for (const mode of ['delta', 'full'] as const) {
        for (const [index, point] of (await pointsOfWrite(context, mode)).entries()) {
          const dataset = await context.filled(12)
          const write = await nextWrite(context, dataset, mode)
          await crash(context, dataset, write, index)
          await shownAfter(dataset, write, point)
          await dataset.apply(write)
          await dataset.expectRows(`after a crash at ${point} (${mode}) the same write must reach its end`)
          await dataset.full(rowsOf(SIMPLE, 3, 5, context.random))
          await dataset.expectRows(`after a crash at ${point} (${mode}) the next epoch must follow`)
        }
      }
    },
  },
  {
    id: 63,
    name: 'crash-after-commit-before-ack-no-duplicate',
    level: 'core',
    async run(context) {
      const points = await pointsOfWrite(context)
      const dataset = await context.filled(12)
      const write = await nextWrite(context, dataset, 'delta')
      await crash(context, dataset, write, points.length - 1)
      const { outcome } = await dataset.apply(write)
      expect(outcome === 'applied' || outcome === 'already_applied', () => ({
        what: `the repeat of a write whose answer was lost was ${String(outcome)}`,
        where: `store.write after a crash at ${points.at(-1)}`,
        why: 'the runtime cannot know whether the first was committed',
        remedy: 'Answer applied or already_applied.',
      }))
      await dataset.expectRows('a write whose answer was lost is applied once')
    },
  },
  {
    id: 64,
    name: 'recover-returns-last-committed-checkpoint',
    level: 'core',
    requires: [hook('recover')],
    async run(context) {
      const dataset = await context.dataset(SIMPLE)
      const { target } = dataset
      const nothing = await context.store.recover?.(target)
      expect(nothing === null, () => wrongRecovery('before the first write', 'null', nothing))
      for (let epoch = 1; epoch <= 3; epoch += 1) {
        const upserts = rowsOf(SIMPLE, epoch * 3, 4, context.random)
        const write = await dataset.prepare({ mode: 'full', upserts, commit: { fence: BigInt(epoch) } })
        await dataset.apply(write)
        await context.reopen()
        const recovered = await context.store.recover?.(target)
        const { fence, committedAt } = write.commit
        const right = recovered?.epoch === epoch && recovered.fence === fence && recovered.committedAt === committedAt
        expect(right, () =>
          wrongRecovery(`after epoch ${epoch}`, `epoch ${epoch}, its fence and its instant`, recovered),
        )
      }
      await dataset.expectRows('what recover speaks of can be read')
    },
  },
  {
    id: 73,
    name: 'store-restart-keeps-committed',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(12)
      await dataset.delta(rowsOf(SIMPLE, 5, 10, context.random))
      await context.restart()
      await dataset.expectRows('what was committed outlives the store')
      await expectRefusal(
        {
          kind: 'FENCED',
          codes: ['stale_fence'],
          tried: 'after a restart, a write with a token below the one that was seen',
          where: 'store.write',
          why: 'the fence must outlive the store as the rows do',
        },
        async () => {
          const write = await dataset.prepare({ mode: 'full', upserts: [], commit: { fence: dataset.fence - 1n } })
          return context.store.write(dataset.target, write.changes, write.commit)
        },
      )
      await dataset.delta(rowsOf(SIMPLE, 40, 2, context.random))
      await dataset.expectRows('the next epoch follows the last one across a restart')
    },
  },
]

/** Changes rows, adds some, and by a delta deletes some. */
function nextWrite(context: CheckContext, dataset: Dataset, mode: 'full' | 'delta'): Promise<PreparedWrite> {
  const rows = [...dataset.content.values()]
  const upserts = [
    ...rows.slice(0, 4).map((row) => changed(SIMPLE, row, { name: 'after the crash' })),
    ...rowsOf(SIMPLE, 100, 6, context.random),
  ]
  return dataset.prepare({ mode, upserts, deletes: mode === 'delta' ? rows.slice(6, 9) : [] })
}

/** The fault points that a write passes, by trying one. */
async function pointsOfWrite(context: CheckContext, mode: 'full' | 'delta' = 'delta'): Promise<readonly string[]> {
  const dataset = await context.filled(12)
  const before = context.host.met.length
  await dataset.apply(await nextWrite(context, dataset, mode))
  const points = context.host.met.slice(before)
  await dataset.expectRows('the trial write must have been applied')
  expect(points.length > 0, () => ({
    what: 'a write passes no fault point',
    where: 'store.write',
    why: 'a crash that cannot be simulated cannot be proven harmless',
    remedy: 'Await host.faultPoint(name) between the steps of a write, at least before and after the commit.',
  }))
  return points
}

/** Ends the process in the write and begins a new one. */
async function crash(context: CheckContext, dataset: Dataset, write: PreparedWrite, index: number): Promise<void> {
  context.host.crashAt(index)
  await context.store.write(dataset.target, write.changes, write.commit).catch((error: unknown) => {
    if (!isSluiceError(error)) throw new CheckFailure(foreignError(error), error)
  })
  expect(context.host.crashed, () => ({
    what: `the write passed fewer than ${index + 1} fault points this time`,
    where: 'store.write',
    why: 'the same write must take the same steps',
    remedy: 'Let the fault points depend on the change set alone.',
  }))
  await context.reopen()
}

/** The epoch that reads show: wholly the old one or wholly the new one, unless keys switch one by one. */
async function shownAfter(dataset: Dataset, write: PreparedWrite, point: string): Promise<number> {
  const seen = await dataset.see()
  const old = differenceOf(SIMPLE, [...dataset.content.values()], seen)
  if (old === null) return dataset.epoch
  const next = differenceOf(SIMPLE, [...write.content.values()], seen)
  if (next === null) return write.commit.epoch
  throw new CheckFailure({
    what: `after the crash reads show neither epoch: to the old one ${describeDifference(old)}`,
    where: `crash at ${point}`,
    why: 'a write is visible wholly or not at all',
    remedy: 'Make all rows visible in one step, together with the epoch.',
  })
}

function foreignError(error: unknown) {
  return {
    what: `a write that failed threw something other than a SluiceError: ${String(error)}`,
    where: 'store.write',
    why: 'the runtime decides by kind alone what to do next',
    remedy: 'Wrap what the driver throws, with the original as cause.',
  }
}

function wrongRecovery(when: string, wanted: string, given: unknown) {
  const shown = JSON.stringify(given, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value))
  return {
    what: `recover gave ${shown} ${when}, instead of ${wanted}`,
    where: 'store.recover',
    why: 'the runtime continues from what recover says',
    remedy: 'Store epoch, fence and committedAt with the commit, and return them.',
  }
}
