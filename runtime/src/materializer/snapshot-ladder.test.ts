import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { SnapshotLadder } from '../manifest/manifest-set.ts'
import { CONTINUOUS_LADDER, keptByLadder, MOST_SNAPSHOTS } from './snapshot-ladder.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

interface Commit {
  readonly id: number
  readonly committedAtMs: number
}

/** Spans that are made up of those before them, with ages that grow. */
const LADDER: fc.Arbitrary<SnapshotLadder> = fc
  .record({
    first: fc.option(fc.integer({ min: 1, max: 90 })),
    steps: fc.array(
      fc.record({ factor: fc.integer({ min: 1, max: 6 }), longer: fc.integer({ min: 1, max: 3 * HOUR }) }),
      { minLength: 1, maxLength: 5 },
    ),
    isOpen: fc.boolean(),
  })
  .map(({ first, steps, isOpen }) => {
    let [everyMs, forMs] = [first === null ? null : first * SECOND, 0]
    return steps.map(({ factor, longer }, at) => {
      forMs += longer
      if (at > 0) everyMs = everyMs === null ? factor * SECOND : everyMs * factor
      return { everyMs, forMs: isOpen && at === steps.length - 1 ? null : forMs }
    })
  })

/** Bursts, silences, and several at one moment. */
const COMMITS: fc.Arbitrary<readonly Commit[]> = fc
  .tuple(
    fc.integer({ min: 0, max: 10 * DAY }),
    fc.array(fc.oneof(fc.constantFrom(0, 1, SECOND), fc.integer({ min: 0, max: 2 * HOUR })), {
      minLength: 1,
      maxLength: 120,
    }),
  )
  .map(([from, gaps]) => {
    let atMs = from
    return gaps.map((gap, id) => {
      atMs += gap
      return { id, committedAtMs: atMs }
    })
  })

/** The words of the manual, read literally: put every snapshot in the drawers of all steps, and keep who lies on top of its own. */
function byDrawers(ladder: SnapshotLadder, commits: readonly Commit[], nowMs: number): Set<number> {
  const tops = ladder.map(({ everyMs }) => {
    const drawers = new Map<number, number>()
    for (const { id, committedAtMs } of commits) {
      const drawer = everyMs === null ? id : (committedAtMs - (committedAtMs % everyMs)) / everyMs
      drawers.set(drawer, Math.max(id, drawers.get(drawer) ?? -1))
    }
    return new Set(drawers.values())
  })
  const kept = new Set([commits.length - 1])
  for (const { id, committedAtMs } of commits) {
    let place = 0
    while (place < ladder.length && nowMs - committedAtMs > (ladder[place]?.forMs ?? Number.POSITIVE_INFINITY))
      place += 1
    if (tops[place]?.has(id)) kept.add(id)
  }
  return kept
}

const ids = (commits: readonly Commit[]) => commits.map(({ id }) => id)
const endOf = (commits: readonly Commit[], laterMs: number) => (commits.at(-1) as Commit).committedAtMs + laterMs
const LATER = fc.integer({ min: 0, max: 2 * DAY })

test('each step keeps the newest of each of its spans, and nothing else', () => {
  fc.assert(
    fc.property(LADDER, COMMITS, LATER, (ladder, commits, later) => {
      const nowMs = endOf(commits, later)
      const wanted = [...byDrawers(ladder, commits, nowMs)].sort((a, b) => a - b)
      assert.deepEqual(ids(keptByLadder(ladder, commits, nowMs)), wanted)
    }),
    { numRuns: 400 },
  )
})

