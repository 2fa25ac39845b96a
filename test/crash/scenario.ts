/**
 * One data folder, a script of changes in its source, and a runtime that is killed while it takes them over. After
 * every run that has ended, everything that is kept is compared with what the script must have left.
 */
import { strict as assert } from 'node:assert'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkEverything, type KnownHashes } from './checks.ts'
import { registryFacts } from './databases.ts'
import { onboard, type Readers, readersOf } from './readers.ts'
import { RuntimeProcess } from './runtime-process.ts'
import { Seeded } from './seeded.ts'
import { CrashSource, type Expected } from './source.ts'

/** What ends the runtime: a fault point with its count, or the milliseconds after which it is killed from outside. */
export type Kill = { readonly point: string } | { readonly afterMs: number }

/** A run is given up after five attempts. */
const MAX_KILLS_A_RUN = 4
const RUN_TIMEOUT_MS = 300_000
const POLL_MS = 100

export interface Tally {
  runs: number
  starts: number
  readonly hit: Map<string, number>
}

export class Scenario {
  readonly #folder: string
  readonly #source: CrashSource
  readonly #random: Seeded
  readonly #hashes: KnownHashes = new Map()
  readonly #expected: Expected[] = []
  readonly tally: Tally = { runs: 0, starts: 0, hit: new Map() }
  #connection = ''
  #runtime: RuntimeProcess | null = null
  #url = ''
  #armed: Kill | null = null

  private constructor(folder: string, source: CrashSource, seed: number) {
    this.#folder = folder
    this.#source = source
    this.#random = new Seeded(seed)
  }

