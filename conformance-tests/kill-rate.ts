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

export interface KillRun extends KillRate {
  /** What was not caught, in words: a saboteur with the check that let it pass, or a check that no saboteur tries. */
  readonly missed: readonly string[]
}

let known: Promise<KillRun> | null = null

/** As `measureKillRate`, once for a process: the suite is the same at every report. */
export function knownKillRate(): Promise<KillRun> {
  known ??= measureKillRate()
  return known
}

/** A defective plugin counts as caught when every check that has to catch it has failed by a broken promise. */
export async function measureKillRate(onSaboteur: (line: string) => void = () => undefined): Promise<KillRun> {
  const missed: string[] = []
  let caught = 0
  const judge = (name: string, results: readonly CheckResult[]): void => {
    const passed = results.filter(({ status, error }) => status !== 'failed' || !(error instanceof CheckFailure))
    if (passed.length === 0) caught += 1
    missed.push(...passed.map(({ id, status }) => `${name}: ${id} ${status}`))
    onSaboteur(`${passed.length === 0 ? 'caught' : 'MISSED'}  ${name} (by ${results.map(({ id }) => id).join(', ')})`)
  }
  for (const { name, caughtBy, plugin, options } of SABOTEURS) {
    judge(name, await runSuite({ plugin, start, level: 'core', only: caughtBy.map(String), ...options }))
  }
  for (const { name, caughtBy, plugin } of CONNECTOR_SABOTEURS) {
    judge(name, await runConnectorSuite({ plugin, start: startSource, only: caughtBy }))
  }
  const tried = new Set<number | string>(
    [...SABOTEURS, ...CONNECTOR_SABOTEURS].flatMap(({ caughtBy }) => [...caughtBy]),
  )
  const untried = [...CHECKS, ...CONNECTOR_CHECKS].filter(({ id }) => !tried.has(id))
  missed.push(...untried.map(({ id, name }) => `no saboteur tries ${id} ${name}`))
  return { caught, of: SABOTEURS.length + CONNECTOR_SABOTEURS.length, missed }
}
