/**
 * `npm test`: starts one PostgreSQL for all test files, and one embedded runtime for those of acceptance/, runs them, and
 * ends both. Arguments are globs of test files; without any, all that no suite of the stack has: what takes long (`long`),
 * or rests on plugins or tables alone (`plugins`, `iceberg`), is there, and runs when something that it rests on has changed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ENGINE_DIR_VARIABLE, prepareTestEngine } from '@sluice/engine/testing'
import { QUICK_CONFORMANCE, SUITES } from '../stack/suites.ts'
import { keepCompiled } from './compile-cache.ts'
import { processorSeconds } from './processor-time.ts'
import { useTemporaryFolder } from './temporary-folder.ts'
import { inFewProcesses } from './together.ts'

const root = join(import.meta.dirname, '..')

const EVERYTHING = [
  'sdk/**/*.test.ts',
  'engine/**/*.test.ts',
  'iceberg/**/*.test.ts',
  'packaging/**/*.test.ts',
  'examples/**/*.test.ts',
  'conformance-tests/**/*.test.ts',
  'plugins/**/*.test.ts',
  'deploy/**/*.test.ts',
  'runtime/src/**/*.test.ts',
  'stack/selection/*.test.ts',
  'prove/**/*.test.ts',
  'test/*.test.ts',
]

const ELSEWHERE = [...SUITES.flatMap(({ tests }) => tests), QUICK_CONFORMANCE]

/** Of one test or suite: only for one that would never end. */
const TEST_TIMEOUT_MS = 1_200_000
/** Of all of them, so that what never ends leaves time for what comes after. */
const RUN_TIMEOUT_MS = 2_400_000

interface TestServer {
  /** What it printed when it was ready. */
  readonly told: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/** The program ends by itself when its standard input closes, so it cannot outlive this process. */
async function startServer(program: string): Promise<TestServer> {
  const child = spawn(process.execPath, [join(root, program)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const told = JSON.parse(await firstLine(child)) as Readonly<Record<string, string>>
  return {
    told,
    stop: () =>
      new Promise((resolve) => {
        if (child.exitCode !== null) return resolve()
        child.once('exit', () => resolve())
        child.stdin?.end()
      }),
  }
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')))
    })
    child.once('exit', (code) => reject(new Error(`a server of the tests ended with ${code} before it was ready`)))
  })
}

function runTests(files: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const whole = `--import=${join(import.meta.dirname, 'to-the-end.ts')}`
  const flags = ['--test', whole, '--test-concurrency=2', `--test-timeout=${TEST_TIMEOUT_MS}`, '--test-reporter=spec']
  const child = spawn(process.execPath, [...flags, ...files], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: environment,
    timeout: RUN_TIMEOUT_MS,
  })
  return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
}

const patterns = process.argv.slice(2)
const files = globSync(patterns.length > 0 ? patterns : EVERYTHING, {
  cwd: root,
  exclude: ['**/node_modules/**', '**/dist/**', '**/*.stack.test.ts', ...(patterns.length > 0 ? [] : ELSEWHERE)],
}).sort()
if (files.length === 0) throw new Error('no test file matches')
const startedMs = performance.now()
const servers: TestServer[] = []
keepCompiled()
using _ = useTemporaryFolder()
const folder = await mkdtemp(join(tmpdir(), 'sluice-tests-'))
try {
  await prepareTestEngine(join(folder, 'engine'))
  const postgres = await startServer('runtime/src/database/test-server.ts')
  servers.push(postgres)
  const environment: NodeJS.ProcessEnv = {
    ...process.env,
    SLUICE_TEST_POSTGRES_URL: postgres.told['url'],
    [ENGINE_DIR_VARIABLE]: join(folder, 'engine'),
  }
  if (environment['SLUICE_ACCEPTANCE_URL'] === undefined && files.some((file) => file.startsWith('acceptance/'))) {
    const runtime = await startServer('acceptance/embedded-runtime.ts')
    servers.push(runtime)
    Object.assign(environment, runtime.told)
  }
  process.exitCode = await runTests(await inFewProcesses(files, folder), environment)
} finally {
  for (const server of servers.reverse()) await server.stop()
  await rm(folder, { recursive: true, force: true })
}
const seconds = Math.round((performance.now() - startedMs) / 1000)
console.log(
  `tests: ${files.length} files in ${seconds} s, ${Math.round(processorSeconds() ?? Number.NaN)} processor seconds`,
)
