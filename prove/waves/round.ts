/** One change of the source, the wave that follows it, and whether that was what it had to be. */
import type { Random } from '../../conformance-tests/random.ts'
import { type Change, differences, momentsOf } from './oracle.ts'
import { type Made, madeOf } from './products.ts'
import { type Judged, judge, type Reads, readTogether, rowsInLake } from './reads.ts'
import { type Held, heldBy, isWorkOn, type Jobs, rowsInStore, type Spent, spentBy } from './watched.ts'
import type { Kill, World } from './world.ts'

export interface Plan {
  readonly changes: readonly Change[]
  readonly kills: readonly Kill[]
}

export interface Found {
  readonly wrong: readonly string[]
  readonly followers: number
  readonly reads: Reads
  readonly judged: Judged
  readonly spent: Spent
  readonly tookMs: number
}

export async function playRound(
  world: World,
  made: readonly Made[],
  { changes, kills }: Plan,
  jobs: Jobs,
  random: Random,
): Promise<Found> {
  const followers = madeOf(
    changes.map(({ table }) => table),
    made,
  )
  const moments = await momentsOf(world.source, [...followers], changes)
  const before = await heldBy(world)
  for (const { sql } of changes) await world.source.sql(sql)
  await jobs.since()
  let isOver = false
  let reads: Reads = { consistent: [], plain: [], refused: 0 }
  const startedMs = performance.now()
  const spent = await spentBy(world, async () => {
    const reading = readTogether(world, [...followers], random, () => isOver)
    const waving = world.sync(kills).finally(() => {
      isOver = true
    })
    reads = (await Promise.all([reading, waving]))[0]
  })
  const tookMs = performance.now() - startedMs
  const begun = await jobs.since()
  const after = await heldBy(world)
  const judged = judge(reads, moments)
  const wrong = [...judged.wrong, ...(await wrongRows(world, followers))]
  const [none, all] = [moments[0], moments.at(-1)]
  for (const { name } of made) {
    const [was, is] = [before.get(name), after.get(name)]
    if (was === undefined || is === undefined) throw new Error(`${name} is not registered`)
    if (!followers.has(name)) {
      wrong.push(...workOn(name, was, is))
      // What readers ask of it is no work on it: they ask for those that are reached alone.
      if (begun.some((job) => isWorkOn(name, job))) wrong.push(`the engine worked on ${name}, which nothing reached`)
      continue
    }
    const more = is.epoch - was.epoch
    // A change may say what was there already, and a row that is told anew as it was makes no commit of its table.
    const least = kills.length === 0 || none?.get(name) !== all?.get(name) ? 1 : 0
    if (more > 1 || more < least) wrong.push(`${name} has ${more} epochs more`)
    if (is.behind > 0) wrong.push(`${name} has a store that is behind`)
    const isSeen = kills.length > 0 || begun.some((job) => isWorkOn(name, job))
    if (!isSeen) wrong.push(`no job was seen that made ${name}`)
  }
  return { wrong, followers: followers.size, reads, judged, spent, tookMs }
}

/** Each row of these products, in the lake and in the store, against the views. */
export async function wrongRows(world: World, names: ReadonlySet<string>): Promise<readonly string[]> {
  const lake = await rowsInLake(world, names)
  return [
    ...lake.wrong,
    ...(await differences(world.source, 'the lake', lake.rows)),
    ...(await differences(world.source, 'its store', await rowsInStore(world, names))),
  ]
}

/** Of a product that nothing reached: all that was done about it. */
function workOn(name: string, was: Held, is: Held): readonly string[] {
  const facts = ['registered', 'stored', 'files'] as const
  return facts
    .filter((fact) => is[fact] !== was[fact])
    .map((fact) => `${name}, which nothing reached, has other ${fact}`)
}
