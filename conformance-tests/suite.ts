/** Runs checks against a plugin: as a list of results, or as tests of the runner that is passed in. */
import nodeTest from 'node:test'
import { isSluiceError, type PluginManifest, type ServingPlugin, type SluiceError } from '@sluice/sdk'
import { type Check, CheckFailure, expect, LEVELS, type Level, remedyOfCall, vacuous } from './check.ts'
import { SCHEDULES } from './checks/schedules.ts'
import { CheckContext, type Fixture } from './context.ts'
import { refusesUndeclared } from './inverted.ts'
import { openLakeWorkshop } from './lake.ts'
import type { Knobs } from './profile.ts'
import { CHECKS } from './registry.ts'
import { replayCommand } from './replay.ts'
import { tellable } from './run-record.ts'
import type { Schedule } from './simulation/schedule.ts'

/** A failure that is known and put up with for a while: the check runs, and its failure does not count. */
export interface Waiver {
  /** The check's name. */
  readonly check: string
  readonly reason: string
  readonly issue: string
  /** `YYYY-MM-DD`; from that day on the failure counts again. */
  readonly expires: string
}

export interface SuiteOptions {
  // biome-ignore lint/suspicious/noExplicitAny: settings and config are the plugin's own affair
  readonly plugin: ServingPlugin<any, any>
  /** Starts what the store runs on. Called once, before the first check. */
  readonly start: () => Promise<Fixture>
  readonly knobs?: Knobs
  /** What the plugin's package.json says under `sluice`, where there is one. */
  readonly manifest?: PluginManifest
  readonly waivers?: readonly Waiver[]
  /** Default: `core`. */
  readonly level?: Level
  /** Default: 1. The same seed makes the same rows. */
  readonly seed?: number
  /** Names or numbers of checks; default: all of the level. */
  readonly only?: readonly string[]
  /** Default: the suite's own. */
  readonly checks?: readonly Check[]
  /** Schedules of a former run, to be run in the place of random ones. */
  readonly schedules?: readonly Schedule[]
}

export interface CheckResult {
  /** A number, or `C7` for a check of connectors. */
  readonly id: number | string
  readonly name: string
  /** `inverted`: a capability is absent, and its absence held. */
  readonly status: 'passed' | 'inverted' | 'not_applicable' | 'waived' | 'failed'
  /** Why inverted, waived or not applicable. */
  readonly reason?: string
  readonly error?: unknown
  readonly elapsedMs: number
  /** What the check measured, by name; advisory, and another in every run. */
  readonly measured?: Readonly<Record<string, number>>
}

type Outcome = Pick<CheckResult, 'status' | 'reason' | 'measured'>

/** The checks that the options ask for. Throws a plain Error for a name that is none. */
export function selectChecks(options: SuiteOptions): readonly Check[] {
  const checks = options.checks ?? CHECKS
  for (const wanted of options.only ?? []) {
    if (!checks.some((check) => isNamed(check, wanted))) throw new Error(`there is no check ${wanted}`)
  }
  if (options.only?.length) return checks.filter((check) => options.only?.some((wanted) => isNamed(check, wanted)))
  const level = LEVELS.indexOf(options.level ?? 'core')
  return checks.filter((check) => LEVELS.indexOf(check.level) <= level)
}

function isNamed(check: Check, wanted: string): boolean {
  return wanted === check.name || wanted === String(check.id) || (check.aliases?.includes(wanted) ?? false)
}

/** One fixture for many checks. */
export class Session {
  readonly #options: SuiteOptions
  #fixture: Promise<Fixture> | null = null

  constructor(options: SuiteOptions) {
    this.#options = options
  }

  /** Runs the check by itself; throws where it failed. */
  async run(check: Check): Promise<Outcome> {
    const { plugin } = this.#options
    const reason = check.notFor?.(plugin.capabilities)
    if (reason) return { status: 'not_applicable', reason }
    this.#fixture ??= this.#options.start()
    const fixture = await this.#fixture
    const lacking = check.lacks?.(fixture)
    if (lacking) return { status: 'not_applicable', reason: lacking }
    const absent = (check.requires ?? []).filter((requirement) => !requirement.declared(plugin.capabilities))
    if (absent.length === 0) {
      const measured: Record<string, number> = {}
      await this.#inContext(fixture, check.name, async (context) => {
        await check.run(context)
        expect(context.calls > 0, () => vacuous('the check has asked the store nothing', 'Correct the check.'))
        Object.assign(measured, context.measured)
      })
      return Object.keys(measured).length > 0 ? { status: 'passed', measured } : { status: 'passed' }
    }
    for (const requirement of absent) {
      await this.#inContext(fixture, `${check.name} without ${requirement.name}`, (context) =>
        refusesUndeclared(context, requirement),
      )
    }
    return { status: 'inverted', reason: `not declared: ${absent.map(({ name }) => name).join(', ')}` }
  }

  async #inContext(fixture: Fixture, label: string, run: (context: CheckContext) => Promise<void>): Promise<void> {
    const { plugin, knobs = {}, level = 'core', seed = 1, manifest, schedules } = this.#options
    const { commit, lakeDeletes = false } = plugin.capabilities
    const open = fixture.openLake?.bind(fixture) ?? (() => openLakeWorkshop(lakeDeletes))
    const lake = commit === 'lake' ? await open() : null
    try {
      const context = await CheckContext.open({
        ...{ plugin, fixture, knobs, level, seed, label, lake },
        ...(manifest ? { manifest } : {}),
        ...(schedules ? { schedules } : {}),
      })
      let failure: unknown
      await run(context).catch((error: unknown) => {
        failure = isSluiceError(error) ? refusedCall(error, label) : (error ?? new Error('the check threw nothing'))
      })
      await context.dispose().catch((error: unknown) => {
        failure ??= isSluiceError(error) ? refusedCall(error, `cleaning up after ${label}`) : error
      })
      if (failure !== undefined) throw failure
    } finally {
      await lake?.close()
    }
  }

  async stop(): Promise<void> {
    const fixture = this.#fixture
    this.#fixture = null
    if (fixture) await (await fixture).stop()
  }
}

