import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { bundleChild } from '../child-bundle.ts'
import { createEngine } from '../engine.ts'
import type { ChildJob } from '../protocol.ts'
import { testEngineProgram } from '../testing.ts'
import { closeQuietly, pipeOpener } from './pipe.ts'
import type { Wall } from './walls.ts'

const isRoot = process.getuid?.() === 0
const USER_ID = 60_999

interface Report {
  readonly walls: readonly Wall[]
  readonly outcome: Readonly<Record<string, string>>
  readonly environment: readonly string[]
  readonly user: number
  readonly left: boolean
}

describe('the walls of a child that a tenant has taken over', { skip: process.platform !== 'linux' }, () => {
  let home: string
  let report: Report

  before(async () => {
    // As in a home of mode 0700: the child's user cannot even reach its own file by its path.
    home = await mkdtemp(join(tmpdir(), 'sluice-walls-'))
    await chmod(home, 0o700)
    await writeFile(join(home, 'secret.csv'), 'a,b\n1,2\n')
    await chmod(join(home, 'secret.csv'), 0o644)
    const own = join(home, 'own.parquet')
    await writeParquet(home, own)
    report = await takeOver(home, own)
  })

  after(() => rm(home, { recursive: true, force: true }))

  it('are all up', () => {
    const down = report.walls.filter((wall) => !wall.up && (isRoot || wall.name !== 'own-user'))
    assert.deepEqual(down, [])
    assert.equal(report.walls.length, 6)
  })

  for (const name of [
    'read a secret',
    'read a secret on the pool',
    'read a secret with DuckDB',
    'read /etc/passwd with DuckDB',
    'read a secret with many threads of DuckDB',
    'list the folder',
    'write beside the secret',
    'write to the folder for temporary files',
    'copy out with DuckDB',
    'make a socket',
    'fetch a page',
    'signal the parent',
    'run a program',
    'become root',
    'read the parent’s environment',
  ]) {
    it(`refuse to ${name}`, () => assert.equal(report.outcome[name], 'refused'))
  }

  it('leave the job its own file', () => {
    assert.equal(report.outcome['read its own file'], 'done')
    assert.equal(report.outcome['read its own file with DuckDB'], 'done')
  })

  it('hold no environment but the size of the pool', () => {
    assert.deepEqual(report.environment, ['UV_THREADPOOL_SIZE'])
  })

  it('stand under a user of its own, where the runtime is root', () => {
    assert.equal(report.user, isRoot ? USER_ID : process.getuid?.())
  })
})

it('a bundled child puts up the walls that the modules do', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bundle-'))
  const limits = { scratchDir: folder, maxChildren: 1, warmChildren: 0, maxQueued: 1 }
  const engines = [createEngine(limits), createEngine({ ...limits, childBundle: await bundleChild(folder) })]
  try {
    const [modules, bundle] = await Promise.all(engines.map((engine) => engine.probe(AbortSignal.timeout(600_000))))
    assert.deepEqual(bundle, modules)
    assert(bundle?.some((wall) => wall.up))
  } finally {
    await Promise.all(engines.map((engine) => engine.close()))
    await rm(folder, { recursive: true, force: true })
  }
})

it('a bundled child looks for no package, and is made anew where a native part has moved', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bundle-'))
  const record = join(folder, 'engine-child.json')
  try {
    assert.doesNotMatch(await readFile(await bundleChild(folder), 'utf8'), /require\("(?:koffi|@duckdb)/)
    const made = JSON.parse(await readFile(record, 'utf8'))
    assert.deepEqual(Object.keys(made.nativeParts).sort(), ['@duckdb/node-bindings', 'koffi'])
    const moved = { ...made.nativeParts, koffi: join(folder, 'koffi.node') }
    await writeFile(record, JSON.stringify({ ...made, nativeParts: moved }))
    await bundleChild(folder)
    assert.deepEqual(JSON.parse(await readFile(record, 'utf8')), made)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

it('an engine says which walls are up after a probe', async () => {
  const engine = createEngine({
    scratchDir: join(tmpdir(), 'sluice-none'),
    ...(await testEngineProgram()),
    maxChildren: 1,
    warmChildren: 0,
    maxQueued: 1,
  })
  try {
    assert.deepEqual(engine.walls(), [])
    const walls = await engine.probe(AbortSignal.timeout(600_000))
    assert.deepEqual(engine.walls(), walls)
    assert(walls.every((wall) => wall.up || wall.why !== undefined))
    assert(walls.some((wall) => wall.name === 'memory-watch'))
  } finally {
    await engine.close()
  }
})

async function writeParquet(home: string, path: string): Promise<void> {
  const program = await testEngineProgram()
  const engine = createEngine({ scratchDir: home, ...program, maxChildren: 1, warmChildren: 0, maxQueued: 1 })
  try {
    const limits = { memoryBytes: 128 * 1024 * 1024, timeoutMs: 600_000, threads: 1 }
    const steps = [{ sql: `COPY (SELECT 1 AS id) TO '${path}' (FORMAT parquet)` }]
    await engine.run({ trust: 'own', steps, writeDirs: [home], limits }, AbortSignal.timeout(600_000))
  } finally {
    await engine.close()
  }
}

async function takeOver(home: string, own: string): Promise<Report> {
  const openPipe = pipeOpener()
  const [input, output] = [openPipe(), openPipe()]
  const fixture = fileURLToPath(new URL('./walls.fixture.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-sigusr1', '--no-warnings', fixture], {
    env: { UV_THREADPOOL_SIZE: '1' },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc', input.readFd, output.writeFd],
  })
  for (const descriptor of [input.readFd, input.writeFd, output.readFd, output.writeFd]) closeQuietly(descriptor)
  try {
    await once(child, 'message', { signal: AbortSignal.timeout(600_000) })
    child.send({ job: tenantJob(own), secret: join(home, 'secret.csv'), dir: home })
    const [report] = await once(child, 'message', { signal: AbortSignal.timeout(600_000) })
    return report as Report
  } finally {
    child.kill('SIGKILL')
  }
}

function tenantJob(file: string): ChildJob {
  return {
    trust: 'tenant',
    tables: [{ name: ['own'], files: [file], columns: [{ name: 'id', type: 'integer', fieldId: 1 }] }],
    csvInput: null,
    steps: [],
    output: null,
    readPaths: [],
    writeDirs: [],
    limits: { memoryBytes: 256 * 1024 * 1024, timeoutMs: 600_000, threads: 2 },
    neededWalls: [],
    tempDir: null,
    userId: isRoot ? USER_ID : null,
    stays: false,
    mark: null,
    grounds: null,
  }
}
