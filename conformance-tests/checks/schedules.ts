/** Random sequences of writes, crashes, repeats and zombies: whatever happens, the store holds one whole epoch. */
import { isSluiceError } from '@sluice/sdk'
import { type Check, CheckFailure, expect } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { Random } from '../random.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

const SCHEDULES = { core: 8, full: 100, hard: 5000 } as const
const STEPS = 6

export const scheduleChecks: readonly Check[] = [
  {
    id: 72,
    name: 'random-fault-schedules-hold-invariants',
    level: 'core',
    async run(context) {
      let crashes = 0
      for (let schedule = 0; schedule < SCHEDULES[context.level]; schedule += 1) {
        crashes += await runSchedule(context, schedule, new Random(context.random.integer(0, 2 ** 31)))
      }
      expect(crashes > 0, () => ({
        what: 'no schedule crashed anything',
        where: 'the check’s own precondition',
        why: 'nothing would be proven',
        remedy: 'Await host.faultPoint between the steps of a write.',
      }))
    },
  },
]

/** How many crashes there were. */
async function runSchedule(context: CheckContext, schedule: number, random: Random): Promise<number> {
  const dataset = await context.dataset(SIMPLE, { product: `schedule${schedule % 20}`, tenant: `s${schedule}` })
  await dataset.full(rowsOf(SIMPLE, 1, 6, random))
  const story: string[] = []
  let crashes = 0
  for (let step = 0; step < STEPS; step += 1) {
    const write = await randomWrite(dataset, random)
    const act = random.pick(['write', 'crash', 'crash', 'repeat', 'zombie', 'takeover'] as const)
    story.push(`${act} ${write.changes.mode}`)
    if (act === 'zombie') await expectNoEffect(context, dataset, write, 0n, story)
    else if (act === 'crash') crashes += await crashed(context, dataset, write, random, story)
    else
      await written(dataset, act === 'takeover' ? withFence(write, dataset.fence + 1n) : write, act === 'repeat', story)
    await expectWhole(dataset, story)
  }
  await context.store.dropTenant(dataset.target.scope)
  return crashes
}

function randomWrite(dataset: Dataset, random: Random): Promise<PreparedWrite> {
  const rows = random.shuffled([...dataset.content.values()])
  const mode = random.pick(['delta', 'delta', 'full'] as const)
  const renamed = rows
    .slice(0, random.integer(0, 3))
    .map((row) => changed(SIMPLE, row, { name: `n${random.integer(0, 99)}` }))
  const upserts = [...renamed, ...rowsOf(SIMPLE, random.integer(100, 900), random.integer(0, 4), random)]
  const deletes = mode === 'delta' ? rows.slice(4, 4 + random.integer(0, 2)) : []
  return dataset.prepare({ mode, upserts, deletes })
}

function withFence(write: PreparedWrite, fence: bigint): PreparedWrite {
  return { ...write, commit: { ...write.commit, fence } }
}

async function written(
  dataset: Dataset,
  write: PreparedWrite,
  twice: boolean,
  story: readonly string[],
): Promise<void> {
  const first = await dataset.apply(write)
  const second = twice ? await dataset.apply(write) : null
  const isRight = first.outcome === 'applied' && (second === null || second.outcome === 'already_applied')
  expect(isRight, () => ({
    ...broken(story),
    what: `a write was ${first.outcome}, its repeat ${second?.outcome ?? 'not made'}`,
  }))
}

async function expectNoEffect(
  { store }: CheckContext,
  dataset: Dataset,
  write: PreparedWrite,
  fence: bigint,
  story: readonly string[],
): Promise<void> {
  const { changes, commit } = withFence(write, fence)
  const outcome = await store.write(dataset.target, changes, commit).catch((error: unknown) => error)
  expect(isSluiceError(outcome, 'FENCED'), () => ({
    ...broken(story),
    what: 'a writer with an old token was not FENCED',
  }))
}

/** Ends the process at a random point of the write; then perhaps repeats the write. */
async function crashed(
  context: CheckContext,
  dataset: Dataset,
  write: PreparedWrite,
  random: Random,
  story: string[],
): Promise<number> {
  context.host.crashAt(random.integer(0, 5))
  const outcome = await context.store
    .write(dataset.target, write.changes, write.commit)
    .catch((error: unknown) => error)
  const hasCrashed = context.host.crashed
  if (!hasCrashed && isSluiceError(outcome))
    throw new CheckFailure({ ...broken(story), what: `a write was refused: ${outcome.code}` }, outcome)
  await context.reopen()
  const isApplied = differenceOf(SIMPLE, [...write.content.values()], await dataset.see()) === null
  const isUnchanged = differenceOf(SIMPLE, [...write.content.values()], [...dataset.content.values()]) === null
  if (isUnchanged || random.chance(0.6)) {
    await dataset.apply(write)
    story.push('repeat')
  } else if (isApplied) dataset.taken(write)
  return hasCrashed ? 1 : 0
}

async function expectWhole(dataset: Dataset, story: readonly string[]): Promise<void> {
  const difference = differenceOf(SIMPLE, [...dataset.content.values()], await dataset.see())
  if (difference === null) return
  throw new CheckFailure({ ...broken(story), what: `the rows are of no epoch: ${describeDifference(difference)}` })
}

function broken(story: readonly string[]) {
  return {
    where: `the schedule: ${story.join(', ')}`,
    why: 'after any crash, at any point, the next run ends in the state of an undisturbed one',
    remedy: 'Run the same seed again with --only 72, and look at what the last step left behind.',
  }
}
