import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { until } from '../../test/until.ts'
import {
  createEngine,
  type EngineJob,
  type EngineRun,
  type EngineTable,
  type PooledEngine,
  type StreamOutput,
} from './index.ts'
import { testEngineProgram } from './testing.ts'
import { childrenOf } from './walls/process-table.ts'

const MIB = 1024 * 1024
const LIMITS = { memoryBytes: 256 * MIB, timeoutMs: 600_000, threads: 2 } as const
const HOUR_MS = 3_600_000
const patience = () => AbortSignal.timeout(600_000)

let dir: string
let engine: PooledEngine
const open: PooledEngine[] = []
let orders: EngineTable
let payments: EngineTable

async function opened(limits: { readonly maxChildren: number; readonly keepMs?: number }): Promise<PooledEngine> {
  const program = await testEngineProgram()
  const options = { scratchDir: join(dir, 'scratch'), ...program, warmChildren: 0, maxQueued: 100, keepMs: HOUR_MS }
  const one = createEngine({ ...options, ...limits })
  open.push(one)
  return one
}

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-kept-'))
  const writer = await opened({ maxChildren: 1 })
  const written = async (name: string, sql: string): Promise<EngineTable> => {
    const path = join(dir, `${name}.parquet`)
    const steps = [{ sql: `COPY (${sql}) TO '${path}' (FORMAT parquet, FIELD_IDS {id: 1, note: 2})` }]
    await writer.run({ trust: 'own', steps, writeDirs: [dir], limits: LIMITS }, patience())
    const columns = [
      { name: 'id', type: 'long', fieldId: 1 },
      { name: 'note', type: 'string', fieldId: 2 },
    ] as const
    return { name: ['sales', name], files: [path], columns }
  }
  orders = await written('orders', `SELECT i AS id, 'note "' || i || ',' AS note FROM range(20000) r(i)`)
  payments = await written('payments', `SELECT i AS id, 'paid' AS note FROM range(3) r(i)`)
  engine = await opened({ maxChildren: 4 })
})

afterEach(async () => {
  // What was kept by one test is not there for the next.
  await Promise.all(open.splice(0).map((one) => one.close()))
  engine = await opened({ maxChildren: 4 })
})

after(async () => {
  await Promise.all(open.map((one) => one.close()))
  await rm(dir, { recursive: true, force: true })
})

function job(sql: string, more: Partial<EngineJob> = {}): EngineJob {
  return { trust: 'tenant', tenant: 'acme', tables: [orders], output: { kind: 'rows', sql }, limits: LIMITS, ...more }
}

/** Hundredths of a second of a processor, all its threads together. */
async function ticksOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

async function textOf(run: EngineRun): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of run.output) chunks.push(chunk)
  return Buffer.concat(chunks).toString('latin1')
}

const ask = async (sql: string, more: Partial<EngineJob> = {}) => textOf(await engine.run(job(sql, more), patience()))

/** A number below `limit`, by a linear congruence: enough to mix statements, and the same for a seed. */
function seeded(seed: number): (limit: number) => number {
  let state = seed % 2 ** 31
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return (state >>> 8) % limit
  }
}

const children = () => childrenOf(process.pid)
const COUNT = 'SELECT count(*)::INTEGER FROM sales.orders'

