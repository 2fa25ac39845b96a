/**
 * `npm run test:stack [-- SUITE…]`: tests against real servers, which are installed into a cache, started natively, and
 * ended; some run in containers where a Docker engine answers. `SLUICE_TEST_…` variables name servers to use instead.
 * Every suite runs even when one before it failed. Two run side by side, since most wait more than they work; what one
 * prints is shown when it has ended.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { keepCompiled } from '../test/compile-cache.ts'
import { installSeconds, interruptInstalls } from './cache.ts'
import { engineAnswers, startContainer } from './containers.ts'
import type { ServerKind, StackServer } from './server.ts'
import { SUITES, type Suite } from './suites.ts'

const root = join(import.meta.dirname, '..')
const TEST_TIMEOUT_MS = 1_800_000

const testing = new Set<ChildProcess>()

interface Report {
  /** As text: tests, or what kept the suite from coming to them or its servers from ending; empty when it passed. */
  readonly failures: string
  /** What the tests printed; empty where they printed it themselves. */
  readonly output: string
}

/** The servers are ended in every case, the last started first. */
async function runSuite(suite: Suite, isShown: boolean): Promise<Report> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-stack-'))
  const running: StackServer[] = []
  const failures: string[] = []
  let output = ''
  try {
    for (const [index, kind] of suite.servers.entries()) {
      if (process.env[kind.variable] !== undefined) continue
      running.push(await start(kind, join(folder, String(index))))
    }
    const addresses = Object.assign({}, suite.env, ...running.map((server) => server.env))
    const tested = await runTests(suite, addresses, folder, isShown)
    failures.push(tested.failures)
    output = tested.output
  } catch (error) {
    failures.push(inspect(error))
  }
  for (const server of running.reverse()) await server.stop().catch((error) => failures.push(inspect(error)))
  await rm(folder, { recursive: true, force: true })
  return { failures: failures.join('\n').trim(), output }
}

async function start(kind: ServerKind, folder: string): Promise<StackServer> {
  if (kind.container === undefined || !(await engineAnswers())) return kind.start(folder)
  try {
    const server = await startContainer(kind.container)
    console.log(`${kind.name} runs in a container`)
    return server
  } catch (error) {
    console.warn(`${kind.name} does not run in a container, but as where no engine answers: ${String(error)}`)
    return kind.start(folder)
  }
}

async function runTests(suite: Suite, addresses: NodeJS.ProcessEnv, folder: string, isShown: boolean): Promise<Report> {
  const files = globSync([...suite.tests], { cwd: root, exclude: ['**/node_modules/**', '**/dist/**'] }).sort()
  if (files.length === 0) throw new Error(`suite ${suite.name}: no test file matches ${suite.tests.join(', ')}`)
  const limits = ['--test-concurrency=1', `--test-timeout=${TEST_TIMEOUT_MS}`]
  const failuresFile = join(folder, 'failures')
  const reporters = ['spec', 'stdout', join(import.meta.dirname, 'failures.ts'), failuresFile].map(
    (value, index) => `--test-reporter${index % 2 === 0 ? '' : '-destination'}=${value}`,
  )
  const outputFile = join(folder, 'output')
  const printed = await open(outputFile, 'w')
  const out = isShown ? 'inherit' : printed.fd
  const child = spawn(process.execPath, ['--test', ...limits, ...reporters, ...files], {
    cwd: root,
    stdio: ['ignore', out, out],
    env: { ...process.env, ...addresses },
  })
  testing.add(child)
  const code = await new Promise((resolve) => child.once('exit', resolve))
  testing.delete(child)
  await printed.close()
  const told = await readFile(failuresFile, 'utf8').catch(() => '')
  return {
    failures: code === 0 ? '' : told || `the tests ended with ${String(code)}`,
    output: await readFile(outputFile, 'utf8'),
  }
}

const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !SUITES.some((suite) => suite.name === name))
if (unknown.length > 0)
  throw new Error(`no suite ${unknown.join(', ')}; there are ${SUITES.map((suite) => suite.name).join(', ')}`)

// Interrupted: the tests end, and with them the suites, whose servers are ended as always. No other is begun.
const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    interrupted.abort()
    interruptInstalls()
    for (const child of testing) child.kill(signal)
  })
}

const suites = SUITES.filter(({ name }) => wanted.length === 0 || wanted.includes(name))

/** One after the other, the first needed first. What fails here is tried again, and told, where the server is started. */
async function prepareServers(): Promise<void> {
  for (const { prepare, variable, container } of new Set(suites.flatMap(({ servers }) => servers))) {
    if (prepare === undefined || process.env[variable] !== undefined) continue
    if (container === undefined || !(await engineAnswers())) await prepare().catch(() => undefined)
  }
}

keepCompiled()
const failed = new Map<string, string>()
const tookSeconds = new Map<string, number>()

/** One after the other, each taken from the front of `waiting`. */
async function work(waiting: Suite[], isShown: boolean): Promise<void> {
  for (let suite = waiting.shift(); suite !== undefined; suite = waiting.shift()) {
    if (interrupted.signal.aborted) return
    console.log(`-- ${suite.name}`)
    const startedMs = performance.now()
    const { failures, output } = await runSuite(suite, isShown)
    const seconds = Math.round((performance.now() - startedMs) / 1000)
    console.log(`${output}-- ${suite.name}: ${failures === '' ? 'passed' : 'FAILED'} in ${seconds} s`)
    tookSeconds.set(suite.name, seconds)
    if (failures !== '') failed.set(suite.name, failures)
  }
}

const alone = suites.filter((suite) => suite.isAlone)
const together = suites.filter((suite) => !suite.isAlone)
const isShown = together.length === 1
await Promise.all([prepareServers(), work(together, isShown), work(together, isShown)])
await work(alone, true)

const listed = (seconds: ReadonlyMap<string, number>) =>
  [...seconds].map(([name, took]) => `${name} ${took} s`).join(', ')
console.log(
  `stack: ${availableParallelism()} processors, ${Math.round(totalmem() / 2 ** 30)} GB; installed: ${listed(installSeconds) || 'nothing'}`,
)
console.log(`stack: ${listed(tookSeconds)}`)
for (const [suite, failures] of failed) console.error(`-- what failed in ${suite}\n${failures}`)
if (failed.size > 0) {
  console.error(`stack: failed: ${[...failed.keys()].join(', ')}`)
  process.exitCode = 1
} else if (interrupted.signal.aborted) {
  console.error('stack: interrupted')
  process.exitCode = 1
} else console.log('stack: all suites passed')
