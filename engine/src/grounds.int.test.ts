import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { until } from '../../test/until.ts'
import { groundsOf } from './grounds.ts'
import { createEngine, type EngineJob, type EngineTable, type PooledEngine, rowsOf } from './index.ts'
import { testEngineProgram } from './testing.ts'
import { childrenOf } from './walls/process-table.ts'

const MIB = 1024 * 1024
const LIMITS = { memoryBytes: 256 * MIB, timeoutMs: 600_000, threads: 2 } as const
const HOUR_MS = 3_600_000
const patience = () => AbortSignal.timeout(600_000)
const children = async () => [...(await childrenOf(process.pid))].sort()

let dir: string
let folders: { readonly read: readonly string[]; readonly written: readonly string[] }
let engine: PooledEngine

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-grounds-'))
  folders = { read: [join(dir, 'lake')], written: [join(dir, 'lake', '.work'), join(dir, 'scratch', 'tenants')] }
  for (const tenant of ['acme', 'umbrella']) mkdirSync(join(dir, 'lake', tenant), { recursive: true })
  engine = createEngine({
    scratchDir: join(dir, 'scratch'),
    ...(await testEngineProgram()),
    maxChildren: 3,
    warmChildren: 0,
    maxQueued: 10,
    keepMs: HOUR_MS,
    tenantFolders: folders,
  })
})

after(async () => {
  await engine.close()
  await rm(dir, { recursive: true, force: true })
})

const lake = (tenant: string, name: string) => join(dir, 'lake', tenant, name)
const work = (tenant: string) => join(dir, 'lake', '.work', tenant)

function job(tenant: string, steps: EngineJob['steps'], more: Partial<EngineJob> = {}): EngineJob {
  return { trust: 'own', steps: steps ?? [], writeDirs: [work(tenant)], limits: LIMITS, ...more }
}

async function counted(sql: string, tenant: string, more: Partial<EngineJob> = {}): Promise<unknown> {
  const { results } = await engine.run(job(tenant, [{ sql, rows: 'collect' }], more), patience())
  return results[0]?.rows[0]?.[0]
}