describe('a child that stays', () => {
  it('answers the next statement over the same tables, and gives what a new one gives, byte for byte', async () => {
    const outputs: readonly StreamOutput[] = [
      { kind: 'rows', sql: 'SELECT * FROM sales.orders ORDER BY id' },
      { kind: 'json-rows', sql: 'SELECT * FROM sales.orders ORDER BY id' },
      { kind: 'ndjson', sql: 'SELECT id, note FROM sales.orders WHERE id > $1 ORDER BY id', parameters: [19_000] },
      { kind: 'csv', sql: 'SELECT id, note AS "a ""b""" FROM sales.orders ORDER BY id' },
      { kind: 'json-rows', sql: 'SELECT id FROM sales.orders WHERE id < 0' },
      { kind: 'parquet', sql: 'SELECT note FROM sales.orders ORDER BY id' },
    ]
    const alone = await opened({ maxChildren: 1 })
    await ask(COUNT)
    const kept = await children()
    for (const output of outputs) {
      for (const maxRows of [undefined, 7]) {
        const limits = maxRows === undefined ? LIMITS : { ...LIMITS, maxRows }
        const given = job('', { output, limits })
        const [run, expected] = [
          await engine.run(given, patience()),
          await alone.run({ ...given, tenant: `t${maxRows}` }, patience()),
        ]
        assert.deepEqual(await textOf(run), await textOf(expected), JSON.stringify({ output, maxRows }))
        assert.deepEqual(await run.finished, await expected.finished)
        assert.deepEqual(run.columns, expected.columns)
        assert.deepEqual(run.lineage, expected.lineage)
      }
    }
    await alone.close()
    assert.deepEqual(await children(), kept, 'all of them ran in the first one’s child')
  })

  it('is no other tenant’s, and of no other tables, files, deleted rows, names or memory', async () => {
    assert.equal(await ask(COUNT), '[20000]\n')
    const others: readonly Partial<EngineJob>[] = [
      { tenant: 'umbrella' },
      { tables: [orders, payments] },
      { tables: [{ ...orders, files: payments.files }] },
      { tables: [{ ...orders, columns: orders.columns.slice(0, 1) }] },
      { tables: [{ ...orders, deletes: payments.files.slice(0, 0) }] },
      { limits: { ...LIMITS, memoryBytes: 300 * MIB } },
      { limits: { ...LIMITS, threads: 1 } },
    ]
    for (const other of others) {
      const before = new Set(await children())
      await ask(COUNT, other)
      const started = [...(await children())].filter((pid) => !before.has(pid))
      assert.equal(started.length, 1, JSON.stringify(other))
    }
    // In the first one's child there is nothing of theirs.
    const before = new Set(await children())
    await assert.rejects(ask('SELECT * FROM sales.payments'), { code: 'table_not_found' })
    assert.deepEqual(
      [...(await children())].filter((pid) => !before.has(pid)),
      [],
    )
  })

  it('works on where a terminal or a manager of services tells all of the runtime to stop', async () => {
    const before = new Set(await children())
    const answer = ask('SELECT count(*) AS n FROM range(100000000) a(i) WHERE hash(i) % 3 < 3')
    const started = () => [...childrenOf(process.pid)].filter((pid) => !before.has(pid))
    await until('it works', async () => {
      const [pid] = started()
      return pid !== undefined && (await ticksOf(pid)) > 50
    })
    const [pid] = started() as [number]
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(pid, signal)
    assert.equal(await answer, '[100000000]\n')
    // Ended by its parent alone, as for want of use.
    assert.deepEqual(started(), [pid])
  })

  it('meets one set of tables in its life, however statements of many come together', async () => {
    const tenants = ['acme', 'umbrella'] as const
    const sets = tenants.flatMap((tenant) =>
      ['one', 'two', 'three'].map((name) => {
        const columns = [{ name: 'who', type: 'string', fieldId: 1 }] as const
        return {
          tenant,
          marker: `${tenant}-${name}`,
          tables: [{ name: ['sales', name], files: [], columns, rows: [[`${tenant}-${name}`]] }],
        }
      }),
    )
    const random = seeded(Number(process.env['SLUICE_TEST_SEED'] ?? 1))
    await Promise.all(
      [...Array(90).keys()].map(async (at) => {
        const { tenant, marker, tables } = sets[random(sets.length)] as (typeof sets)[number]
        const names = ['one', 'two', 'three'].filter((name) => `${tenant}-${name}` !== marker)
        const sql = `SELECT who, $1 AS at FROM sales.${marker.slice(tenant.length + 1)}`
        const asked = { tenant, tables, output: { kind: 'ndjson', sql, parameters: [at] } } as const
        assert.equal(await ask('', asked), `{"who":"${marker}","at":${at}}\n`)
        if (at % 9 > 0) return
        const other = job(`SELECT * FROM sales.${names[random(2)]}`, { tenant, tables })
        await assert.rejects(engine.run(other, patience()), { code: 'table_not_found' })
      }),
    )
  })

  it('is judged by the guard for each statement', async () => {
    for (const sql of ["SELECT * FROM read_csv('/etc/passwd')", 'SET threads = 1', 'CREATE TEMP TABLE t AS SELECT 1']) {
      await ask(COUNT)
      await assert.rejects(ask(sql), { code: 'sql_not_allowed' }, sql)
    }
    assert.equal(await ask(COUNT), '[20000]\n')
  })

  it('ends with a statement that fails, and the next has another', async () => {
    const failing: readonly [string, Partial<EngineJob>][] = [
      ['SELECT CAST(note AS INTEGER) FROM sales.orders', {}],
      ['SELECT id FROM sales.orders', { limits: { ...LIMITS, maxRows: 5, wholeOrFailed: true } }],
      ['SELECT id FROM sales.orders', { limits: { ...LIMITS, maxOutputBytes: 10 } }],
      ['SELECT sum(hash(i)) FROM range(100000000000) r(i)', { limits: { ...LIMITS, timeoutMs: 300 } }],
      ["SELECT string_agg(repeat('x', 100000) || i, '') FROM range(100000) r(i)", {}],
    ]
    for (const [sql, more] of failing) {
      await ask(COUNT)
      const before = await children()
      await assert.rejects(ask(sql, more), { name: 'SluiceError' }, sql)
      assert.equal(await ask(COUNT), '[20000]\n')
      assert.notDeepEqual(await children(), before, sql)
      await Promise.all(open.splice(0).map((one) => one.close()))
      engine = await opened({ maxChildren: 4 })
    }
  })

  it('ends where its output is left, or nobody reads it', async () => {
    await ask(COUNT)
    const run = await engine.run(job('SELECT * FROM sales.orders'), patience())
    for await (const _ of run.output) break
    assert.equal(await ask(COUNT), '[20000]\n')
    const late = { ...LIMITS, timeoutMs: 500 }
    await engine.run(job('SELECT 1 FROM sales.orders LIMIT 1', { limits: late }), patience())
    await until('its place is free', () => engine.load().busy === 0)
    assert.equal(await ask(COUNT), '[20000]\n')
  })

  it('takes no processor while nobody takes its rows, whichever of its threads writes them', {
    skip: process.platform !== 'linux' && 'processor time is looked up in /proc',
  }, async () => {
    const sql = 'SELECT o.*, r.range FROM sales.orders o, range(10000) r'
    for (let turn = 0; turn < 4; turn += 1) {
      const run = await engine.run(job(sql, { limits: { ...LIMITS, maxRows: 1_000_000_000 } }), patience())
      const rows = run.output[Symbol.asyncIterator]()
      await rows.next()
      const [pid] = await children()
      await until('it only waits', async () => {
        const before = await ticksOf(pid as number)
        await new Promise((resolve) => setTimeout(resolve, 1_000))
        return (await ticksOf(pid as number)) - before <= 3
      })
      await rows.return?.(undefined)
      await until('it is gone', async () => [...(await children())].length === 0)
    }
  })

  it('ends when nobody asks for it in time, and is not counted as at work meanwhile', async () => {
    engine = await opened({ maxChildren: 2, keepMs: 50 })
    assert.equal(await ask(COUNT), '[20000]\n')
    assert.equal(engine.load().busy, 0)
    await until('it is gone', async () => [...(await children())].length === 0)
  })

  it('gives way to whoever waits for a place', async () => {
    engine = await opened({ maxChildren: 1 })
    for (const tenant of ['acme', 'umbrella', 'acme']) assert.equal(await ask(COUNT, { tenant }), '[20000]\n')
    assert.equal([...(await children())].length, 1)
  })

  it('goes from one statement to the next that waits for these tables, and holds up no other tenant', async () => {
    engine = await opened({ maxChildren: 1 })
    const order: string[] = []
    const asked = async (tenant: string, at: number) => {
      assert.equal(
        await ask(`${COUNT} WHERE id >= $1`, {
          tenant,
          output: { kind: 'rows', sql: `${COUNT} WHERE id >= $1`, parameters: [at] },
        }),
        `[${20_000 - at}]\n`,
      )
      order.push(tenant)
    }
    await Promise.all([...Array(12).keys()].map((at) => asked(at === 11 ? 'umbrella' : 'acme', at)))
    const place = order.indexOf('umbrella')
    assert.ok(place >= 0 && place < 4, `the other tenant was served after ${place}`)
  })
})