/** A call that the contract allows was refused. */
function refusedCall(error: SluiceError, label: string): CheckFailure {
  return new CheckFailure(
    {
      what: `the store threw ${error.kind} ${error.code}: ${error.message}`,
      expected: 'a call that keeps the contract is done',
      came: `${error.kind} ${error.code}`,
      where: label,
      why: 'the runtime makes such calls, and rows do not arrive where they fail',
      remedy: remedyOfCall(error),
    },
    error,
  )
}

/** Runs the checks one after the other. Does not throw for a failing check: see the results. */
export async function runSuite(
  options: SuiteOptions,
  onResult: (result: CheckResult) => void = () => undefined,
): Promise<readonly CheckResult[]> {
  const session = new Session(options)
  const results: CheckResult[] = []
  try {
    for (const check of selectChecks(options)) {
      const result = await resultOf(session, check, options.waivers ?? [])
      results.push(result)
      onResult(result)
    }
  } finally {
    await session.stop()
  }
  return results
}

async function resultOf(session: Session, check: Check, waivers: readonly Waiver[]): Promise<CheckResult> {
  const startedMs = performance.now()
  const identity = { id: check.id, name: check.name }
  try {
    const outcome = await session.run(check)
    return { ...identity, ...outcome, elapsedMs: performance.now() - startedMs }
  } catch (error) {
    const waiver = waivers.find((candidate) => candidate.check === check.name)
    const elapsedMs = performance.now() - startedMs
    if (waiver && isStanding(waiver)) return { ...identity, status: 'waived', reason: waiver.reason, error, elapsedMs }
    return { ...identity, status: 'failed', error, elapsedMs }
  }
}

export function isStanding(waiver: Waiver): boolean {
  return new Date().toISOString().slice(0, 10) < waiver.expires
}

/** What the suite needs of a test runner; `node:test` has it, and so has vitest with `Object.assign(test, {after: afterAll})`. */
export interface TestRunner {
  (name: string, run: () => Promise<void>): unknown
  after(run: () => Promise<void>): unknown
}

/**
 * A plugin's whole conformance test: each check becomes a test of its own.
 *
 * ```ts
 * testServingStore({ plugin, ...fixture })
 * ```
 *
 * `SLUICE_CONFORMANCE_SCHEDULES` bounds how many random schedules it runs, for machines that run it often. The command
 * `sluice-conformance` does not look at it: what is proved is proved by all of them.
 */
export function testServingStore(options: SuiteOptions & { readonly test?: TestRunner }): void {
  const test = options.test ?? (nodeTest as TestRunner)
  const session = new Session({ ...options, knobs: bounded(options.knobs ?? {}) })
  test.after(() => session.stop())
  for (const check of selectChecks(options)) {
    test(`${options.plugin.type}/${options.plugin.name}: ${check.id} ${check.name}`, async () => {
      const result = await resultOf(session, check, options.waivers ?? [])
      if (result.status === 'failed') throw tellable(result, again(options, check.name))
    })
  }
}

/** From the plugin's own folder, where its tests run. */
function again({ level = 'core', seed = 1 }: Pick<SuiteOptions, 'level' | 'seed'>, check: string): string {
  return replayCommand({ level, seed }, [check])
}

function bounded(knobs: Knobs): Knobs {
  const most = Number(process.env['SLUICE_CONFORMANCE_SCHEDULES'] ?? Number.POSITIVE_INFINITY)
  const levels = (['core', 'full', 'hard'] as const).map((level) => [
    level,
    Math.min(knobs.schedules?.[level] ?? SCHEDULES[level], most),
  ])
  return { ...knobs, schedules: Object.fromEntries(levels) }
}
