/** How many of the defective stores and connectors this suite catches, measured and not remembered. */
import { CheckFailure } from './check.ts'
import { CONNECTOR_SABOTEURS } from './connector-saboteurs/index.ts'
import { CONNECTOR_CHECKS, runConnectorSuite } from './connector-suite.ts'
import { start } from './reference/conformance.ts'
import { start as startSource } from './reference-connector/conformance.ts'
import { CHECKS } from './registry.ts'
import { SABOTEURS } from './saboteurs/index.ts'
import { type CheckResult, runSuite } from './suite.ts'

export interface KillRate {
  readonly caught: number
  readonly of: number
}

/** By what has to be declared for the checks that catch: a defective plugin counts under each of them. */
export type KillRates = Readonly<Record<string, KillRate>>

export interface KillRun extends KillRate {
  /** What was not caught, in words: a saboteur with the check that let it pass, or a check that no saboteur tries. */
  readonly missed: readonly string[]
  readonly byCapability: KillRates
}

/** For the checks that need nothing declared. */
const EVERY_STORE = 'every store'
const EVERY_CONNECTOR = 'every connector'

let known: Promise<KillRun> | null = null

/** As `measureKillRate`, once for a process: the suite is the same at every report. */
export function knownKillRate(): Promise<KillRun> {
  known ??= measureKillRate()
  return known
}

/** A defective plugin counts as caught when every check that has to catch it has failed by a broken promise. */
export async function measureKillRate(onSaboteur: (line: string) => void = () => undefined): Promise<KillRun> {
  const missed: string[] = []
  const rates = new Map<string, KillRate>()
  let caught = 0
  const judge = (name: string, results: readonly CheckResult[]): void => {
    const passed = results.filter(({ status, error }) => status !== 'failed' || !(error instanceof CheckFailure))
    if (passed.length === 0) caught += 1
    for (const capability of new Set(results.flatMap(({ id }) => capabilitiesOf(id)))) {
      const { caught: before, of } = rates.get(capability) ?? { caught: 0, of: 0 }
      rates.set(capability, { caught: before + (passed.length === 0 ? 1 : 0), of: of + 1 })
    }
    missed.push(...passed.map(({ id, status }) => `${name}: ${id} ${status}`))
    onSaboteur(`${passed.length === 0 ? 'caught' : 'MISSED'}  ${name} (by ${results.map(({ id }) => id).join(', ')})`)
  }
  // Side by side: some of them only wait, for calls that never end.
  const connectors = Promise.all(
    CONNECTOR_SABOTEURS.map(({ caughtBy, plugin }) =>
      runConnectorSuite({ plugin, start: startSource, only: caughtBy }),
    ),
  )
  const stores = async () => {
    for (const { name, caughtBy, plugin, options } of SABOTEURS) {
      judge(name, await runSuite({ plugin, start, level: 'core', only: caughtBy.map(String), ...options }))
    }
  }
  const [ofConnectors] = await Promise.all([connectors, stores()])
  for (const [index, results] of ofConnectors.entries()) judge(CONNECTOR_SABOTEURS[index]?.name ?? '', results)
  const tried = new Set<number | string>(
    [...SABOTEURS, ...CONNECTOR_SABOTEURS].flatMap(({ caughtBy }) => [...caughtBy]),
  )
  const untried = [...CHECKS, ...CONNECTOR_CHECKS].filter(({ id }) => !tried.has(id))
  missed.push(...untried.map(({ id, name }) => `no saboteur tries ${id} ${name}`))
  const byCapability = Object.fromEntries([...rates].sort(([left], [right]) => (left < right ? -1 : 1)))
  return { caught, of: SABOTEURS.length + CONNECTOR_SABOTEURS.length, missed, byCapability }
}

/** What a check needs declared, in the words of the capability table. */
export function capabilitiesOf(id: number | string): readonly string[] {
  const mode = CONNECTOR_CHECKS.find((check) => check.id === id)?.requires
  if (typeof id === 'string') return [mode === undefined ? EVERY_CONNECTOR : `mode ${mode}`]
  const names = (CHECKS.find((check) => check.id === id)?.requires ?? []).map(({ name }) => name)
  return names.length > 0 ? names : [EVERY_STORE]
}

/** A line each, as reports tell it. */
export function capabilityLines(rates: KillRates): readonly string[] {
  return Object.entries(rates).map(([capability, { caught, of }]) => `${capability}: ${caught} of ${of}`)
}