  /** A tenant with two products and one that is made of them, synced once without disturbance. */
  static async open(seed: number): Promise<Scenario> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-crash-'))
    const scenario = new Scenario(folder, await CrashSource.start(join(folder, 'source')), seed)
    try {
      const readers = await scenario.#start(null)
      assert.ok(readers, 'the first start')
      scenario.#connection = await onboard(readers, scenario.#source)
      await scenario.#sync([])
      await scenario.stop()
      return scenario
    } catch (error) {
      await scenario.close()
      throw error
    }
  }

  get kills(): number {
    return [...this.tally.hit.values()].reduce((sum, count) => sum + count, 0)
  }

  /** Whether the running process still waits for what is to end it. */
  get isArmed(): boolean {
    return this.#armed !== null
  }

  get dataFolder(): string {
    return join(this.#folder, 'data')
  }

  /** Changes the source and syncs, killed in the order given, at most four times; returns the kills that remain. */
  async step(kills: readonly Kill[]): Promise<readonly Kill[]> {
    await this.#source.change(this.#random)
    return this.#sync(kills)
  }

  /** Asks the runtime to stop, and sees that nothing of it remains. */
  async stop(): Promise<void> {
    const runtime = this.#runtime
    this.#runtime = null
    this.#armed = null
    if (!runtime) return
    await runtime.stop()
    assert.deepEqual(await runtime.lastSurvivors(), [], 'processes that outlived the stop')
    assert.deepEqual(runtime.leftovers(), [], 'files that outlived the stop')
  }

  /** A second runtime on the folder; what it said. */
  async startSecond(): Promise<{ readonly code: number | null; readonly output: string; readonly firstPid: number }> {
    if (!this.#runtime || this.#runtime.isEnded) await this.#start(null)
    const second = await RuntimeProcess.spawn(this.dataFolder, null)
    const { code } = await second.ended
    return { code, output: second.output, firstPid: this.#runtime?.pid as number }
  }

  async close(): Promise<void> {
    const runtime = this.#runtime
    this.#runtime = null
    runtime?.kill()
    await runtime?.ended
    await runtime?.lastSurvivors()
    await this.#source.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #sync(kills: readonly Kill[]): Promise<readonly Kill[]> {
    this.#expected.push(await this.#source.expected())
    const waiting = [...kills]
    let count = 0
    if (this.#armed === null && waiting.length > 0) await this.#endIdle()
    for (;;) {
      const readers = await this.#ensureStarted(count < MAX_KILLS_A_RUN ? waiting : [])
      const ended = readers !== null && (await this.#runToItsEnd(readers))
      if (ended && readers !== null && (await this.#isWholeUnlessKilled(() => this.#check(readers)))) return waiting
      count += 1
      await this.#afterKill()
    }
  }

  /** False where the runtime was killed meanwhile: work beside the run may come to the armed point after the run's end. */
  async #isWholeUnlessKilled(check: () => Promise<void>): Promise<boolean> {
    const runtime = this.#runtime as RuntimeProcess
    try {
      await check()
      return true
    } catch (error) {
      if (error instanceof assert.AssertionError || this.#armed === null) throw error
      await Promise.race([runtime.ended, sleep(60_000, undefined, { ref: false })])
      if (!runtime.isEnded) throw error
      return false
    }
  }

  async #check(readers: Readers): Promise<void> {
    const world = { dataFolder: this.dataFolder, readers, expected: this.#expected, hashes: this.#hashes }
    await checkEverything(world, this.#expected.length)
    this.tally.runs += 1
  }

  /** Reads every epoch of the lake again. */
  async checkAllEpochs(): Promise<void> {
    for (;;) {
      const readers = await this.#ensureStarted([])
      assert.ok(readers)
      const world = { dataFolder: this.dataFolder, readers, expected: this.#expected, hashes: this.#hashes }
      if (await this.#isWholeUnlessKilled(() => checkEverything(world, 1))) return
      await this.#afterKill()
    }
  }

  async #ensureStarted(waiting: Kill[]): Promise<Readers | null> {
    if (this.#runtime && !this.#runtime.isEnded) return readersOf(this.dataFolder, this.#url)
    return this.#start(waiting.shift() ?? null)
  }

  /** Null where it was killed before it served. */
  async #start(kill: Kill | null): Promise<Readers | null> {
    this.tally.starts += 1
    this.#armed = kill
    const runtime = await RuntimeProcess.spawn(this.dataFolder, kill && 'point' in kill ? kill.point : null)
    this.#runtime = runtime
    const url = await runtime.address()
    if (url === null) return null
    this.#url = url
    return readersOf(this.dataFolder, url)
  }

  /** False where the runtime was killed first. */
  async #runToItsEnd(readers: Readers): Promise<boolean> {
    const runtime = this.#runtime as RuntimeProcess
    const kill = this.#armed
    const timer = kill && 'afterMs' in kill ? setTimeout(() => runtime.kill(), kill.afterMs) : null
    try {
      await this.#ensureRequested(readers)
      for (const deadline = Date.now() + RUN_TIMEOUT_MS; Date.now() < deadline; await sleep(POLL_MS)) {
        const run = (await registryFacts(this.dataFolder)).runs.at(-1)
        if (run?.state === 'succeeded') return true
        if (run?.state === 'failed' || run?.state === 'cancelled') {
          throw new assert.AssertionError({ message: `the run ended: ${JSON.stringify(run)}\n${runtime.output}` })
        }
      }
      throw new assert.AssertionError({ message: `the run did not end in time\n${runtime.output}` })
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      // Whatever was cut off in the middle: what counts is whether the runtime was killed.
      await Promise.race([runtime.ended, sleep(60_000, undefined, { ref: false })])
      if (!runtime.isEnded) throw error
      return false
    } finally {
      if (timer) {
        clearTimeout(timer)
        if (!runtime.isEnded) this.#armed = null
      }
    }
  }

  /** Makes room for a start that is armed: a runtime without work is stopped, or killed like any other. */
  async #endIdle(): Promise<void> {
    if (this.#random.below(2) === 0) return this.stop()
    if (!this.#runtime || this.#runtime.isEnded) return
    this.#armed = { afterMs: 0 }
    this.#runtime.kill()
    await this.#afterKill()
  }

  /** A request that was cut off may have been taken or not. */
  async #ensureRequested(readers: Readers): Promise<void> {
    const { runs } = await registryFacts(this.dataFolder)
    if (runs.length < this.#expected.length) {
      await readers.developer.post(`/api/v1/connections/${this.#connection}/sync`)
    }
  }

  async #afterKill(): Promise<void> {
    const runtime = this.#runtime as RuntimeProcess
    const { signal, code } = await runtime.ended
    assert.equal(signal, 'SIGKILL', `the runtime ended with ${code} by itself:\n${runtime.output}`)
    assert.ok(this.#armed, 'nobody has killed it')
    const name = 'point' in this.#armed ? (this.#armed.point.split('@')[0] as string) : 'at a random time'
    this.tally.hit.set(name, (this.tally.hit.get(name) ?? 0) + 1)
    this.#armed = null
    // Every second time the next start has to cope with what the killed one left running.
    if (this.#random.below(2) === 0) {
      assert.deepEqual(await runtime.lastSurvivors(), [], `processes that outlived the kill at ${name}`)
    }
  }
}
