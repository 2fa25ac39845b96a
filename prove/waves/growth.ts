/** How much of large products is read and written where few of their source's rows have changed. */
import { LARGE_TABLE } from './products.ts'
import { isWorkOn, type Jobs, lakeFiles, rowsIn, rowsStored, type Spent, spentBy, storeTransaction } from './watched.ts'
import type { World } from './world.ts'

/** In rows of all large products together. */
export interface Wave {
  /** To the texts of their authors. */
  readonly given: number
  /** Into the lake, lists of rows that are gone among them. */
  readonly written: number
  /** Into stores. */
  readonly stored: number
  readonly spent: Spent
}

const COUNTED = ['given', 'written', 'stored'] as const
/** Of a full wave’s rows, for each part of the source's rows that has changed: a hundredth costs a twentieth. */
const MOST = 5

export interface Step {
  readonly what: string
  /** Of the source's rows. */
  readonly changed: number
  readonly sql: string
}

export const steps = (rows: number): readonly Step[] => [
  { what: 'one row', changed: 1 / rows, sql: `UPDATE ${LARGE_TABLE} SET n = n + 1 WHERE id = 7` },
  { what: 'a thousandth', changed: 1 / 1_000, sql: `UPDATE ${LARGE_TABLE} SET n = n + 1 WHERE id % 1000 = 5` },
  { what: 'a hundredth', changed: 1 / 100, sql: `UPDATE ${LARGE_TABLE} SET n = n + 1 WHERE id % 100 = 3` },
]

export async function measuredWave(world: World, names: ReadonlySet<string>, jobs: Jobs): Promise<Wave> {
  await jobs.since()
  const known = new Set([...lakeFiles(world).values()].flat())
  const transaction = await storeTransaction(world)
  const spent = await spentBy(world, () => world.sync())
  const begun = (await jobs.since()).filter((job) => [...names].some((name) => isWorkOn(name, job)))
  const added = [...lakeFiles(world)].flatMap(([name, files]) => (names.has(name) ? files : []))
  return {
    given: await rowsIn(begun.flatMap(({ given }) => given)),
    written: await rowsIn(added.filter((file) => file.endsWith('.parquet') && !known.has(file))),
    stored: await rowsStored(world, names, transaction),
    spent,
  }
}

/** Of a full wave's. */
export function shares(few: Wave, full: Wave): Readonly<Record<(typeof COUNTED)[number], number>> {
  const share = (what: (typeof COUNTED)[number]) => Math.round((few[what] / full[what]) * 1_000_000) / 1_000_000
  return { given: share('given'), written: share('written'), stored: share('stored') }
}

export function tooMuch({ what, changed }: Step, few: Wave, full: Wave): readonly string[] {
  return COUNTED.filter((counted) => !(few[counted] > 0 && few[counted] <= MOST * changed * full[counted])).map(
    (counted) => `${what} has changed: ${few[counted]} rows were ${counted}, and ${full[counted]} in a full wave`,
  )
}
