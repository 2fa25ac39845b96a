/** One writer at a time, each epoch once, in order. */
import { admitCommit, isSluiceError, type Receipt } from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal, vacuous } from '../check.ts'
import { differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'

export const fenceChecks: readonly Check[] = [
  {
    id: 65,
    name: 'zombie-old-fence-is-FENCED',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(8)
      const takeover = await dataset.prepare({
        mode: 'delta',
        upserts: rowsOf(SIMPLE, 30, 3, context.random),
        commit: { fence: 5n },
      })
      await dataset.apply(takeover)
      await dataset.expectRows('the new writer must have written before the old one can be refused')
      for (const mode of ['delta', 'full'] as const) {
        const zombie = await dataset.prepare({
          mode,
          upserts: rowsOf(SIMPLE, 60, 3, context.random),
          commit: { fence: 4n },
        })
        await expectFenced(context, dataset, zombie)
      }
      await dataset.expectRows('a refused writer leaves nothing')
    },
  },
  {
    id: 67,
    name: 'two-writers-same-epoch-one-wins',
    level: 'core',
    async run(context) {
      const second = context.knobs.opensTwice === false ? context.store : (await context.openAnother()).store
      for (const fences of [
        [1n, 1n],
        [1n, 2n],
      ] as const) {
        const dataset = await context.filled(8)
        const writes = await Promise.all(
          fences.map((fence, writer) =>
            dataset.prepare({
              mode: 'delta',
              upserts: rowsOf(SIMPLE, 100 * (writer + 1), 20, context.random),
              commit: { fence },
            }),
          ),
        )
        const stores = [context.store, second]
        const outcomes = await Promise.allSettled(
          writes.map(({ changes, commit }, writer) =>
            (stores[writer] ?? second).write(dataset.target, changes, commit),
          ),
        )
        await expectOneWinner(dataset, writes, outcomes)
      }
    },
  },
  {
    id: 162,
    name: 'tokens-and-epochs-are-judged-in-their-order',
    level: 'core',
    async run(context) {
      const { random, store } = context
      const dataset = await context.filled(4)
      const seen = { epoch: dataset.epoch, fence: dataset.fence }
      let highest = seen.fence
      const outcomes = new Set<string>()
      for (let trial = 0; trial < (context.level === 'core' ? 40 : 120); trial += 1) {
        const mode = random.pick(['full', 'delta'] as const)
        // Whether the token of a write counts whose epoch was refused is the store's own affair: none between them is tried.
        const fence = random.chance(0.3) ? seen.fence - 1n : highest + BigInt(random.pick([0, 0, 1]))
        const epoch = seen.epoch + random.pick([-1, 0, 0, 1, 2])
        const previousEpoch = mode === 'full' ? null : seen.epoch + random.pick([-1, 0, 0, 1])
        const upserts = rowsOf(SIMPLE, 50 + trial, 1, random)
        const commit = { fence, epoch: Math.max(1, epoch), previousEpoch }
        const write = await dataset.prepare({ mode, upserts, commit })
        const told = judged(() => admitCommit(seen, write.commit)?.outcome ?? 'applied')
        const given = await store
          .write(dataset.target, write.changes, write.commit)
          .then(({ outcome }) => outcome, codeOf)
        outcomes.add(told)
        expect(given === told, () => ({
          what: `a write of epoch ${commit.epoch} from ${previousEpoch ?? 'scratch'} with token ${fence} was answered by ${given}`,
          expected: told,
          came: given,
          where: `store.write, mode ${mode}, where epoch ${seen.epoch} is applied and token ${seen.fence} was seen`,
          why: 'the token comes first: who was taken over must learn it, whatever epoch it writes',
          remedy: 'Ask admitCommit of the SDK with what is stored, and nothing before it.',
        }))
        if (fence > highest) highest = fence
        if (told === 'applied' || told === 'already_applied') seen.fence = fence
        if (told !== 'applied') continue
        seen.epoch = commit.epoch
        dataset.taken(write)
      }
      await dataset.expectRows('only what was applied is there')
      expect(outcomes.size >= 4, () => vacuous(`the writes had the outcomes ${[...outcomes].join(', ')} alone`))
    },
  },
  {
    id: 69,
    name: 'older-epoch-refused',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(8)
      await dataset.delta(rowsOf(SIMPLE, 20, 2, context.random))
      await dataset.delta(rowsOf(SIMPLE, 25, 2, context.random))
      await dataset.expectRows('the epochs must be there before an older one can be refused')
      const upserts = rowsOf(SIMPLE, 60, 2, context.random)
      const older = await dataset.prepare({ mode: 'full', upserts, commit: { epoch: 2 } })
      await expectConflict(context, dataset, older, 'older_epoch')
      const gap = await dataset.prepare({ mode: 'delta', upserts, commit: { epoch: 7, previousEpoch: 6 } })
      await expectConflict(context, dataset, gap, 'epoch_gap')
      const behind = await dataset.prepare({ mode: 'delta', upserts, commit: { epoch: 4, previousEpoch: 2 } })
      await expectConflict(context, dataset, behind, 'epoch_gap')
      await dataset.expectRows('a refused epoch leaves nothing')
      const ahead = await dataset.prepare({ mode: 'full', upserts, commit: { epoch: 9 } })
      await dataset.apply(ahead)
      await dataset.expectRows('a full set may come with any later epoch')
    },
  },
]

