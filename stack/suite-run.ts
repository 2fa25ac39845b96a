/** One suite: its servers are started, its tests run in a process of their own, and the servers are ended. */
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { engineAnswers, startContainer } from './containers.ts'
import type { ServerKind, StackServer } from './server.ts'
import { loadServer, type Suite } from './suites.ts'

const root = join(import.meta.dirname, '..')
const TEST_TIMEOUT_MS = 1_200_000
/** So that what never ends leaves time for the other suites. */
const SUITE_TIMEOUT_MS = 4_500_000

const testing = new Set<ChildProcess>()

export interface Report {
  /** As text: tests, or what kept the suite from coming to them or its servers from ending; empty when it passed. */
  readonly failures: string
  /** What the tests printed; empty where they printed it themselves. */
  readonly output: string
}

/** The servers are ended in every case, the last started first. */
export async function runSuite(suite: Suite, isShown: boolean): Promise<Report> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-stack-'))
  const running: StackServer[] = []
  const failures: string[] = []
  let output = ''
  try {
    for (const [index, name] of suite.servers.entries()) {
      const kind = await loadServer(name)
      if (process.env[kind.variable] !== undefined) continue
      running.push(await start(kind, join(folder, String(index))))
    }
    const addresses = Object.assign({}, suite.env, ...running.map((server) => server.env))
    const tested = await runTests(suite, addresses, folder, isShown)
    failures.push(tested.failures)
    output = tested.output
    if (tested.failures !== '') failures.push(await warningsIn(folder))
  } catch (error) {
    failures.push(inspect(error))
  }
  for (const server of running.reverse()) await server.stop().catch((error) => failures.push(inspect(error)))
  await rm(folder, { recursive: true, force: true })
  return { failures: failures.join('\n').trim(), output }
}

const MAX_WARNINGS = 40
const WARNING_CHARACTERS = 600

/** The last that runtimes under test warned of, which may be why a test failed; their logs go with the folder. */
async function warningsIn(folder: string): Promise<string> {
  const warnings: string[] = []
  for (const name of globSync('**/runtime-*.log', { cwd: folder })) {
    const lines = (await readFile(join(folder, name), 'utf8')).split('\n')
    const bad = lines.filter((line) => /"level":[4-6]0/.test(line)).slice(-MAX_WARNINGS)
    if (bad.length > 0) warnings.push(name, ...bad.map((line) => line.slice(0, WARNING_CHARACTERS)))
  }
  return warnings.join('\n')
}

/** The suites that run come to their end with them, servers and all. */
export function interruptTests(signal: NodeJS.Signals): void {
  for (const child of testing) child.kill(signal)
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
  const costsFile = join(folder, 'costs')
  const own = (name: string) => join(import.meta.dirname, name)
  const reporters = ['spec', 'stdout', own('failures.ts'), failuresFile, own('costs.ts'), costsFile].map(
    (value, index) => `--test-reporter${index % 2 === 0 ? '' : '-destination'}=${value}`,
  )
  const outputFile = join(folder, 'output')
  const printed = await open(outputFile, 'w')
  const out = isShown ? 'inherit' : printed.fd
  const whole = `--import=${join(import.meta.dirname, '../test/to-the-end.ts')}`
  const child = spawn(process.execPath, ['--test', whole, ...limits, ...reporters, ...files], {
    cwd: root,
    stdio: ['ignore', out, out],
    timeout: SUITE_TIMEOUT_MS,
    env: { ...process.env, ...addresses },
  })
  testing.add(child)
  const code = await new Promise((resolve) => child.once('exit', resolve))
  testing.delete(child)
  await printed.close()
  const told = await readFile(failuresFile, 'utf8').catch(() => '')
  const costs = await readFile(costsFile, 'utf8').catch(() => '')
  return {
    failures: code === 0 ? '' : told || `the tests ended with ${String(code ?? 'a signal')}`,
    output: `${await readFile(outputFile, 'utf8')}${costs}`,
  }
}
