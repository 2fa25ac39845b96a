/**
 * As `chaos.stack.test.ts`, of the servers that a fleet does without: Trino, which serves analytics and answers queries,
 * and Kafka, which events and changed rows are carried to. Without the first only queries are refused, without the second
 * nothing is; and in the end nothing is missing.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { CarriedEvents } from './carried-events.ts'
import { KINDS } from './judge.ts'
import { HARMS, LoadedFleet } from './loaded-fleet.ts'

/** It is a condition that is waited for; this is of a machine that is slow. */
const SHOWS_WITHIN_MS = 300_000

const STORES = KINDS.filter((kind) => kind !== 'query')

let loaded: LoadedFleet
let events: CarriedEvents

before(async () => {
  loaded = await LoadedFleet.start({
    hasEngines: true,
    // Trino alone takes as much of the machine as all that the other test has.
    pauseMs: 500,
    readers: ['vito', 'clara'],
    settings: {
      // Trino's first statements are its slowest: those that are ended half-way are begun anew, and never become fast.
      SLUICE_LIMITS__QUERY_TIMEOUT_MS: '20000',
      SLUICE_EVENTS__KAFKA__CHANGE_TOPICS: 'true',
      SLUICE_EVENTS__KAFKA__CLEARED_PRINCIPAL: 'User:{tenant}-cleared',
    },
  })
  events = new CarriedEvents(loaded)
})

after(() => loaded?.close())

describe('during load', { timeout: 2_800_000 }, () => {
  for (const harm of HARMS) {
    it(`Trino is ${harm}: queries are told so, all other reads go on`, async () => {
      const { load } = loaded
      const seen = await loaded.hurt('Trino', harm, {
        isEnough: (tally) => tally.refusedKinds.has('query') && load.hasGiven(STORES),
        withinMs: SHOWS_WITHIN_MS,
      })
      loaded.assertNothingWrong()
      assert.ok(seen.isEnough, `refused: ${[...seen.during.refused.keys()]}, answered: ${[...seen.during.whole]}`)
      for (const { refusedKinds } of [seen.during, seen.after]) {
        assert.deepEqual(
          STORES.filter((kind) => refusedKinds.has(kind)),
          [],
        )
      }
    })
  }

  for (const harm of HARMS) {
    it(`Kafka is ${harm}: reads and runs go on, and every event arrives`, async () => {
      const { load } = loaded
      const seen = await loaded.hurt('Kafka', harm, {
        isEnough: () => load.isWhole,
        withinMs: SHOWS_WITHIN_MS,
        untilWell: () => events.untilArrived(),
      })
      loaded.assertNothingWrong()
      assert.ok(seen.isEnough, `answered: ${[...seen.during.whole]}, synced: ${[...seen.during.synced]}`)
    })
  }

  it('lake and stores are equal to the source at the end, and so is what was carried', async () => {
    await loaded.assertEqualAtTheEnd(['succeeded'])
    await events.assertComplete()
    await events.assertChangesEqual()
  })

  it('every runtime ends: nothing is left open of what was away', async () => {
    for (const runtime of loaded.fleet.runtimes) await runtime.stop()
  })
})
