/** What a commit writes to a table that is made as changes come: the first of them against the last. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type CommitFigures, ManyCommits } from '../runtime/src/materializer/many-commits.fixture.ts'
import { CONTINUOUS_LADDER, MOST_SNAPSHOTS } from '../runtime/src/materializer/snapshot-ladder.ts'
import type { Figures, Outcome, Proof, Request } from './proof.ts'
import { RUNTIME_SOURCES } from './runtime-sources.ts'

const COMMITS = 100_000
/** One a second: what upkeep does of itself every six hours. */
const CLEANED_EVERY = 21_600
const WINDOW = 100
const MOST_GROWTH = 1.2
const SAID_EVERY = 1_000

function meanOf(figures: readonly CommitFigures[], of: keyof CommitFigures): number {
  return Math.round(figures.reduce((sum, one) => sum + one[of], 0) / figures.length)
}

const windowOf = (figures: readonly CommitFigures[]): Figures => ({
  bytes: meanOf(figures, 'bytes'),
  metadataBytes: meanOf(figures, 'metadataBytes'),
  snapshots: meanOf(figures, 'snapshots'),
})

/** Metadata for each snapshot that the ladder keeps: what there is of the history, and not how long it was. */
const bytesEach = (figures: readonly CommitFigures[]): number =>
  Math.round(meanOf(figures, 'metadataBytes') / meanOf(figures, 'snapshots'))

async function run({ args, signal, say }: Request): Promise<Outcome> {
  const { values } = parseArgs({ args: [...args], options: { commits: { type: 'string', default: String(COMMITS) } } })
  const count = Number(values.commits)
  if (!Number.isSafeInteger(count) || count < 10 * WINDOW)
    throw new Error(`--commits is a number, at least ${10 * WINDOW}`)
  const dir = await mkdtemp(join(tmpdir(), 'sluice-ladder-'))
  try {
    const table = await ManyCommits.begin(dir, CONTINUOUS_LADDER)
    const all: CommitFigures[] = []
    for (let made = 1; made <= count; made += 1) {
      signal.throwIfAborted()
      all.push(await table.commit())
      if (made % CLEANED_EVERY === 0) say(`${made} commits, ${(await table.clean()).removedFiles} files cleaned away`)
      if (made % SAID_EVERY === 0) say(`${made} commits: ${JSON.stringify(windowOf(all.slice(-WINDOW)))}`)
    }
    // The minute in full is there by the second window; what comes later is the ladder, and is bounded by its steps.
    const [first, last] = [all.slice(WINDOW, 2 * WINDOW), all.slice(-WINDOW)]
    const mostSnapshots = all.reduce((most, { snapshots }) => Math.max(most, snapshots), 0)
    const growth = bytesEach(last) / bytesEach(first)
    const unreadable = await table.unreadable()
    const figures = {
      commits: count,
      first: windowOf(all.slice(0, WINDOW)),
      afterAMinute: windowOf(first),
      middle: windowOf(all.slice(Math.floor(count / 2), Math.floor(count / 2) + WINDOW)),
      last: windowOf(last),
      metadataBytesForEachSnapshot: { afterAMinute: bytesEach(first), last: bytesEach(last), growth },
      mostSnapshots,
      unreadableSnapshots: unreadable.length,
      ...(await table.files()),
    }
    const holds = growth <= MOST_GROWTH && mostSnapshots <= MOST_SNAPSHOTS && unreadable.length === 0
    return { holds, figures }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

export const snapshotLadder: Proof = {
  name: 'snapshot-ladder',
  proves:
    'A table with a commit a second keeps as many snapshots as its ladder has steps for, and a commit writes as much for each at the end as at the beginning.',
  costs: 'about an hour for 100,000 commits',
  options: [`--commits N   so many, one a second by the table's clock (${COMMITS})`],
  of: [...RUNTIME_SOURCES, 'prove/snapshot-ladder.ts'],
  run,
}