function judged(run: () => string): string {
  try {
    return run()
  } catch (error) {
    return codeOf(error)
  }
}

function codeOf(error: unknown): string {
  if (isSluiceError(error)) return error.code
  throw error
}

async function expectFenced({ store }: CheckContext, dataset: Dataset, zombie: PreparedWrite): Promise<void> {
  await expectRefusal(
    {
      kind: 'FENCED',
      codes: ['stale_fence'],
      tried: `a ${zombie.changes.mode} write with a token below the one that was seen`,
      where: 'store.write',
      why: 'a worker that was taken for dead may come back, and must not undo its successor',
    },
    () => store.write(dataset.target, zombie.changes, zombie.commit),
  )
}

async function expectConflict(
  { store }: CheckContext,
  dataset: Dataset,
  { changes, commit }: PreparedWrite,
  code: string,
): Promise<void> {
  await expectRefusal(
    {
      kind: 'CONFLICT',
      codes: [code],
      tried: `epoch ${commit.epoch} from ${commit.previousEpoch ?? 'scratch'} on a store that has epoch ${dataset.epoch}`,
      where: 'store.write',
      why: 'an epoch applied out of order leaves rows that no epoch has',
    },
    () => store.write(dataset.target, changes, commit),
  )
}

/** One applied; the other was refused or found it done; and the rows are the winner's alone. */
async function expectOneWinner(
  dataset: Dataset,
  writes: readonly PreparedWrite[],
  outcomes: readonly PromiseSettledResult<Receipt>[],
): Promise<void> {
  const winners = outcomes.flatMap((outcome, writer) =>
    outcome.status === 'fulfilled' && outcome.value.outcome === 'applied' ? [writer] : [],
  )
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected' && !isSluiceError(outcome.reason)) throw noSluiceError(outcome.reason)
  }
  const winner = writes[winners[0] ?? -1]
  expect(winners.length === 1 && winner !== undefined, () => ({
    what: `of two writers of one epoch ${winners.length} applied it`,
    where: 'store.write, twice at once',
    why: 'an epoch is applied once',
    remedy: 'Take a lock on the dataset, or compare and set the epoch in the commit itself.',
  }))
  const difference = differenceOf(SIMPLE, [...winner.content.values()], await dataset.see())
  expect(difference === null, () => ({
    what: `the rows are not those of the writer that won: ${JSON.stringify(difference).slice(0, 200)}`,
    where: 'read after two writes at once',
    why: 'the loser must leave nothing',
    remedy: 'Check fence and epoch in the transaction that makes the rows visible.',
  }))
}

function noSluiceError(error: unknown): CheckFailure {
  return new CheckFailure(
    {
      what: `the writer that lost threw something other than a SluiceError: ${String(error)}`,
      where: 'store.write, twice at once',
      why: 'the runtime decides by kind alone what to do next',
      remedy: 'Map serialization failures and lock time-outs to CONFLICT, FENCED or TRANSIENT.',
    },
    error,
  )
}
