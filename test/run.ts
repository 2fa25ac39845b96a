/**
 * `npm test`: starts one PostgreSQL for all test files, runs them, and ends it. Arguments are globs of test files;
 * without any, everything that needs nothing but npm.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

const EVERYTHING = [
  'sdk/**/*.test.ts',
  'conformance-tests/**/*.test.ts',
  'plugins/**/*.test.ts',
  'runtime/src/**/*.test.ts',
  'test/*.test.ts',
  'acceptance/**/*.test.ts',
]

const FILE_TIMEOUT_MS = 600_000

interface TestServer {
  readonly url: string
  stop(): Promise<void>
}

/** The server ends by itself when its standard input closes, so it cannot outlive this process. */
async function startPostgres(): Promise<TestServer> {
  const child = spawn(process.execPath, [join(root, 'runtime/src/database/test-server.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const url = await firstLine(child)
  return {
    url: (JSON.parse(url) as { url: string }).url,
    stop: () =>
      new Promise((resolve) => {
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
    child.once('exit', (code) => reject(new Error(`the test database ended with ${code} before it was ready`)))
  })
}

function runTests(files: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const flags = ['--test', '--test-concurrency=2', `--test-timeout=${FILE_TIMEOUT_MS}`, '--test-reporter=spec']
  const child = spawn(process.execPath, [...flags, ...files], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: environment,
  })
  return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
}

const patterns = process.argv.slice(2)
const files = globSync(patterns.length > 0 ? patterns : EVERYTHING, {
  cwd: root,
  exclude: ['**/node_modules/**', '**/dist/**'],
}).sort()
if (files.length === 0) throw new Error('no test file matches')
const postgres = await startPostgres()
try {
  process.exitCode = await runTests(files, { ...process.env, SLUICE_TEST_POSTGRES_URL: postgres.url })
} finally {
  await postgres.stop()
}
