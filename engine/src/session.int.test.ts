import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { until, withLimits } from '../../test/until.ts'
import {
  createEngine,
  type Engine,
  type EngineRun,
  type EngineTable,
  rowsOf,
  type SessionJob,
  type SessionOutput,
} from './index.ts'
import { testEngineProgram } from './testing.ts'
import { childrenOf } from './walls/process-table.ts'

const MIB = 1024 * 1024
const LIMITS = { memoryBytes: 256 * MIB, timeoutMs: 600_000, threads: 2 } as const
/** Of sessions that no test wants to end by themselves, however slow the machine is. */
const HOUR_MS = 3_600_000
const patience = () => AbortSignal.timeout(600_000)

let dir: string
let engine: Engine

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-session-'))
  const program = await testEngineProgram()
  engine = createEngine({ scratchDir: join(dir, 'scratch'), ...program, maxChildren: 3, warmChildren: 0, maxQueued: 4 })
})

after(async () => {
  await engine.close()
  await rm(dir, { recursive: true, force: true })
})

/** A session whose job has written numbers, as small and large as the test wants, to a file below its folder. */
async function openNumbers(count = 3, more: Partial<SessionJob> = {}) {
  const folder = await mkdtemp(join(dir, 'numbers-'))
  const file = join(folder, 'numbers.parquet')
  const sql = `COPY (SELECT range::BIGINT AS n, 'é' || range AS t FROM range(${count})) TO '${file}' (FORMAT parquet, FIELD_IDS {n: 1, t: 2})`
  const steps = [{ sql, rows: 'collect' }] as const
  const job: SessionJob = { trust: 'own', steps, writeDirs: [folder], limits: LIMITS, idleMs: HOUR_MS, ...more }
  const numbers: EngineTable = {
    name: ['rows'],
    files: [file],
    columns: [
      { name: 'n', type: 'long', fieldId: 1 },
      { name: 't', type: 'string', fieldId: 2 },
    ],
  }
  return { session: await engine.open(job, patience()), numbers }
}

const ROWS = { kind: 'rows', sql: 'SELECT n, t FROM rows ORDER BY n' } as const

async function rowsIn(run: EngineRun): Promise<unknown[]> {
  const rows: unknown[] = []
  for await (const batch of rowsOf(run)) rows.push(...batch)
  return rows
}

async function textOf(run: EngineRun): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of run.output) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

