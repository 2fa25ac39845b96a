import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { openDuckDb } from './child/duckdb.ts'
import { ALLOWED_FUNCTIONS, ALLOWED_WINDOW_FUNCTIONS } from './guard/functions.ts'
import { isStable, isStableText, UNSTABLE_FUNCTIONS } from './guard/stability.ts'
import { createEngine, type EngineJob, type EngineRun, type EngineTable, type PooledEngine } from './index.ts'
import { accessSet } from './kept-child.ts'
import { Results } from './results.ts'
import { testEngineProgram } from './testing.ts'
import { childrenOf } from './walls/process-table.ts'

const MIB = 1024 * 1024
const LIMITS = { memoryBytes: 256 * MIB, timeoutMs: 600_000, threads: 1, maxRows: 100 } as const
const patience = () => AbortSignal.timeout(600_000)

let dir: string
let engine: PooledEngine

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-results-'))
})

beforeEach(async () => {
  await engine?.close()
  // No child stays, so that whoever starts one has been at work.
  const children = { maxChildren: 4, warmChildren: 0, maxQueued: 10 }
  engine = createEngine({
    scratchDir: join(dir, 'scratch'),
    ...(await testEngineProgram()),
    ...children,
    resultBytes: MIB,
  })
})

after(async () => {
  await engine.close()
  await rm(dir, { recursive: true, force: true })
})

const people = (...names: string[]): EngineTable => ({
  name: ['hr', 'people'],
  files: [],
  columns: [{ name: 'name', type: 'string', fieldId: 1 }],
  rows: names.map((name) => [name]),
})

const SQL = 'SELECT name FROM hr.people WHERE name <> $1 ORDER BY name'

function job(more: Partial<EngineJob> = {}, sql = SQL, parameters: readonly string[] = ['nobody']): EngineJob {
  const output = { kind: 'json-rows', sql, parameters } as const
  return { trust: 'tenant', tenant: 'acme', tables: [people('ada', 'bob')], output, limits: LIMITS, ...more }
}

async function textOf(run: EngineRun): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of run.output) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

/** Whether a process was started for it, and what it gave. */
async function asked(one: EngineJob) {
  const before = new Set(await childrenOf(process.pid))
  const run = await engine.run(one, patience())
  const isNew = [...(await childrenOf(process.pid))].some((pid) => !before.has(pid))
  const text = await textOf(run)
  const { bytes, ...summary } = await run.finished
  assert.ok(bytes >= text.length)
  return { isNew, text, summary, columns: run.columns, lineage: run.lineage }
}

