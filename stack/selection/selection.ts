/** The selection of one run: what the record and the working tree say at its beginning, and what it adds to the record. */
import { execFileSync } from 'node:child_process'
import { ROOT } from '../../test/sources.ts'
import type { Suite } from '../suites.ts'
import { keyOf, type Surroundings } from './key.ts'
import type { Options } from './options.ts'
import { isInOrder, type Plan, planOf, wholePlan } from './plan.ts'
import { type GreenRecord, RECORD_FILE, readRecord, writeOutcome } from './record.ts'
import { currentGraph } from './rests-on.ts'
import { surroundings } from './surroundings.ts'

export class Selection {
  readonly plan: Plan
  /** How long suites may take, in minutes; null where time does not matter. */
  readonly minutes: number | null
  readonly #record: GreenRecord
  readonly #recorder: Recorder | null

  private constructor(plan: Plan, minutes: number | null, record: GreenRecord, recorder: Recorder | null) {
    this.plan = plan
    this.minutes = minutes
    this.#record = record
    this.#recorder = recorder
  }

  /** Without an option that asks for it nothing is read, and nothing written ever. */
  static async make(suites: readonly Suite[], options: Options): Promise<Selection> {
    if (!options.isAffected && !options.isRecorded) return new Selection(wholePlan(suites), options.minutes, {}, null)
    const around = await surroundings({ ...process.env })
    const commit = currentCommit()
    const keys = await keysOf(suites, around)
    const record = options.isAffected ? readRecord(RECORD_FILE) : {}
    const plan = options.isAffected ? planOf(suites, { keys, record, commit, isAll: options.isAll }) : wholePlan(suites)
    const isUsual = options.isAffected && !options.isAll && isInOrder(suites, record, Date.now())
    const minutes = isUsual ? (options.usualMinutes ?? options.minutes) : options.minutes
    return new Selection(plan, minutes, record, options.isRecorded ? new Recorder(keys, around, commit) : null)
  }

  expectedSeconds({ name, expectedSeconds }: Suite): number {
    return this.#record[name]?.green?.seconds ?? expectedSeconds
  }

  async ended(suite: Suite, hasPassed: boolean, seconds: number): Promise<void> {
    await this.#recorder?.ended(suite, hasPassed, seconds)
  }

  leftOut(suite: Suite): void {
    this.#recorder?.leftOut(suite)
  }
}

class Recorder {
  readonly #keys: ReadonlyMap<string, string>
  readonly #around: Surroundings
  readonly #commit: string

  constructor(keys: ReadonlyMap<string, string>, around: Surroundings, commit: string) {
    this.#keys = keys
    this.#around = around
    this.#commit = commit
  }

  /** What passed is of the files as they were at the beginning only if they still are. */
  async ended(suite: Suite, hasPassed: boolean, seconds: number): Promise<void> {
    if (!hasPassed) return writeOutcome(RECORD_FILE, suite.name, { kind: 'failed' })
    const key = await keyOf(suite, currentGraph(), this.#around)
    if (key !== this.#keys.get(suite.name)) return console.log(`-- ${suite.name}: not recorded, its files have changed`)
    const at = new Date().toISOString()
    writeOutcome(RECORD_FILE, suite.name, { kind: 'passed', key, at, commit: this.#commit, seconds })
  }

  leftOut(suite: Suite): void {
    writeOutcome(RECORD_FILE, suite.name, { kind: 'left out', at: new Date().toISOString() })
  }
}

async function keysOf(suites: readonly Suite[], around: Surroundings): Promise<ReadonlyMap<string, string>> {
  const graph = currentGraph()
  const keys = new Map<string, string>()
  for (const suite of suites) keys.set(suite.name, await keyOf(suite, graph, around))
  return keys
}

function currentCommit(): string {
  return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim()
}