describe('a session', () => {
  it('answers one request after the other in the process that did its job', async () => {
    const before = new Set(await childrenOf(process.pid))
    const { session, numbers } = await openNumbers()
    assert.deepEqual(session.results[0]?.rows, [[3n]])
    const [first, csv, none, count] = await Promise.all([
      session.run({ tables: [numbers], output: ROWS }),
      session.run({ tables: [numbers], output: { kind: 'copy-csv', sql: 'SELECT t, n FROM rows ORDER BY n' } }),
      session.run({ tables: [numbers], output: { kind: 'rows', sql: 'SELECT n FROM rows WHERE n > 5' } }),
      session.run({ tables: [numbers], steps: [{ sql: 'SELECT count(*) FROM rows', rows: 'collect' }] }),
    ])
    assert.deepEqual(await rowsIn(first), [
      [0n, 'é0'],
      [1n, 'é1'],
      [2n, 'é2'],
    ])
    assert.equal(await textOf(csv), '"é0","0"\n"é1","1"\n"é2","2"\n')
    assert.deepEqual(await rowsIn(none), [])
    assert.deepEqual(count.results[0]?.rows, [[3n]])
    const started = [...(await childrenOf(process.pid))].filter((pid) => !before.has(pid))
    assert.equal(started.length, 1)
    await session.close()
    assert.equal(session.isOpen, false)
    await assert.rejects(session.run({ tables: [numbers], output: ROWS }), { code: 'query_cancelled' })
  })

  it('gives what a job of its own gives, byte for byte', async () => {
    const { session, numbers } = await openNumbers(20_000)
    const template = { parts: [{ column: 'n', before: 'k:' }], after: '' }
    const outputs: readonly SessionOutput[] = [
      ROWS,
      { kind: 'copy-csv', sql: 'SELECT * FROM rows ORDER BY n' },
      { kind: 'keyed-json', sql: 'SELECT t, n AS value, n FROM rows ORDER BY n', template },
    ]
    for (const output of outputs) {
      const alone = await engine.run({ trust: 'own', tables: [numbers], output, limits: LIMITS }, patience())
      const [expected, kept] = [await textOf(alone), await session.run({ tables: [numbers], output })]
      assert.equal(await textOf(kept), expected)
      const { bytes, ...summary } = await kept.finished
      assert.deepEqual(summary, { rows: 20_000, truncated: false })
      assert.equal(bytes, Buffer.byteLength(expected))
      assert.deepEqual(kept.columns, alone.columns)
    }
    await session.close()
  })

  it('reads its own files and no other', async () => {
    const { session, numbers } = await openNumbers()
    const other = join(dir, 'secret.csv')
    await writeFile(other, 'secret\n')
    const sql = `SELECT * FROM read_csv('${other}')`
    const refused = await session.run({ tables: [], output: { kind: 'rows', sql } }).catch((error: Error) => error)
    assert.ok(refused instanceof Error)
    assert.doesNotMatch(String(refused), /secret\n/)
    const files = [other]
    await assert.rejects(session.run({ tables: [{ ...numbers, files }], output: ROWS }))
    await assert.rejects(session.run({ tables: [], steps: [{ sql: 'SET memory_limit = "8GB"' }] }))
    assert.deepEqual((await rowsIn(await session.run({ tables: [numbers], output: ROWS }))).length, 3)
    await session.close()
  })

  it('goes on after a statement that fails', async () => {
    const { session, numbers } = await openNumbers()
    await assert.rejects(session.run({ tables: [numbers], output: { kind: 'rows', sql: 'SELECT nothing FROM rows' } }))
    assert.equal((await rowsIn(await session.run({ tables: [numbers], output: ROWS }))).length, 3)
    assert.equal(session.isOpen, true)
    await session.close()
  })

  it('ends when nobody asks in time', async () => {
    const { session } = await openNumbers(3, { idleMs: 20 })
    await session.ended
    assert.equal(session.isOpen, false)
    await until('its folder is gone', async () => (await readdir(join(dir, 'scratch'))).length === 0)
  })

  it('gives its place to who waits for one, when it has nothing to do', async () => {
    const program = await testEngineProgram()
    const one = createEngine({
      scratchDir: join(dir, 'one'),
      ...program,
      maxChildren: 1,
      warmChildren: 0,
      maxQueued: 4,
    })
    try {
      const job = { trust: 'own', limits: LIMITS, idleMs: HOUR_MS } as const
      const session = await one.open(job, patience())
      await one.run({ ...job, steps: [{ sql: 'SELECT 1' }] }, patience())
      assert.equal(session.isOpen, false)
      const busy = await one.open(job, patience())
      const asked = busy.run({ tables: [], output: { kind: 'rows', sql: 'SELECT sum(i) AS s FROM range(1000) r(i)' } })
      const next = one.run({ ...job, steps: [{ sql: 'SELECT 1' }] }, patience())
      assert.deepEqual(await rowsIn(await asked), [[499500n]])
      await next
      assert.equal(busy.isOpen, false)
    } finally {
      await one.close()
    }
  })

  it('is read slowly without holding up the next request, and to its end when it has closed', async () => {
    const { session, numbers } = await openNumbers(200_000)
    const slow = await session.run({ tables: [numbers], output: ROWS })
    assert.equal((await rowsIn(await session.run({ tables: [numbers], output: ROWS }))).length, 200_000)
    await session.close()
    assert.equal((await rowsIn(slow)).length, 200_000)
  })

  it('ends with its caller, and is over when a request takes too long or too much memory', async () => {
    const endless = { kind: 'rows', sql: 'SELECT sum(hash(i)) FROM range(100000000000) r(i)' } as const
    const stop = new AbortController()
    const job = { trust: 'own', limits: LIMITS, idleMs: HOUR_MS } as const
    const called = await engine.open(job, stop.signal)
    const running = called.run({ tables: [], output: endless })
    stop.abort()
    await assert.rejects(running, { code: 'query_cancelled' })
    await withLimits([3_000, 30_000, 300_000], async (timeoutMs) => {
      const late = await engine.open({ ...job, limits: { ...LIMITS, timeoutMs, threads: 1 } }, patience())
      await assert.rejects(late.run({ tables: [], output: endless }), { code: 'query_timeout' })
      await late.ended
    })
    const large = await engine.open({ ...job, limits: { ...LIMITS, memoryBytes: 64 * MIB } }, patience())
    const list = { kind: 'rows', sql: 'SELECT len(list(i)) FROM range(300000000) r(i)' } as const
    await assert.rejects(large.run({ tables: [], output: list }), { code: 'query_memory_exceeded' })
    await Promise.all([called.ended, large.close()])
  })
})