describe('own jobs over the files of one tenant', () => {
  it('follow each other in one child, which keeps nothing of the one before but files', async () => {
    const made = [
      { sql: `CREATE TEMP TABLE secret AS SELECT 42 AS n` },
      { sql: 'CREATE TEMP MACRO twice(n) AS n * 2' },
      { sql: `COPY (SELECT n FROM secret) TO '${work('acme')}/secret.parquet' (FORMAT parquet, FIELD_IDS {n: 1})` },
    ]
    await engine.run(job('acme', made), patience())
    const [first] = await children()
    const rows = async function* () {
      yield Buffer.from('"1"\n"2"\n')
    }
    const table: EngineTable = {
      name: ['kept'],
      files: [join(work('acme'), 'secret.parquet')],
      columns: [{ name: 'n', type: 'integer', fieldId: 1 }],
    }
    assert.equal(await counted('SELECT n FROM kept', 'acme', { tables: [table] }), 42)
    assert.equal(await counted("SELECT current_setting('threads')", 'acme', { limits: { ...LIMITS, threads: 1 } }), 1n)
    assert.equal(await counted("SELECT current_setting('threads')", 'acme'), 2n)
    const left = `SELECT count(*) FROM (SELECT view_name FROM duckdb_views() WHERE NOT internal
      UNION ALL SELECT table_name FROM duckdb_tables() UNION ALL SELECT function_name FROM duckdb_functions() WHERE NOT internal)`
    assert.equal(await counted(left, 'acme'), 0n)
    assert.deepEqual(await children(), [first])
    // What streams in has a pipe of its own, and so a child, which stays like any other.
    const csvInput = { name: 'rows', columns: [{ name: 'n', type: 'long' }], source: rows() } as const
    assert.equal(await counted('SELECT sum(n)::INTEGER FROM rows', 'acme', { csvInput }), 3)
    assert.equal((await children()).length, 2)
    const session = await engine.open({ trust: 'own', writeDirs: [work('acme')], limits: LIMITS }, patience())
    const run = await session.run({ tables: [table], output: { kind: 'rows', sql: 'SELECT n FROM kept' } })
    assert.deepEqual(await Array.fromAsync(rowsOf(run)), [[[42]]])
    await assert.rejects(session.run({ tables: [], steps: [{ sql: 'SELECT * FROM kept' }] }))
    await session.close()
    assert.equal(await counted(left, 'acme'), 0n)
    assert.equal((await children()).length, 2)
  })

  it('are never in a child of another tenant’s, and open no file of theirs', async () => {
    await writeFile(lake('umbrella', 'theirs.csv'), 'secret\n')
    const before = await children()
    assert.equal(await counted('SELECT 1', 'umbrella'), 1)
    assert.equal((await children()).filter((pid) => !before.includes(pid)).length, 1)
    // Neither DuckDB nor the kernel opens it, and DuckDB cannot be told to.
    for (const path of [lake('umbrella', 'theirs.csv'), '/proc/version']) {
      const read = counted(`SELECT count(*) FROM read_text('${path}')`, 'acme')
      await assert.rejects(read, (error: Error) => !error.message.includes('secret'))
    }
    assert.equal(await counted(`SELECT count(*) FROM read_text('${lake('umbrella', 'theirs.csv')}')`, 'umbrella'), 1n)
    for (const setting of [
      `allowed_directories = ['${dir}']`,
      "allowed_paths = ['/proc/version']",
      'enable_external_access = true',
    ]) {
      await assert.rejects(counted(`SET ${setting}`, 'acme'), { name: 'SluiceError' }, setting)
    }
  })

  it('end their child where they fail or are called off, and the next has another', async () => {
    assert.equal(await counted('SELECT 1', 'acme'), 1)
    await assert.rejects(counted("SELECT CAST('x' AS INTEGER)", 'acme'), { name: 'SluiceError' })
    assert.equal(await counted('SELECT 1', 'acme'), 1)
    const stop = new AbortController()
    const endless = [{ sql: 'SELECT sum(hash(i)) FROM range(100000000000) r(i)' }]
    const running = engine.run(job('acme', endless), stop.signal)
    const busy = await until('it is at work', () => engine.load().busy === 1).then(children)
    stop.abort()
    await assert.rejects(running, { code: 'query_cancelled' })
    assert.equal(await counted('SELECT 1', 'acme'), 1)
    assert.notDeepEqual(await children(), busy)
  })

  it('belong to a tenant only where all that they open does', () => {
    const grounds = (more: Partial<EngineJob>) => groundsOf(job('acme', [], more), folders, null)?.kind ?? null
    const acme = grounds({})
    assert.notEqual(acme, null)
    const scratch = join(dir, 'scratch', 'tenants', 'acme', 'set')
    assert.equal(grounds({ readPaths: [lake('acme', 'a/b.parquet'), scratch], writeDirs: [scratch] }), acme)
    assert.equal(grounds({ limits: { ...LIMITS, threads: 1 } }), acme)
    const others: readonly Partial<EngineJob>[] = [
      { readPaths: [lake('umbrella', 'x')] },
      { readPaths: [join(dir, 'lake', 'acme', '..', 'umbrella', 'x')] },
      { readPaths: [join(dir, 'lake', '.places.json')] },
      { readPaths: ['/etc/passwd'] },
      { readPaths: [join(dir, 'lake', 'acme-2', 'x')] },
      { writeDirs: [lake('acme', 'x')] },
      { writeDirs: [] },
      { writeDirs: [join(dir, 'scratch', 'changes', 'x')] },
      { writeDirs: [work('none')] },
      { trust: 'tenant', tenant: 'acme' },
      { output: { kind: 'rows', sql: 'SELECT 1' } },
    ]
    for (const other of others) assert.equal(grounds(other), null, JSON.stringify(other))
    const differing = [
      groundsOf(job('acme', [], { limits: { ...LIMITS, memoryBytes: 300 * MIB } }), folders, null),
      groundsOf(job('acme', []), folders, 'acme'),
      groundsOf(job('umbrella', []), folders, null),
    ]
    assert.equal(new Set([acme, ...differing.map((one) => one?.kind)]).size, 4)
  })
})