test('done at any times meanwhile, with some held for a while, it comes to no fewer, and without those to the same', () => {
  const held = fc.array(fc.integer({ min: 0, max: 119 }), { maxLength: 10 })
  fc.assert(
    fc.property(
      LADDER,
      COMMITS,
      LATER,
      fc.infiniteStream(fc.boolean()),
      held,
      (ladder, commits, later, turns, claims) => {
        const nowMs = endOf(commits, later)
        let [alone, withClaims]: [readonly Commit[], readonly Commit[]] = [[], []]
        for (const commit of commits) {
          alone = [...alone, commit]
          withClaims = [...withClaims, commit]
          if (!turns.next().value) continue
          alone = keptByLadder(ladder, alone, commit.committedAtMs)
          const kept = new Set(keptByLadder(ladder, withClaims, commit.committedAtMs))
          withClaims = withClaims.filter((one) => kept.has(one) || claims.includes(one.id))
        }
        const once = ids(keptByLadder(ladder, commits, nowMs))
        assert.deepEqual(ids(keptByLadder(ladder, alone, nowMs)), once)
        assert.deepEqual(ids(keptByLadder(ladder, keptByLadder(ladder, alone, nowMs), nowMs)), once, 'and again')
        const kept = new Set(ids(withClaims))
        assert.ok(once.every((id) => kept.has(id)))
        assert.ok(claims.every((id) => id >= commits.length || kept.has(id)))
      },
    ),
    { numRuns: 400 },
  )
})

test('what has gone does not come back as time passes or commits come, and the newest is always there', () => {
  fc.assert(
    fc.property(LADDER, COMMITS, LATER, LATER, fc.nat(), (ladder, commits, sooner, later, cut) => {
      const some = commits.slice(0, 1 + (cut % commits.length))
      const before = ids(keptByLadder(ladder, some, endOf(some, 0)))
      const nowMs = endOf(commits, sooner)
      const after = ids(keptByLadder(ladder, commits, nowMs))
      const atLast = ids(keptByLadder(ladder, commits, nowMs + later))
      assert.ok(after.every((id) => id >= some.length || before.includes(id)))
      assert.ok(atLast.every((id) => after.includes(id)))
      assert.equal(atLast.at(-1), commits.length - 1)
    }),
    { numRuns: 400 },
  )
})

test('never more than so many: first the last step thins out, by spans of twice the length', () => {
  const most = fc.integer({ min: 1, max: 40 })
  fc.assert(
    fc.property(LADDER, COMMITS, LATER, most, (ladder, commits, later, limit) => {
      const nowMs = endOf(commits, later)
      const kept = ids(keptByLadder(ladder, commits, nowMs, limit))
      assert.ok(kept.length <= limit && kept.at(-1) === commits.length - 1)
      const last = ladder.at(-1)
      const widths = Array.from({ length: 40 }, (_, at) => Math.max(last?.everyMs ?? SECOND, SECOND) * 2 ** at)
      const wider = widths.slice(1).map((everyMs) => [...ladder.slice(0, -1), { forMs: last?.forMs ?? null, everyMs }])
      const fitting = [ladder, ...wider].map((one) => byDrawers(one, commits, nowMs)).find(({ size }) => size <= limit)
      if (fitting !== undefined)
        assert.deepEqual(
          kept,
          [...fitting].sort((a, b) => a - b),
        )
    }),
    { numRuns: 400 },
  )
})

test('a commit a second, for five years: some hundreds of snapshots, more of the last minute than of the last year', () => {
  const endMs = 5 * 365 * DAY
  // Of the years one a quarter of an hour, as much as a ladder that was applied each second would have left of them.
  const quarters = Array.from({ length: endMs / (15 * MINUTE) }, (_, at) => (at + 1) * 15 * MINUTE - 1)
  let commits: readonly Commit[] = quarters.map((atMs) => ({ id: atMs, committedAtMs: atMs }))
  let most = 0
  for (let atMs = endMs; atMs <= endMs + 2 * HOUR; atMs += SECOND) {
    commits = keptByLadder(CONTINUOUS_LADDER, [...commits, { id: atMs, committedAtMs: atMs }], atMs)
    most = Math.max(most, commits.length)
  }
  const nowMs = endMs + 2 * HOUR
  const younger = (ageMs: number) => commits.filter(({ committedAtMs }) => nowMs - committedAtMs <= ageMs).length
  assert.deepEqual([younger(MINUTE), younger(HOUR), younger(DAY)], [61, 120, 212])
  assert.ok(most <= MOST_SNAPSHOTS && commits.length > 250, `${most}, ${commits.length}`)
})
