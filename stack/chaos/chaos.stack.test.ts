/**
 * Each server killed, stopped for a while and cut off in turn, while several people of two tenants read and their sources
 * change. What is missing is said, nothing wrong is, and all is well again when the server is back.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Fleet } from '../several/fleet.ts'
import { assertAllEqual } from './equality.ts'
import { Load, type Tally } from './load.ts'
import { TcpProxy } from './proxy.ts'
import { type OwnServers, startOwnServers, type Victim } from './servers.ts'
import { createSource, onboard, type Tenant } from './world.ts'

/** What is hurt is left so until it shows, and this long where it does not. */
const SHOWS_WITHIN_MS = 6000
const HURT_AT_LEAST_MS = 2500
/** Longer than a lease: the work of a runtime that is not there goes to another. */
const RUNTIME_HURT_MS = 5000
/** Of two whole runs of every tenant, on a machine that is slow. */
const RECOVERS_WITHIN_MS = 240_000

let folder: string
let servers: OwnServers
let fleet: Fleet
let source: pg.Client
let tenants: readonly Tenant[]
let load: Load
const ways = new Map<string, TcpProxy>()

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-chaos-'))
  servers = await startOwnServers(join(folder, 'servers'))
  fleet = await Fleet.start(folder, servers.addresses, 2, {
    settings: {
      SLUICE_LIMITS__QUERY_TIMEOUT_MS: '30000',
      SLUICE_OBJECT_STORE__DEADLINE_MS: '10000',
      SLUICE_OBJECT_STORE__ATTEMPT_MS: '3000',
    },
    async reachedBy(name, port) {
      const way = ways.get(name) ?? (await TcpProxy.listen(port))
      way.target = port
      ways.set(name, way)
      return way.port
    },
  })
  source = new pg.Client({ connectionString: fleet.source })
  await source.connect()
  await createSource(source)
  tenants = await onboard(fleet)
  load = new Load(fleet.front.url, source, tenants)
  for (const { developer } of tenants) {
    const { body } = await developer.post('/api/v1/connections/db/sync')
    assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
  }
  load.start()
  await untilWhole('at first')
})

after(async () => {
  await load?.stop()
  await source?.end()
  await fleet?.close()
  for (const way of ways.values()) await way.close()
  await servers?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Until everybody was given everything and every source was taken in, all of it from now on. */
async function untilWhole(when: string): Promise<Tally> {
  load.take()
  const startedMs = performance.now()
  while (!load.isWhole) {
    if (performance.now() - startedMs > RECOVERS_WITHIN_MS) {
      const { whole, synced, refused } = load.tally
      const runs = await Promise.all(
        load.runs.slice(-4).map(({ tenant, id }) => tenant.developer.get(`/api/v1/ingestion/${id}`)),
      )
      const story = {
        whole: [...whole],
        synced: [...synced],
        refused: [...refused],
        runs: runs.map(({ body }) => body),
      }
      assert.fail(`not whole again ${when}: ${JSON.stringify(story, null, 1)}`)
    }
    await sleep(100)
  }
  return load.take()
}

/** What a machine says that has not the cores for all who ask; it is of no server. */
const BUSY = /engine was busy|waiting for the engine/
/** Names of what may be said to be missing. */
const SAID: Readonly<Record<string, RegExp>> = {
  PostgreSQL: /database|PostgreSQL|lookup|timeseries|catalog|limit/i,
  Redis: /realtime|Redis/i,
  S3: /object store|S3|lake/i,
}

async function hurt(victim: Victim, how: 'killed' | 'paused' | 'cut off'): Promise<void> {
  load.take()
  const startedMs = performance.now()
  if (how === 'killed') await victim.kill()
  else if (how === 'paused') victim.pause()
  else victim.cut()
  while (performance.now() - startedMs < SHOWS_WITHIN_MS) {
    if (load.tally.refused.size > 0 && performance.now() - startedMs > HURT_AT_LEAST_MS) break
    await sleep(50)
  }
  if (how === 'killed') await victim.restart()
  else if (how === 'paused') victim.resume()
  else victim.heal()
  const healedMs = performance.now()
  const during = load.tally
  const whole = await untilWhole(`after ${victim.name} was ${how}`)
  const recoveredMs = performance.now() - healedMs
  report(`${victim.name} ${how}`, [during, whole], recoveredMs)
}

function report(what: string, tallies: readonly Tally[], recoveredMs: number): void {
  const refused = new Map<string, number>()
  for (const tally of tallies)
    for (const [said, count] of tally.refused) refused.set(said, (refused.get(said) ?? 0) + count)
  const answered = tallies.reduce((sum, tally) => sum + tally.answered, 0)
  const slowestMs = Math.round(Math.max(...tallies.map((tally) => tally.slowestMs)))
  console.log(`${what}: ${answered} answered, slowest ${slowestMs} ms, whole ${Math.round(recoveredMs)} ms after`)
  for (const [said, count] of refused) console.log(`    ${count} × ${said}`)
  const named = SAID[what.split(' ')[0] ?? '']
  for (const said of refused.keys())
    if (named !== undefined && !named.test(said) && !BUSY.test(said))
      load.wrong.push(`${what} is not what this names: ${said}`)
}

function assertNothingWrong(): void {
  const wrong = load.wrong.splice(0)
  assert.deepEqual([...new Set(wrong)].slice(0, 20), [], `${wrong.length} answers were wrong`)
}

describe('during load', { timeout: 1_400_000 }, () => {
  for (const name of ['PostgreSQL', 'Redis', 'S3']) {
    for (const how of ['killed', 'paused', 'cut off'] as const) {
      it(`${name} is ${how} and comes back`, async () => {
        await hurt(servers.victims.find((victim) => victim.name === name) as Victim, how)
        assertNothingWrong()
      })
    }
  }

  for (const how of ['killed', 'paused', 'cut off'] as const) {
    it(`one runtime is ${how} and comes back`, async () => {
      const [, runtime] = fleet.runtimes
      assert.ok(runtime)
      const way = ways.get(runtime.name)
      load.take()
      load.mayLose = true
      if (how === 'killed') await runtime.stop('SIGKILL')
      else if (how === 'paused') runtime.signal('SIGSTOP')
      else way?.cut()
      await sleep(RUNTIME_HURT_MS)
      if (how === 'killed') await runtime.start()
      else if (how === 'paused') runtime.signal('SIGCONT')
      else way?.heal()
      const during = load.tally
      const whole = await untilWhole(`after a runtime was ${how}`)
      load.mayLose = false
      report(`runtime ${how}`, [during, whole], 0)
      assertNothingWrong()
    })
  }

  it('lake and stores are equal to the source at the end', async () => {
    await load.stop()
    assertNothingWrong()
    for (const { tenant, id } of load.runs) {
      const { state, error } = await tenant.developer.untilEnded(id)
      assert.ok(['succeeded', 'failed'].includes(state), `run ${id}: ${state} ${JSON.stringify(error)}`)
    }
    await assertAllEqual(fleet.front.url, source, tenants)
  })
})
