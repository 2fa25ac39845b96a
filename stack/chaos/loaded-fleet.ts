/** Two runtimes under load, whose servers are hurt in turn, and what everybody was told meanwhile. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Fleet } from '../several/fleet.ts'
import { assertAllEqual } from './equality.ts'
import { Load, type Tally } from './load.ts'
import { TcpProxy } from './proxy.ts'
import { type OwnServers, startOwnServers } from './servers.ts'
import { createSource, EVERYBODY, type Name, onboard, type Tenant } from './world.ts'

export const HARMS = ['killed', 'paused', 'cut off'] as const
export type Harm = (typeof HARMS)[number]

/** It is a condition that is waited for; this is of a machine that is slow and has other servers to feed meanwhile. */
const RECOVERS_WITHIN_MS = 600_000

/** What a machine says that has not the cores for all who ask; it is of no server. */
const BUSY = /engine was busy|waiting for the engine|query took longer/
/** Names of what may be said to be missing. Of events nobody waits for Kafka. */
const SAID: Readonly<Record<string, RegExp>> = {
  PostgreSQL: /database|PostgreSQL|lookup|timeseries|catalog|limit/i,
  Redis: /realtime|Redis/i,
  S3: /object store|S3|lake/i,
  Trino: /analytics|Trino/i,
  Kafka: /(?!)/,
}

export interface LoadedFleetOptions {
  /** More `SLUICE_…` variables for the runtimes. */
  readonly settings: Readonly<Record<string, string>>
  /** Whether Trino serves analytics and events go to Kafka. */
  readonly hasEngines?: boolean
  /** As of `Load`. */
  readonly pauseMs?: number
  /** Of each tenant. Default: everybody. */
  readonly readers?: readonly Name[]
}

/** How long a server stays as it is, and what is waited for when it is back. */
export interface Hurt {
  isEnough(tally: Readonly<Tally>, ms: number): boolean
  /** Never longer. */
  readonly withinMs: number
  /** Default: until everybody has everything again. */
  untilWell?(): Promise<unknown>
}

export interface Seen {
  /** Whether it was enough in time. */
  readonly isEnough: boolean
  /** Until the server came back. */
  readonly during: Readonly<Tally>
  /** From then on, until all was well again. */
  readonly after: Readonly<Tally>
}

export class LoadedFleet {
  readonly fleet: Fleet
  readonly servers: OwnServers
  readonly tenants: readonly Tenant[]
  readonly source: pg.Client
  readonly load: Load
  /** What each runtime is reached through, by its name. */
  readonly ways: ReadonlyMap<string, TcpProxy>
  readonly #ends: readonly End[]

  private constructor(parts: Parts, ends: readonly End[]) {
    this.fleet = parts.fleet
    this.servers = parts.servers
    this.tenants = parts.tenants
    this.source = parts.source
    this.load = parts.load
    this.ways = parts.ways
    this.#ends = ends
  }

  /** Resolves when everybody has been given everything. */
  static async start(options: LoadedFleetOptions): Promise<LoadedFleet> {
    const ends: End[] = []
    try {
      const loaded = new LoadedFleet(await startParts(options, ends), ends)
      await loaded.untilWhole('at first')
      return loaded
    } catch (error) {
      await endAll(ends)
      throw error
    }
  }

  /** Until everybody was given everything and every source was taken in, all of it from now on. */
  async untilWhole(when: string): Promise<Readonly<Tally>> {
    const { load } = this
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
    return load.tally
  }

  /** Hurts the server of that name until it is enough, lets it come back, and waits until all is well. */
  async hurt(name: string, harm: Harm, { isEnough, withinMs, untilWell }: Hurt): Promise<Seen> {
    const victim = this.servers.victim(name)
    const { mayBeSlow } = this.load
    // Time that passes while nobody answers is no slowness.
    if (name === 'Trino') this.load.mayBeSlow = false
    this.load.take()
    const startedMs = performance.now()
    if (harm === 'killed') await victim.kill()
    else if (harm === 'paused') victim.pause()
    else victim.cut()
    let isSeen = false
    while (!isSeen && performance.now() - startedMs < withinMs) {
      await sleep(50)
      isSeen = isEnough(this.load.tally, performance.now() - startedMs)
    }
    const during = this.load.tally
    this.load.mayBeSlow = mayBeSlow
    if (harm === 'killed') await victim.restart()
    else if (harm === 'paused') victim.resume()
    else victim.heal()
    const healedMs = performance.now()
    if (untilWell === undefined) await this.untilWhole(`after ${name} was ${harm}`)
    else {
      this.load.take()
      await untilWell()
    }
    const after = this.load.take()
    this.report(name, harm, [during, after], performance.now() - healedMs)
    return { isEnough: isSeen, during, after }
  }

