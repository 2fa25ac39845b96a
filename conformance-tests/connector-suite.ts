/** Runs checks against a connector: as a list of results, or as tests of the runner that is passed in. */
import nodeTest from 'node:test'
import { type Connector, type ConnectorPlugin, isSluiceError } from '@sluice/sdk'
import { CheckFailure, expect, LEVELS, type Level, remedyOfCall } from './check.ts'
import { changingChecks } from './connector-checks/changing.ts'
import type { ConnectorCheck, Mode } from './connector-checks/check.ts'
import { discoveryChecks } from './connector-checks/discovery.ts'
import { estimateChecks } from './connector-checks/estimates.ts'
import { exactnessChecks } from './connector-checks/exactness.ts'
import { leavingChecks } from './connector-checks/leaving.ts'
import { logMarkChecks } from './connector-checks/log-marks.ts'
import { logNearChecks } from './connector-checks/log-near.ts'
import { logPlaceChecks } from './connector-checks/log-places.ts'
import { logRowChecks } from './connector-checks/log-rows.ts'
import { logTableChecks } from './connector-checks/log-tables.ts'
import { logWaitChecks } from './connector-checks/log-waiting.ts'
import { logWriterChecks } from './connector-checks/log-writers.ts'
import { readingChecks } from './connector-checks/reading.ts'
import { resumingChecks } from './connector-checks/resuming.ts'
import { secretChecks } from './connector-checks/secrets.ts'
import { settingsChecks } from './connector-checks/settings.ts'
import { valueChecks } from './connector-checks/values.ts'
import { ConnectorContext } from './connector-context.ts'
import type { SourceFixture } from './connector-fixture.ts'
import { NothingToTry } from './overheard.ts'
import { replayCommand } from './replay.ts'
import { tellable } from './run-record.ts'
import { type CheckResult, isStanding, type TestRunner, type Waiver } from './suite.ts'

/** Every check of connectors, in the order of its number. */
export const CONNECTOR_CHECKS: readonly ConnectorCheck[] = [
  ...settingsChecks,
  ...secretChecks,
  ...discoveryChecks,
  ...readingChecks,
  ...resumingChecks,
  ...changingChecks,
  ...valueChecks,
  ...exactnessChecks,
  ...logRowChecks,
  ...logPlaceChecks,
  ...logTableChecks,
  ...logWriterChecks,
  ...logMarkChecks,
  ...logNearChecks,
  ...logWaitChecks,
  ...estimateChecks,
  ...leavingChecks,
].sort((left, right) => Number(left.id.slice(1)) - Number(right.id.slice(1)))

export interface ConnectorSuiteOptions {
  // biome-ignore lint/suspicious/noExplicitAny: settings are the plugin's own affair
  readonly plugin: ConnectorPlugin<any>
  /** Starts the source. Called once, before the first check. */
  readonly start: () => Promise<SourceFixture>
  readonly waivers?: readonly Waiver[]
  /** Default: `core`. */
  readonly level?: Level
  /** Default: 1. */
  readonly seed?: number
  /** Names or numbers (`C7`) of checks; default: all of the level. */
  readonly only?: readonly string[]
  /** Default: the suite's own. */
  readonly checks?: readonly ConnectorCheck[]
}

/** The checks that the options ask for. Throws a plain Error for a name that is none. */
export function selectConnectorChecks(options: ConnectorSuiteOptions): readonly ConnectorCheck[] {
  const { checks = CONNECTOR_CHECKS, only = [], level = 'core' } = options
  const isNamed = ({ id, name, aliases = [] }: ConnectorCheck, wanted: string) =>
    [id, name, ...aliases].includes(wanted)
  for (const wanted of only) {
    if (!checks.some((check) => isNamed(check, wanted))) throw new Error(`there is no check of connectors ${wanted}`)
  }
  if (only.length > 0) return checks.filter((check) => only.some((wanted) => isNamed(check, wanted)))
  return checks.filter((check) => LEVELS.indexOf(check.level) <= LEVELS.indexOf(level))
}

class ConnectorSession {
  readonly #options: ConnectorSuiteOptions
  #fixture: Promise<SourceFixture> | null = null

  constructor(options: ConnectorSuiteOptions) {
    this.#options = options
  }

  async result(check: ConnectorCheck): Promise<CheckResult> {
    const startedMs = performance.now()
    const identity = { id: check.id, name: check.name }
    try {
      const outcome = await this.#run(check)
      return { ...identity, ...outcome, elapsedMs: performance.now() - startedMs }
    } catch (error) {
      const waiver = this.#options.waivers?.find((one) => one.check === check.name || one.check === check.id)
      const elapsedMs = performance.now() - startedMs
      if (waiver && isStanding(waiver))
        return { ...identity, status: 'waived', reason: waiver.reason, error, elapsedMs }
      return { ...identity, status: 'failed', error, elapsedMs }
    }
  }

