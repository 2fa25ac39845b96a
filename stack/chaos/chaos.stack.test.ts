/**
 * Each server that a fleet cannot do without killed, stopped for a while and cut off in turn, while several people of two
 * tenants read and their sources change. What is missing is said, nothing wrong is, and all is well again when the server
 * is back.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { HARMS, type Hurt, LoadedFleet } from './loaded-fleet.ts'

/** What is hurt is left so until it shows, and this long where it does not. */
const UNTIL_IT_SHOWS: Hurt = { isEnough: (tally, ms) => tally.refused.size > 0 && ms > 2500, withinMs: 6000 }
/** Longer than a lease: the work of a runtime that is not there goes to another. */
const RUNTIME_HURT_MS = 5000

let loaded: LoadedFleet

before(async () => {
  loaded = await LoadedFleet.start({
    settings: {
      SLUICE_LIMITS__QUERY_TIMEOUT_MS: '30000',
      SLUICE_OBJECT_STORE__DEADLINE_MS: '10000',
      SLUICE_OBJECT_STORE__ATTEMPT_MS: '3000',
    },
  })
})

after(() => loaded?.close())

describe('during load', { timeout: 2_800_000 }, () => {
  for (const name of ['PostgreSQL', 'Redis', 'S3']) {
    for (const harm of HARMS) {
      it(`${name} is ${harm} and comes back`, async () => {
        await loaded.hurt(name, harm, UNTIL_IT_SHOWS)
        loaded.assertNothingWrong()
      })
    }
  }

  for (const harm of HARMS) {
    it(`one runtime is ${harm} and comes back`, async () => {
      const { load, ways } = loaded
      const [, runtime] = loaded.fleet.runtimes
      assert.ok(runtime)
      const way = ways.get(runtime.name)
      load.take()
      load.mayLose = true
      if (harm === 'killed') await runtime.stop('SIGKILL')
      else if (harm === 'paused') runtime.signal('SIGSTOP')
      else way?.cut()
      await sleep(RUNTIME_HURT_MS)
      if (harm === 'killed') await runtime.start()
      else if (harm === 'paused') runtime.signal('SIGCONT')
      else way?.heal()
      const during = load.tally
      const whole = await loaded.untilWhole(`after a runtime was ${harm}`)
      load.mayLose = false
      loaded.report('runtime', harm, [during, whole], 0)
      loaded.assertNothingWrong()
    })
  }

  it('lake and stores are equal to the source at the end', async () => {
    await loaded.assertEqualAtTheEnd(['succeeded', 'failed'])
  })
})