  /** Tells what was said, and holds it wrong where it names another server. */
  report(name: string, harm: Harm, tallies: readonly Readonly<Tally>[], recoveredMs: number): void {
    const refused = new Map<string, number>()
    for (const tally of tallies)
      for (const [said, count] of tally.refused) refused.set(said, (refused.get(said) ?? 0) + count)
    const answered = tallies.reduce((sum, tally) => sum + tally.answered, 0)
    const slowestMs = Math.round(Math.max(...tallies.map((tally) => tally.slowestMs)))
    console.log(
      `${name} ${harm}: ${answered} answered, slowest ${slowestMs} ms, whole ${Math.round(recoveredMs)} ms after`,
    )
    for (const [said, count] of refused) console.log(`    ${count} × ${said}`)
    const named = SAID[name]
    for (const said of refused.keys())
      if (named !== undefined && !named.test(said) && !BUSY.test(said))
        this.load.wrong.push(`${name} ${harm} is not what this names: ${said}`)
  }

  assertNothingWrong(): void {
    const wrong = this.load.wrong.splice(0)
    assert.deepEqual([...new Set(wrong)].slice(0, 20), [], `${wrong.length} answers were wrong`)
  }

  /** Ends the load. Every run has come to one of these ends, and every store, and the lake, hold what the source holds. */
  async assertEqualAtTheEnd(ends: readonly string[]): Promise<void> {
    await this.load.stop()
    this.assertNothingWrong()
    for (const { tenant, id } of this.load.runs) {
      const { state, error } = await tenant.developer.untilEnded(id)
      assert.ok(ends.includes(state), `run ${id}: ${state} ${JSON.stringify(error)}`)
    }
    await assertAllEqual(this.fleet.front.url, this.source, this.tenants)
  }

  close(): Promise<void> {
    return endAll(this.#ends)
  }
}

type Parts = Pick<LoadedFleet, 'fleet' | 'servers' | 'tenants' | 'source' | 'load' | 'ways'>

type End = () => Promise<unknown>

/** What ends each part comes into `ends` as soon as it is there. */
async function startParts(
  { settings, hasEngines = false, pauseMs, readers = EVERYBODY }: LoadedFleetOptions,
  ends: End[],
): Promise<Parts> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-chaos-'))
  ends.push(() => rm(folder, { recursive: true, force: true }))
  const servers = await startOwnServers(join(folder, 'servers'), hasEngines)
  ends.push(() => servers.stop())
  const ways = new Map<string, TcpProxy>()
  ends.push(() => Promise.all([...ways.values()].map((way) => way.close())))
  const fleet = await Fleet.start(folder, servers.addresses, 2, {
    ...servers.engines,
    settings,
    async reachedBy(name, port) {
      const way = ways.get(name) ?? (await TcpProxy.listen(port))
      way.target = port
      ways.set(name, way)
      return way.port
    },
  })
  ends.push(() => fleet.close())
  const source = new pg.Client({ connectionString: fleet.source })
  ends.push(() => source.end())
  await source.connect()
  await createSource(source)
  const tenants = await onboard(fleet, readers)
  for (const { developer } of tenants) {
    const { body } = await developer.post('/api/v1/connections/db/sync')
    assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
  }
  const load = new Load(fleet.front.url, source, tenants, pauseMs)
  load.mayBeSlow = hasEngines
  ends.push(() => load.stop())
  load.start()
  return { fleet, servers, tenants, source, load, ways }
}

/** The last first; one that cannot be ended keeps nothing else running. */
async function endAll(ends: readonly End[]): Promise<void> {
  const failures: unknown[] = []
  for (const end of ends.toReversed()) await end().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw new AggregateError(failures, 'not everything could be ended in order')
}