describe('an answer', () => {
  it('is given again, all that is told of it too, without any work', async () => {
    const { isNew, ...first } = await asked(job())
    const { isNew: isNewAgain, ...second } = await asked(job({ limits: { ...LIMITS, timeoutMs: 500_000 } }))
    assert.deepEqual([isNew, isNewAgain], [true, false])
    assert.deepEqual(second, first)
    assert.equal(first.text, '["ada"],\n["bob"]')
    assert.deepEqual(first.lineage[0]?.direct, [{ table: ['hr', 'people'], column: 'name' }])
  })

  it('is of its own tenant, tables, rows, statement, parameters, form and limits', async () => {
    await asked(job())
    const others: readonly EngineJob[] = [
      job({ tenant: 'umbrella' }),
      job({ tables: [people('ada', 'eve')] }),
      job({ tables: [people('ada', 'bob'), { ...people('ada'), name: ['hr', 'others'] }] }),
      job({}, SQL.replace('ORDER', 'order')),
      job({}, SQL, ['ada']),
      job({ output: { kind: 'ndjson', sql: SQL, parameters: ['nobody'] } }),
      job({ limits: { ...LIMITS, maxRows: 1 } }),
      job({ limits: { ...LIMITS, maxOutputBytes: 10_000 } }),
    ]
    for (const other of others) assert.equal((await asked(other)).isNew, true, JSON.stringify(other))
    assert.equal((await asked(job({ limits: { ...LIMITS, maxRows: 1 } }))).text, '["ada"]')
  })

  it('is not kept where it failed, was left, goes by the clock or chance, or has nobody’s tenant', async () => {
    const run = await engine.run(job(), patience())
    for await (const _ of run.output) break
    assert.equal((await asked(job())).isNew, true)
    const unstable = [
      'SELECT random() < 2 FROM hr.people',
      'SELECT now() > TIMESTAMPTZ $$2020-01-01$$',
      'SELECT CURRENT_DATE > DATE $$2020-01-01$$',
      'SELECT age(TIMESTAMP $$2020-01-01$$) > INTERVAL 1 DAY',
      'SELECT count(*) FROM hr.people USING SAMPLE 50%',
      'SELECT list_transform([1], lambda x: x + random()) IS NULL',
    ]
    for (const sql of unstable) {
      await asked(job({}, sql, []))
      assert.equal((await asked(job({}, sql, []))).isNew, true, sql)
    }
    const failing = job({}, 'SELECT CAST(name AS INTEGER) FROM hr.people', [])
    await assert.rejects(asked(failing))
    await assert.rejects(asked(failing))
    assert.equal(accessSet(job({ tenant: '' })), null)
    assert.equal(accessSet({ ...job(), trust: 'own' }), null)
  })

  it('takes no more room than there is, and is forgotten in time', async () => {
    let nowMs = 0
    const results = new Results(160, () => nowMs)
    const keep = async (key: string, text: string) => {
      const output = (async function* () {
        yield Buffer.from(text)
      })()
      const finished = Promise.resolve({ rows: 1, bytes: text.length, truncated: false })
      assert.equal(
        await textOf(results.kept(key, { results: [], columns: [], lineage: [], files: [], output, finished })),
        text,
      )
    }
    const has = async (key: string) => {
      const run = results.get(key)
      return run === null ? null : await textOf(run)
    }
    await keep('large', 'x'.repeat(11))
    assert.equal(await has('large'), null)
    for (let at = 0; at < 16; at++) await keep(`k${at}`, 'x'.repeat(10))
    assert.equal(await has('k0'), 'x'.repeat(10))
    await keep('k16', 'y'.repeat(10))
    assert.deepEqual([await has('k0'), await has('k1'), await has('k16')], ['x'.repeat(10), null, 'y'.repeat(10)])
    nowMs = 300_000
    assert.equal(await has('k16'), null)
  })

  it('may be kept of every function that DuckDB calls consistent, and of none that it does not', async () => {
    const connection = await openDuckDb()
    const rows = await (
      await connection.run("SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'")
    ).getRows()
    const allowed = new Set([...ALLOWED_FUNCTIONS, ...ALLOWED_WINDOW_FUNCTIONS])
    const unstable = rows.map(([name]) => String(name)).filter((name) => allowed.has(name))
    assert.ok(unstable.includes('random') && unstable.includes('now'))
    assert.deepEqual(
      unstable.filter((name) => !UNSTABLE_FUNCTIONS.has(name)),
      [],
    )
    for (const name of UNSTABLE_FUNCTIONS) {
      for (const text of [
        `SELECT ${name.toUpperCase()}() FROM t`,
        `SELECT a,"${name}" (b)`,
        `WHERE x>'${name}'::date`,
        `a.${name}()`,
      ]) {
        assert.equal(isStableText(text), false, text)
      }
    }
    for (const text of ['SELECT * FROM t USING SAMPLE 10', 'FROM t TABLESAMPLE 5%'])
      assert.equal(isStableText(text), false)
    for (const text of ['SELECT knows, a_now, samples FROM t', "SELECT 'nowhere'"])
      assert.equal(isStableText(text), true)
    assert.equal(isStable({ statements: [{ node: { function_name: 'NOW', sample: null } }] }), false)
  })
})
