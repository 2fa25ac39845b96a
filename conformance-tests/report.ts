/** A run's results as JSON for machines and as JUnit XML for build servers. The same run gives the same text, but for times. */
import { isSluiceError } from '@sluice/sdk'
import { CheckFailure } from './check.ts'
import type { CheckResult } from './suite.ts'

export interface RunFacts {
  readonly plugin: string
  readonly version: string
  readonly level: string
  readonly seed: number
  readonly results: readonly CheckResult[]
}

export function jsonReport({ plugin, version, level, seed, results }: RunFacts): string {
  const checks = results.map(({ id, name, status, reason, error, elapsedMs }) => ({
    id,
    name,
    status,
    ...(reason === undefined ? {} : { reason }),
    ...(error === undefined ? {} : { failure: failureOf(error) }),
    elapsed_ms: Math.round(elapsedMs),
  }))
  return `${JSON.stringify({ plugin, version, level, seed, summary: countsOf(results), checks }, null, 2)}\n`
}

export function junitReport({ plugin, level, seed, results }: RunFacts): string {
  const counts = countsOf(results)
  const seconds = results.reduce((total, { elapsedMs }) => total + elapsedMs, 0) / 1000
  const cases = results.map((result) => testCase(plugin, result))
  const skipped = counts.waived + counts.not_applicable
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuite name="${escaped(`${plugin} ${level} seed ${seed}`)}" tests="${results.length}" failures="${counts.failed}" skipped="${skipped}" time="${seconds.toFixed(3)}">`,
    ...cases,
    '</testsuite>',
    '',
  ].join('\n')
}

/** One line, for the end of a run. */
export function summaryLine({ plugin, level, seed, results }: RunFacts): string {
  const counts = Object.entries(countsOf(results)).map(([status, count]) => `${count} ${status.replace('_', ' ')}`)
  return `${plugin}: ${results.length} checks, ${counts.join(', ')} (level ${level}, seed ${seed})`
}

/** What a failure says; nothing that a driver said hangs on it, since a report may be published. */
export function failureText(error: unknown): string {
  if (error instanceof CheckFailure) return error.message
  if (isSluiceError(error)) return `${error.kind} ${error.code}: ${error.message}`
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}

function failureOf(error: unknown): unknown {
  return error instanceof CheckFailure ? error.parts : { what: failureText(error) }
}

function countsOf(results: readonly CheckResult[]) {
  const count = (status: CheckResult['status']) => results.filter((result) => result.status === status).length
  return {
    passed: count('passed'),
    inverted: count('inverted'),
    not_applicable: count('not_applicable'),
    waived: count('waived'),
    failed: count('failed'),
  }
}

function testCase(plugin: string, { id, name, status, reason = '', error, elapsedMs }: CheckResult): string {
  const open = `  <testcase classname="${escaped(plugin)}" name="${id} ${escaped(name)}" time="${(elapsedMs / 1000).toFixed(3)}"`
  if (status === 'failed') return `${open}><failure>${escaped(failureText(error))}</failure></testcase>`
  if (status === 'passed' || status === 'inverted') return `${open}/>`
  return `${open}><skipped message="${escaped(reason)}"/></testcase>`
}

/** XML 1.0 has no place for most control characters, not even escaped. */
function escaped(text: string): string {
  const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  const printable = text.replaceAll(/\p{Cc}/gu, (character) => (/[\n\t]/.test(character) ? character : '\uFFFD'))
  return printable.replaceAll(/[&<>"]/g, (character) => entities[character] ?? character)
}
