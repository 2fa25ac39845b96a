/** A run as JSON for machines and as JUnit XML for build servers. The same run gives the same text, but for times. */
import { countsOf, failureLines, type RecordedCheck, type RunRecord } from './run-record.ts'

export function jsonReport({ checks, killRate, measurements, elapsedMs: totalMs, ...facts }: RunRecord): string {
  const report = {
    ...facts,
    elapsed_ms: totalMs,
    summary: countsOf(checks),
    ...(killRate === undefined ? {} : { kill_rate: toldRate(killRate) }),
    ...(measurements === undefined ? {} : { measurements }),
    checks: checks.map(({ elapsedMs, ...check }) => ({ ...check, elapsed_ms: elapsedMs })),
  }
  return `${JSON.stringify(report, null, 2)}\n`
}

function toldRate({ byCapability, ...rate }: NonNullable<RunRecord['killRate']>) {
  return byCapability === undefined ? rate : { ...rate, by_capability: byCapability }
}

export function junitReport({ plugin, level, seed, checks, elapsedMs, date, ...facts }: RunRecord): string {
  const counts = countsOf(checks)
  const { on = [], off = [] } = facts.capabilities ?? {}
  const properties = { 'capabilities on': on.join(', '), 'capabilities off': off.join(', '), replay: facts.replay }
  const skipped = counts.waived + counts.not_applicable
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuite name="${escapedXml(`${plugin} ${level} seed ${seed}`)}" tests="${checks.length}" failures="${counts.failed}" skipped="${skipped}" time="${(elapsedMs / 1000).toFixed(3)}" timestamp="${escapedXml(date)}">`,
    '  <properties>',
    ...Object.entries({ ...properties, ...(facts.key ? { key: facts.key.name } : {}) }).map(
      ([name, value]) => `    <property name="${name}" value="${escapedXml(value)}"/>`,
    ),
    '  </properties>',
    ...checks.map((check) => testCase(plugin, check)),
    '</testsuite>',
    '',
  ].join('\n')
}

/** One line: how long it took, and what took longest. */
export function timeLine({ checks, elapsedMs }: RunRecord): string {
  const longest = checks.toSorted((left, right) => right.elapsedMs - left.elapsedMs).slice(0, 3)
  const listed = longest.map(({ id, name, elapsedMs: ownMs }) => `${id} ${name} ${secondsOf(ownMs)}`)
  return `took ${secondsOf(elapsedMs)}; longest: ${listed.join(', ') || 'nothing'}`
}

export function secondsOf(elapsedMs: number): string {
  return `${(elapsedMs / 1000).toFixed(elapsedMs < 10_000 ? 2 : 0)} s`
}

/** One line, for the end of a run. */
export function summaryLine({ plugin, level, seed, checks }: RunRecord): string {
  const counts = Object.entries(countsOf(checks)).map(([status, count]) => `${count} ${status.replace('_', ' ')}`)
  return `${plugin}: ${checks.length} checks, ${counts.join(', ')} (level ${level}, seed ${seed})`
}

function testCase(plugin: string, { id, name, status, reason = '', failure, elapsedMs }: RecordedCheck): string {
  const open = `  <testcase classname="${escapedXml(plugin)}" name="${id} ${escapedXml(name)}" time="${(elapsedMs / 1000).toFixed(3)}"`
  if (status === 'failed' && failure) {
    return `${open}><failure>${escapedXml(failureLines(failure).join('\n'))}</failure></testcase>`
  }
  if (status === 'passed' || status === 'inverted') return `${open}/>`
  return `${open}><skipped message="${escapedXml(reason)}"/></testcase>`
}

/** XML 1.0 has no place for most control characters, not even escaped. */
export function escapedXml(text: string): string {
  const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  const printable = text.replaceAll(/\p{Cc}/gu, (character) => (/[\n\t]/.test(character) ? character : '\uFFFD'))
  return printable.replaceAll(/[&<>"]/g, (character) => entities[character] ?? character)
}