  async #run(check: ConnectorCheck): Promise<Pick<CheckResult, 'status' | 'reason'>> {
    const { plugin, level = 'core', seed = 1 } = this.#options
    this.#fixture ??= this.#options.start()
    const fixture = await this.#fixture
    const reason = check.notFor?.(plugin, fixture)
    if (reason) return { status: 'not_applicable', reason }
    const context = new ConnectorContext({ plugin, fixture, level, seed, label: check.name })
    const { modes } = plugin.capabilities
    const absent = check.requires !== undefined && !modes.includes(check.requires) ? check.requires : null
    let failure: unknown
    const nothing: NothingToTry[] = []
    const noted = (error: unknown) => {
      if (error instanceof NothingToTry) nothing.push(error)
      else
        failure ??= isSluiceError(error)
          ? refusedCall(error, check.name)
          : (error ?? new Error('the check threw nothing'))
    }
    if (absent) await expectModeRefused(context, absent).catch(noted)
    if (absent === null) await ranBy(check, context).catch(noted)
    await context.dispose().catch(noted)
    await heard(context).catch(noted)
    if (failure !== undefined) throw failure
    if (nothing[0]) return { status: 'not_applicable', reason: nothing[0].message }
    return absent ? { status: 'inverted', reason: `not declared: mode ${absent}` } : { status: 'passed' }
  }

  async stop(): Promise<void> {
    const fixture = this.#fixture
    this.#fixture = null
    if (fixture) await (await fixture).stop()
  }
}

async function ranBy(check: ConnectorCheck, context: ConnectorContext): Promise<void> {
  await check.run(context)
  context.listener.expectAsked()
}

async function heard({ listener, logger }: ConnectorContext): Promise<void> {
  listener.hear('the log', logger.text())
  listener.expectNothingTold()
}

async function expectModeRefused(context: ConnectorContext, mode: Mode): Promise<void> {
  const { table } = await context.filled(5)
  const { connector } = await context.open()
  if (mode === 'cdc') expectNoChanges(connector)
  const outcome = await context.read(connector, table, { mode: mode as 'full' }).catch((error: unknown) => error)
  if (isSluiceError(outcome, 'UNSUPPORTED')) return
  throw new CheckFailure(
    {
      what: `the mode ${mode} is not declared, and reading by it ${isSluiceError(outcome) ? `threw ${outcome.kind}` : 'worked'}`,
      expected: 'UNSUPPORTED',
      came: isSluiceError(outcome) ? outcome.kind : 'rows',
      where: 'connector.read, request.mode',
      why: 'the runtime and its users rely on the table in both directions',
      remedy: `Declare ${mode}, or throw UNSUPPORTED before reading anything.`,
    },
    outcome,
  )
}

function expectNoChanges({ changes }: Connector): void {
  expect(changes === undefined, () => ({
    what: 'the mode cdc is not declared, and the connector has changes',
    expected: 'no changes, or the mode cdc among those of the plugin',
    came: 'changes',
    where: 'what open gives',
    why: 'the runtime goes by what is declared, and would never call it',
    remedy: 'Declare cdc, or leave changes out.',
  }))
}

function refusedCall(
  error: Error & { readonly kind: string; readonly code: string; readonly remedy: string | undefined },
  label: string,
): CheckFailure {
  return new CheckFailure(
    {
      what: `the connector threw ${error.kind} ${error.code}: ${error.message}`,
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
export async function runConnectorSuite(
  options: ConnectorSuiteOptions,
  onResult: (result: CheckResult) => void = () => undefined,
): Promise<readonly CheckResult[]> {
  const session = new ConnectorSession(options)
  const results: CheckResult[] = []
  try {
    for (const check of selectConnectorChecks(options)) {
      const result = await session.result(check)
      results.push(result)
      onResult(result)
    }
  } finally {
    await session.stop()
  }
  return results
}

/**
 * A connector's whole conformance test: each check becomes a test of its own.
 *
 * ```ts
 * testConnector({ plugin, ...fixture })
 * ```
 */
export function testConnector(options: ConnectorSuiteOptions & { readonly test?: TestRunner }): void {
  const { level = 'core', seed = 1 } = options
  const test = options.test ?? (nodeTest as TestRunner)
  const session = new ConnectorSession(options)
  test.after(() => session.stop())
  for (const check of selectConnectorChecks(options)) {
    test(`${options.plugin.type}/${options.plugin.name}: ${check.id} ${check.name}`, async () => {
      const result = await session.result(check)
      if (result.status === 'failed') throw tellable(result, replayCommand({ level, seed }, [check.id]))
    })
  }
}
