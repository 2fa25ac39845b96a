/**
 * `npm run test:stack [-- SUITE…] [--affected] [--all] [--record] [--minutes N] [--usual-minutes N]`: tests against real servers, which are
 * installed into a cache, started natively, and ended; some run in containers where a Docker engine answers.
 * `SLUICE_TEST_…` variables name servers to use instead. Every suite runs even when one before it failed. Three run
 * side by side (two where memory is short), since most wait more than they work; what one prints is shown when it has
 * ended.
 *
 * `--affected` skips what the record of green shows as unchanged, unless `--all` is there too; `--record` adds to it.
 * `--usual-minutes N` holds in place of `--minutes` where the record shows that nothing is owed.
 */
import { availableParallelism, totalmem } from 'node:os'
import { keepCompiled } from '../test/compile-cache.ts'
import { processorSeconds } from '../test/processor-time.ts'
import { installSeconds, interruptInstalls } from './cache.ts'
import { engineAnswers } from './containers.ts'
import { optionsOf } from './selection/options.ts'
import { Pace } from './selection/pace.ts'
import { longestFirst, type Planned } from './selection/plan.ts'
import { Selection } from './selection/selection.ts'
import { interruptTests, runSuite } from './suite-run.ts'
import { loadServer, SUITES, type Suite } from './suites.ts'

const names = SUITES.map((suite) => suite.name)
const options = optionsOf(process.argv.slice(2), names)

// Interrupted: the tests end, and with them the suites, whose servers are ended as always. No other is begun.
const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    interrupted.abort()
    interruptInstalls()
    interruptTests(signal)
  })
}

const asked = SUITES.filter(({ name }) => options.names.length === 0 || options.names.includes(name))
const selection = await Selection.make(asked, options)
const { skipped } = selection.plan
const minutes = selection.minutes ?? Number.POSITIVE_INFINITY
const pace = new Pace(performance.now() + minutes * 60_000)
for (const { name, why } of skipped) console.log(`-- ${name}: ${why}`)

/** Two suites with a Trino of their own and one with Kafka hold some 8 GB. */
const sideBySide = totalmem() >= 12 * 2 ** 30 ? 3 : 2

const suiteNamed = (name: string): Suite => SUITES[names.indexOf(name)] as Suite
const secondsOf = (name: string): number => selection.expectedSeconds(suiteNamed(name))
const secondsLeft = minutes * 60
const planned = longestFirst(selection.plan.run, secondsOf, secondsLeft, sideBySide)

/** Those that have ended, and those that there was no time for. */
const isOver = new Set<string>()

/** One after the other, the first needed first. What fails here is tried again, and told, where the server is started. */
async function prepareServers(): Promise<void> {
  for (const name of new Set(planned.flatMap(({ name }) => suiteNamed(name).servers))) {
    if (interrupted.signal.aborted) return
    if (!planned.some((one) => !isOver.has(one.name) && suiteNamed(one.name).servers.includes(name))) continue
    const { prepare, variable, container } = await loadServer(name)
    if (prepare === undefined || process.env[variable] !== undefined) continue
    if (container === undefined || !(await engineAnswers())) await prepare().catch(() => undefined)
  }
}

keepCompiled()
const failed = new Map<string, string>()
const tookSeconds = new Map<string, number>()
const leftOut: string[] = []

/** One after the other, each taken from the front of `waiting`. */
async function work(waiting: Planned[], isShown: boolean): Promise<void> {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (interrupted.signal.aborted) return
    const suite = suiteNamed(next.name)
    const hasTime = suite.isAlwaysRun || pace.hasTimeFor(selection.expectedSeconds(suite), performance.now())
    if (hasTime) await runOne(suite, next, isShown)
    else leaveOut(suite, next)
    isOver.add(suite.name)
  }
}

function leaveOut(suite: Suite, { isSample }: Planned): void {
  console.log(`-- ${suite.name}: no time for it${isSample ? ' as a sample' : ''}`)
  if (isSample) return
  leftOut.push(suite.name)
  selection.leftOut(suite)
}

async function runOne(suite: Suite, { why }: Planned, isShown: boolean): Promise<void> {
  console.log(`-- ${suite.name} (${why})`)
  const startedMs = performance.now()
  const { failures, output } = await runSuite(suite, isShown)
  const seconds = Math.round((performance.now() - startedMs) / 1000)
  console.log(`${output}-- ${suite.name}: ${failures === '' ? 'passed' : 'FAILED'} in ${seconds} s`)
  tookSeconds.set(suite.name, seconds)
  if (failures !== '') failed.set(suite.name, failures)
  if (interrupted.signal.aborted) return
  pace.ended(selection.expectedSeconds(suite), seconds)
  await selection.ended(suite, failures === '', seconds)
}

const preparing = prepareServers()
const waiting = [...planned]
await Promise.all(Array.from({ length: sideBySide }, () => work(waiting, planned.length === 1)))
await preparing

const listed = (seconds: ReadonlyMap<string, number>) =>
  [...seconds].map(([name, took]) => `${name} ${took} s`).join(', ')
const processors = `${availableParallelism()} processors, ${Math.round(totalmem() / 2 ** 30)} GB`
console.log(`stack: ${processors}; installed: ${listed(installSeconds) || 'nothing'}`)
console.log(`stack: ${listed(tookSeconds)}`)
for (const [suite, failures] of failed) console.error(`-- what failed in ${suite}\n${failures}`)
const named = (list: readonly string[]) => list.join(', ') || 'none'
const wallSeconds = Math.round(performance.now() / 1000)
const workSeconds = Math.round(processorSeconds() ?? Number.NaN)
console.log(
  `stack: ${tookSeconds.size} suites in ${wallSeconds} s, ${workSeconds} processor seconds; ` +
    `skipped: ${named(skipped.map(({ name }) => name))}; left out: ${named(leftOut)}`,
)
if (failed.size > 0) {
  console.error(`stack: failed: ${[...failed.keys()].join(', ')}`)
  process.exitCode = 1
} else if (interrupted.signal.aborted) {
  console.error('stack: interrupted')
  process.exitCode = 1
} else console.log('stack: all suites that ran passed')