describe('a statement that is only described', () => {
  const shapeOf = (sql: string, table = orders): EngineJob => ({
    trust: 'tenant',
    tenant: 'acme',
    tables: [table],
    output: { kind: 'shape', sql, parameters: [1n] },
    limits: LIMITS,
  })

  it('is planned, and leaves its process to the statement itself; known columns take none', async () => {
    const sql = 'SELECT note, sum(id + CAST($1 AS INTEGER)) AS total FROM sales.orders GROUP BY note'
    const run = await engine.run(shapeOf(sql), patience())
    for await (const chunk of run.output) assert.fail(String(chunk))
    assert.deepEqual(run.columns, [
      { name: 'note', type: 'string' },
      { name: 'total', type: 'hugeint' },
    ])
    const before = children()
    await until('its place is free', () => engine.load().busy === 0)
    const rows = await engine.run({ ...shapeOf(sql), output: { kind: 'csv', sql, parameters: [1n] } }, patience())
    for await (const _ of rows.output);
    assert.deepEqual(children(), before)
    // An epoch with the same columns has other files, and another process would be begun for these.
    const next = { ...payments, name: orders.name }
    assert.deepEqual((await engine.run(shapeOf(sql, next), patience())).columns, run.columns)
    assert.deepEqual(children(), before)
    const changed = {
      ...next,
      columns: [{ name: 'id', type: 'string', fieldId: 1 }, ...next.columns.slice(1)],
    } as const
    const anew = await engine.run(
      shapeOf('SELECT id, note FROM sales.orders LIMIT CAST($1 AS BIGINT)', changed),
      patience(),
    )
    for await (const _ of anew.output);
    assert.equal(anew.columns[0]?.type, 'string')
  })
})
