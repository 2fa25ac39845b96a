import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isSluiceError, type LogicalType, SluiceError } from '@sluice/sdk'
import { until } from '../../test/until.ts'
import type { ChildProgram } from './engine-child.ts'
import {
  createEngine,
  type Engine,
  type EngineJob,
  type EngineRun,
  type EngineTable,
  type JobAccounts,
  rowsOf,
  type Within,
} from './index.ts'
import { testEngineProgram } from './testing.ts'
import { childrenOf, isAlive } from './walls/process-table.ts'

const MIB = 1024 * 1024
const LIMITS = { memoryBytes: 512 * MIB, timeoutMs: 600_000, threads: 2 } as const

let dir: string
let program: ChildProgram
let engine: Engine
let orders: EngineTable

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-engine-'))
  program = await testEngineProgram()
  engine = createEngine({
    scratchDir: join(dir, 'scratch'),
    ...program,
    maxChildren: 2,
    warmChildren: 1,
    maxQueued: 2,
  })
  const path = join(dir, 'orders.parquet')
  const rows = "(1, 'ada', 12.50, NULL), (2, 'bob', 7.25, ''), (3, 'zoë', NULL, '☃')"
  await own(`COPY (SELECT id::INTEGER AS id, customer, amount::DECIMAL(10,2) AS amount, note FROM
    (VALUES ${rows}) AS t(id, customer, amount, note)) TO '${path}' (FORMAT parquet, FIELD_IDS {id: 1, customer: 2, amount: 3, note: 4})`)
  orders = {
    name: ['sales', 'orders'],
    files: [path],
    columns: [
      { name: 'id', type: 'integer', fieldId: 1 },
      { name: 'customer', type: 'string', fieldId: 2 },
      { name: 'amount', type: 'decimal(10,2)', fieldId: 3 },
      { name: 'note', type: 'string', fieldId: 4 },
    ],
  }
})

after(async () => {
  await engine.close()
  await rm(dir, { recursive: true, force: true })
})

/** Has one place for a job, and one for a job that waits. */
function engineOfOne(scratchDir = join(dir, 'scratch')): Engine {
  return createEngine({ scratchDir, ...program, maxChildren: 1, warmChildren: 0, maxQueued: 1 })
}

describe('CPU time', () => {
  it('is charged to whom the job is for: also while it runs, and of one that is stopped', async () => {
    const used = new Map<string | null, number>()
    const accounts = {
      refuseSpent(tenant: string) {
        if (tenant === 'spent') throw new SluiceError('QUOTA', 'spent', { code: 'cpu_time_spent' })
      },
      payerOf: (asking: string | null) => asking,
      charge(tenant: string | null, _: string, seconds: number) {
        used.set(tenant, (used.get(tenant) ?? 0) + seconds)
      },
    } as JobAccounts
    const counted = createEngine({
      scratchDir: join(dir, 'counted'),
      ...program,
      maxChildren: 2,
      warmChildren: 0,
      maxQueued: 1,
      accounts,
    })
    try {
      const sql = 'SELECT sum(hash(i)) FROM range(100000000000) r(i)'
      const stop = new AbortController()
      const endless = counted.run({ trust: 'tenant', tenant: 'acme', steps: [{ sql }], limits: LIMITS }, stop.signal)
      await until('it is charged while it runs', async () => (used.get('acme') ?? 0) > 1)
      stop.abort()
      await assert.rejects(endless, { code: 'query_cancelled' })
      await counted.run({ trust: 'own', steps: [{ sql: 'SELECT 1' }], limits: LIMITS }, patience())
      assert.ok((used.get(null) ?? 0) > 0, 'the start of a process is work, too')
      const query = { trust: 'tenant', tenant: 'spent', limits: LIMITS } as const
      await assert.rejects(counted.run({ ...query, output: { kind: 'rows', sql: 'SELECT 1' } }, patience()), {
        code: 'cpu_time_spent',
      })
      await counted.run({ ...query, output: { kind: 'inspect', sql: 'SELECT 1' } }, patience())
      assert.deepEqual([...used.keys()], ['acme', null, 'spent'])
    } finally {
      await counted.close()
    }
  })
})

const patience = () => AbortSignal.timeout(600_000)

describe('places', () => {
  it('are never all of one tenant', async () => {
    const unread = { kind: 'rows', sql: 'SELECT i, i::VARCHAR FROM range(5000000) r(i)' } as const
    const holding = new AbortController()
    const held = await engine.run({ trust: 'tenant', tenant: 'many', output: unread, limits: LIMITS }, holding.signal)
    let isSecondStarted = false
    const second = engine.run(
      { trust: 'tenant', tenant: 'many', steps: [{ sql: 'SELECT 1' }], limits: LIMITS },
      AbortSignal.timeout(600_000),
    )
    void second.then(() => {
      isSecondStarted = true
    })
    const other = { trust: 'tenant', tenant: 'one', steps: [{ sql: 'SELECT 1' }], limits: LIMITS } as const
    await engine.run(other, AbortSignal.timeout(600_000))
    assert.equal(isSecondStarted, false, 'the tenant with a job waits for its own')
    holding.abort()
    held.finished.catch(() => undefined)
    await second
  })
})

describe('wide results', () => {
  it('are told whole, however much there is to tell of their columns', async () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `column number ${index} ${'x'.repeat(50)}`)
    const wide = `SELECT ${names.map((name, index) => `${index} AS "${name}"`).join(', ')}`
    const sql = `WITH w AS (${wide}) SELECT a.*, b.*, c.*, d.*, e.* FROM w a, w b, w c, w d, w e`
    const output = { kind: 'csv', sql } as const
    const run = await engine.run({ trust: 'tenant', output, limits: LIMITS }, AbortSignal.timeout(600_000))
    assert.equal(run.columns.length, 5_000)
    let text = ''
    for await (const chunk of run.output) text += Buffer.from(chunk).toString()
    await run.finished
    assert.equal(text.trimEnd().split('\n')[1]?.split(',').length, 5_000)
  })
})

describe('timestamps of CSV', () => {
  const cells = [
    "'2024-02-29 08:15:00.5'",
    "'1969-12-31 23:59:59.999999'",
    "'0044-03-15 (BC) 00:00:00'",
    "'-infinity'",
    'NULL',
  ]
  const columns = ['TIMESTAMP', 'TIMESTAMP_S', 'TIMESTAMP_MS', 'TIMESTAMPTZ', 'TIMESTAMP_NS']
  // Nanoseconds do not reach so far.
  const cast = (cell: string, type: string) => (type === 'TIMESTAMP_NS' && cell.includes('BC') ? 'NULL' : cell)
  const sql = cells
    .map((cell) => `SELECT ${columns.map((type) => `${cast(cell, type)}::${type}`).join(', ')}`)
    .join(' UNION ALL ')

  const rowsOf = async (timestamps: 'text' | 'micros') => {
    const output = { kind: 'csv', sql, timestamps } as const
    const run = await engine.run({ trust: 'tenant', output, limits: LIMITS }, AbortSignal.timeout(600_000))
    let text = ''
    for await (const chunk of run.output) text += Buffer.from(chunk).toString()
    await run.finished
    return text.trimEnd().split('\n').slice(1)
  }

  // What is rounded to seconds or milliseconds is so before it is counted.
  it('are told, or counted in microseconds as far as they have no finer digits', async () => {
    assert.deepEqual(await rowsOf('micros'), [
      '1709194500500000,1709194501000000,1709194500500000,1709194500500000,2024-02-29T08:15:00.500000',
      '-1,0,0,-1,1969-12-31T23:59:59.999999',
      '-63517824000000000,-63517824000000000,-63517824000000000,-63517824000000000,',
      '-infinity,-infinity,-infinity,-infinity,-infinity',
      ',,,,',
    ])
    assert.equal((await rowsOf('text'))[0]?.split(',')[3], '2024-02-29T08:15:00.500000Z')
  })
})

describe('results of many columns', () => {
  it('are told in every form', async () => {
    const sql = `SELECT ${Array.from({ length: 600 }, (_, index) => `${index} AS c${index}`).join(', ')}`
    const values = Array.from({ length: 600 }, (_, index) => index)
    assert.deepEqual(await allRows(await start({}, sql)), [values])
    assert.deepEqual(JSON.parse(await text(await start({}, sql, 'json-rows'))), values)
    assert.deepEqual(Object.values(JSON.parse(await text(await start({}, sql, 'ndjson')))), values)
  })
})

describe('numbers beyond a DOUBLE', () => {
  it('are infinite, and stay apart from the word', async () => {
    const rows = await allRows(
      await start({}, `SELECT 1e400, -1e400 AS low, '"Infinity' AS word, 'NaN'::DOUBLE AS none`),
    )
    assert.deepEqual(rows, [[Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, '"Infinity', Number.NaN]])
  })
})

describe('tables', () => {
  it('are read by field id, whatever the columns were called and typed', async () => {
    const evolved: EngineTable = {
      name: ['Odd "schema"', "table's; --"],
      files: orders.files,
      columns: [
        { name: 'new column', type: 'json', fieldId: 9 },
        { name: 'buyer "x"', type: 'string', fieldId: 2 },
        { name: 'id', type: 'long', fieldId: 1 },
      ],
    }
    const rows = await tenant('SELECT * FROM "Odd ""schema"""."table\'s; --" ORDER BY id', [evolved])
    assert.deepEqual(rows, [
      [null, 'ada', 1n],
      [null, 'bob', 2n],
      [null, 'zoë', 3n],
    ])
  })

  it('without files are empty and keep their columns', async () => {
    const run = await start({ tables: [{ ...orders, files: [] }] }, 'SELECT * FROM sales.orders')
    assert.deepEqual(
      run.columns.map(({ name, type }) => [name, type]),
      [
        ['id', 'integer'],
        ['customer', 'string'],
        ['amount', 'decimal(10,2)'],
        ['note', 'string'],
      ],
    )
    assert.deepEqual(await allRows(run), [])
  })

  it('leave out the rows that position delete files name', async () => {
    const deletes = join(dir, 'deletes.parquet')
    const named = 's3://lake/orders.parquet'
    await own(`COPY (SELECT * FROM (VALUES ('${named}', 1::BIGINT), ('s3://lake/other.parquet', 0::BIGINT)) AS t(file_path, pos))
      TO '${deletes}' (FORMAT parquet)`)
    const table = { ...orders, deletes: [deletes], deletedFrom: [named] }
    assert.deepEqual(await tenant('SELECT id FROM sales.orders ORDER BY id', [table]), [[1], [3]])
  })
})

describe('output', () => {
  it('gives every logical type its value', async () => {
    const sql = `SELECT 'é' AS s, true AS b, 1::INTEGER AS i, 9223372036854775807 AS l, 1.5::FLOAT AS f, 'nan'::DOUBLE AS d,
      -1.50::DECIMAL(10,2) AS n, DATE '0001-01-01' AS day, TIMESTAMP '2024-02-29 01:02:03.000004' AS ts,
      TIMESTAMPTZ '2024-02-29 01:02:03+02' AS tz, '6F9619FF-8B86-D011-B42D-00C04FC964FF'::UUID AS u, '\\x00\\xFF'::BLOB AS x,
      '{"a": 12345678901234567890}'::JSON AS j`
    const run = await start({}, sql)
    assert.deepEqual(
      run.columns.map(({ type }) => type),
      [
        'string',
        'boolean',
        'integer',
        'long',
        'float',
        'double',
        'decimal(10,2)',
        'date',
        'timestamp',
        'timestamptz',
        'uuid',
        'binary',
        'json',
      ],
    )
    assert.deepEqual(await allRows(run), [
      [
        'é',
        true,
        1,
        9223372036854775807n,
        1.5,
        Number.NaN,
        '-1.50',
        '0001-01-01',
        '2024-02-29T01:02:03.000004',
        '2024-02-28T23:02:03.000000Z',
        '6f9619ff-8b86-d011-b42d-00c04fc964ff',
        new Uint8Array([0, 255]),
        '{"a": 12345678901234567890}',
      ],
    ])
  })

  it('writes types that are no logical ones as JSON of a named kind', async () => {
    const sql = `SELECT sum(range) AS h, [1, NULL] AS l, {'a': 1, 'b': 'x'} AS s, map {'k': 1} AS m, map {1: 2} AS n,
      INTERVAL '14 months 3 days 1.5 seconds' AS v, TIME '01:02:03.5' AS t, NULL AS z FROM range(3)`
    const run = await start({}, sql, 'ndjson')
    assert.deepEqual(
      run.columns.map(({ type }) => type),
      [
        'hugeint',
        'list<integer>',
        'struct<a:integer,b:string>',
        'map<string,integer>',
        'map<integer,integer>',
        'interval',
        'time',
        'integer',
      ],
    )
    assert.equal(
      await text(run),
      '{"h":3,"l":[1,null],"s":{"a":1,"b":"x"},"m":{"k":1},"n":[[1,2]],"v":"1 year 2 months 3 days 00:00:01.5","t":"01:02:03.500000","z":null}\n',
    )
  })

  it('is rows of JSON that join to one list', async () => {
    const run = await start({ tables: [orders] }, 'SELECT id, amount, note FROM sales.orders ORDER BY id', 'json-rows')
    assert.deepEqual(JSON.parse(`[${await text(run)}]`), [
      [1, '12.50', null],
      [2, '7.25', ''],
      [3, null, '☃'],
    ])
    assert.deepEqual(await run.finished, { rows: 3, bytes: 47, truncated: false })
  })

  it('is JSON, where a value that calls itself so is none', async () => {
    const run = await start({}, 'SELECT CAST(CAST([1, NULL] AS JSON[]) AS JSON) AS x', 'ndjson')
    assert.deepEqual(JSON.parse(await text(run)), { x: '[1, NULL]' })
  })

  it('holds every character as it is', async () => {
    const characters = Array.from({ length: 0x2ff }, (_, index) => String.fromCharCode(index + 1))
    const texts = [...characters, '#', ' #x', 'a#b', '\u2028', '\ufeff', '\ufeffx', '😀#', 'NULL', '\\N', ',,', "''"]
    const sql = `SELECT * FROM (VALUES ${texts.map((one) => `('${one.replaceAll("'", "''")}')`).join(', ')}) AS t(x)`
    const run = (kind: 'rows' | 'json-rows' | 'ndjson' | 'copy-csv' | 'csv') => start({}, sql, kind)
    assert.deepEqual(
      await allRows(await run('rows')),
      texts.map((one) => [one]),
    )
    assert.deepEqual(
      JSON.parse(`[${await text(await run('json-rows'))}]`),
      texts.map((one) => [one]),
    )
    const lines = (await text(await run('ndjson'))).trimEnd().split('\n')
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      texts.map((x) => ({ x })),
    )
    const quoted = texts.map((one) => `"${one.replaceAll('"', '""')}"\n`).join('')
    assert.equal(await text(await run('copy-csv')), quoted)
    assert.equal(await text(await run('csv')), `"x"\n${quoted}`)
  })

  it('is CSV that tells null from the empty text', async () => {
    const sql = `SELECT id, customer || ', "x"' AS "a ""b""", note FROM sales.orders ORDER BY id`
    const run = await start({ tables: [orders] }, sql, 'csv')
    assert.equal(await text(run), '"id","a ""b""","note"\n1,"ada, ""x""",\n2,"bob, ""x""",""\n3,"zoë, ""x""","☃"\n')
  })

  it('is text for COPY, with bytes as PostgreSQL writes them', async () => {
    const sql = `SELECT id, note, 'ab'::BLOB AS x, '{"a":1}'::JSON AS j, id AS id FROM sales.orders ORDER BY id`
    const run = await start({ tables: [orders] }, sql, 'copy-csv')
    const json = '"{""a"":1}"'
    assert.equal(
      await text(run),
      `"1",,"\\x6162",${json},"1"\n"2","","\\x6162",${json},"2"\n"3","☃","\\x6162",${json},"3"\n`,
    )
  })

  it('is text for COPY of the number that it is, where DuckDB prints another one', async () => {
    const powers = [2 ** 81, -(2 ** 91), 2 ** 806, 1e16, 0.1, 5e-324]
    const sql = `SELECT unnest([${powers.map((one) => `'${one}'::DOUBLE`).join(', ')}])`
    const lines = (await text(await start({}, sql, 'copy-csv'))).trim().split('\n')
    assert.deepEqual(
      lines.map((line) => Number(JSON.parse(line))),
      powers,
    )
  })

  it('is a parquet file', async () => {
    const run = await start({ tables: [orders] }, 'SELECT id, customer FROM sales.orders ORDER BY id', 'parquet')
    const bytes = await collect(run)
    assert.equal(bytes.subarray(0, 4).toString(), 'PAR1')
    await writeFile(join(dir, 'out.parquet'), bytes)
    const rows = await own(`SELECT * FROM '${join(dir, 'out.parquet')}'`)
    assert.deepEqual(rows, [
      [1, 'ada'],
      [2, 'bob'],
      [3, 'zoë'],
    ])
  })

  it('is a parquet file of no more rows than it may have', async () => {
    for (const [sql, kept] of [
      [
        'SELECT id, customer FROM sales.orders ORDER BY id DESC',
        [
          [3, 'zoë'],
          [2, 'bob'],
        ],
      ],
      ['SELECT id, customer FROM sales.orders WHERE id = 1 -- the end', [[1, 'ada']]],
    ] as const) {
      const run = await start({ tables: [orders], limits: { ...LIMITS, maxRows: 2 } }, sql, 'parquet')
      await writeFile(join(dir, 'cut.parquet'), await collect(run))
      assert.deepEqual(await own(`SELECT * FROM '${join(dir, 'cut.parquet')}'`), kept)
      assert.deepEqual(await run.finished.then(({ rows }) => rows), kept.length)
    }
    const two = 'SELECT 1) TO stdout; SELECT (2'
    await assert.rejects(start({ limits: { ...LIMITS, maxRows: 2 } }, two, 'parquet'), { code: 'sql_syntax_error' })
  })

  it('stops at its limit of rows and says so', async () => {
    const run = await start({ limits: { ...LIMITS, maxRows: 5000 } }, 'SELECT * FROM range(100000)')
    assert.equal((await allRows(run)).length, 5000)
    assert.equal((await run.finished).truncated, true)
    const whole = await start({ limits: { ...LIMITS, maxRows: 5000 } }, 'SELECT * FROM range(5000)')
    assert.equal((await allRows(whole)).length, 5000)
    assert.equal((await whole.finished).truncated, false)
  })

  it('fails where it cannot be cut short', async () => {
    const run = await start({ limits: { ...LIMITS, maxRows: 10 } }, 'SELECT * FROM range(11)', 'copy-csv')
    await assert.rejects(collect(run), { code: 'query_result_too_large' })
    await assert.rejects(run.finished, { code: 'query_result_too_large' })
  })

  it('fails over its limit of bytes', async () => {
    const run = await start({ limits: { ...LIMITS, maxOutputBytes: 1000 } }, 'SELECT * FROM range(100000)')
    await assert.rejects(collect(run), { code: 'query_result_too_large' })
  })

  it('fails with the statement, after rows have left', async () => {
    const run = await start(
      {},
      "SELECT CASE WHEN range < 500000 THEN 1 ELSE ('x' || range)::INTEGER END FROM range(600000)",
    )
    await assert.rejects(collect(run), { code: 'sql_conversion_error' })
  })

  it('waits for a slow reader, and holds a million rows in little memory', async () => {
    const limits = { ...LIMITS, memoryBytes: 128 * MIB }
    const run = await start({ limits }, "SELECT range AS id, repeat('x', 100) AS t FROM range(1000000)", 'ndjson')
    const chunks = run.output[Symbol.asyncIterator]()
    let bytes = (await chunks.next()).value?.length ?? 0
    await pause(500)
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) bytes += next.value.length
    assert.equal((await run.finished).rows, 1_000_000)
    assert.equal(bytes, (await run.finished).bytes)
  })

  it('that is left early ends the child', async () => {
    const run = await start({}, 'SELECT * FROM range(100000000)')
    for await (const _chunk of run.output) break
    await assert.rejects(run.finished, { code: 'query_cancelled' })
  })
})

describe('parquet files', () => {
  const columns = [
    { name: 'id', type: 'long', fieldId: 1 },
    { name: 'label "x"', type: 'string', fieldId: 7 },
  ] as const

  it('are written from a tenant’s statement, with field ids, and stay', async () => {
    const target = await folder('written')
    const output = {
      kind: 'parquet-files' as const,
      sql: `SELECT customer || '!' AS "label ""x""", id, 'unused' AS more FROM sales.orders`,
      dir: target,
      columns,
      orderBy: ['id'],
    }
    const run = await engine.run(
      { trust: 'tenant', tables: [orders], output, limits: LIMITS },
      AbortSignal.timeout(600_000),
    )
    assert.equal(
      run.files.reduce((sum, file) => sum + file.rows, 0),
      3,
    )
    assert.deepEqual(
      (await readdir(target)).map((name) => join(target, name)).sort(),
      run.files.map(({ path }) => path).sort(),
    )
    const [first] = run.files
    assert.equal(first?.columnStatistics['"id"']?.max, '3')
    assert.equal((await readFile(first?.path ?? '')).length, first?.sizeBytes)
    const table = { name: ['t'], files: run.files.map(({ path }) => path), columns }
    assert.deepEqual(await tenant('SELECT * FROM t ORDER BY id', [table]), [
      [1n, 'ada!'],
      [2n, 'bob!'],
      [3n, 'zoë!'],
    ])
  })

  it('are told with the texts that they hold, also those that begin like a file of Unicode', async () => {
    const texts = ['\ufeff', '\ufeffz', 'a\ufeff']
    const sql = `SELECT range AS id, (['${texts.join("', '")}'])[range + 1] AS label FROM range(3)`
    const labelled = [columns[0], { name: 'label', type: 'string', fieldId: 7 }] as const
    const output = { kind: 'parquet-files' as const, sql, dir: await folder('marked'), columns: labelled }
    const run = await engine.run({ trust: 'tenant', output, limits: LIMITS }, AbortSignal.timeout(600_000))
    const { min, max } = run.files[0]?.columnStatistics['"label"'] ?? {}
    // Readers pass over a file whose greatest text is less than what they look for.
    assert.deepEqual([min, max], ['a\ufeff', '\ufeffz'])
    const table = { name: ['t'], files: run.files.map(({ path }) => path), columns: labelled }
    const found = (await tenant('SELECT label FROM t ORDER BY id', [table])) as unknown[][]
    assert.deepEqual(found.flat(), texts)
    assert.deepEqual(((await own(`SELECT label FROM (${sql}) ORDER BY id`)) as unknown[][]).flat(), texts)
  })

  it('hold each zero without its sign: a text that is made of it, or a reader that tells the two apart, would have another one', async () => {
    const sql = "SELECT '-0'::FLOAT AS f, '-0'::DOUBLE AS d UNION ALL SELECT '-1e-45', '-5e-324'"
    const floats = [
      { name: 'f', type: 'float', fieldId: 1 },
      { name: 'd', type: 'double', fieldId: 2 },
    ] as const
    const output = { kind: 'parquet-files' as const, sql, dir: await folder('zeros'), columns: floats }
    const run = await engine.run({ trust: 'tenant', output, limits: LIMITS }, AbortSignal.timeout(600_000))
    const table = { name: ['t'], files: run.files.map(({ path }) => path), columns: floats }
    const found = await tenant('SELECT f::VARCHAR, d::VARCHAR FROM t ORDER BY f DESC', [table])
    assert.deepEqual(found, [
      ['0.0', '0.0'],
      ['-1e-45', '-5e-324'],
    ])
  })

  it('of a statement that fails leave nothing', async () => {
    const target = await folder('failed')
    const sql = `SELECT range AS id, CASE WHEN range < 900000 THEN 'x' ELSE error_here::VARCHAR END AS "label ""x"""
      FROM range(1000000), (SELECT 'y'::INTEGER AS error_here)`
    const job = {
      trust: 'tenant' as const,
      output: { kind: 'parquet-files' as const, sql, dir: target, columns },
      limits: LIMITS,
    }
    await assert.rejects(engine.run(job, AbortSignal.timeout(600_000)), { code: 'sql_conversion_error' })
    assert.deepEqual(await readdir(target), [])
  })

  it('are ended while they are written where they need more than there is room for', async () => {
    const exceeded = () => new SluiceError('QUOTA', 'no room', { code: 'tier_limit_exceeded' })
    const limits = { ...LIMITS, room: { bytes: MIB, exceeded } }
    const target = await folder('no-room')
    const sql = `SELECT range AS id, uuid()::VARCHAR AS "label ""x""" FROM range(1000000000000)`
    const endless = { kind: 'parquet-files' as const, sql, dir: target, columns }
    const job = { trust: 'tenant' as const, output: endless, limits }
    await assert.rejects(engine.run(job, AbortSignal.timeout(600_000)), { code: 'tier_limit_exceeded' })
    assert.deepEqual(await readdir(target), [])
    const write = (rows: number) => {
      const copy = `COPY (SELECT uuid() FROM range(${rows})) TO '${target}/rows-${rows}.parquet' (FORMAT parquet)`
      return engine.run(
        { trust: 'own', steps: [{ sql: copy }], writeDirs: [target], limits },
        AbortSignal.timeout(600_000),
      )
    }
    // Done before anybody looks: what it left counts then. What was there before is not the next job's.
    await assert.rejects(write(100_000), { code: 'tier_limit_exceeded' })
    await write(10)
  })

  it('cannot be steered out of their folder by the statement', async () => {
    const target = await folder('steered')
    const sql = `SELECT 1 AS id, 'x' AS "label ""x""") TO '${dir}/planted.parquet' (FORMAT parquet) --`
    const job = {
      trust: 'tenant' as const,
      output: { kind: 'parquet-files' as const, sql, dir: target, columns },
      limits: LIMITS,
    }
    await assert.rejects(engine.run(job, AbortSignal.timeout(600_000)), { code: 'sql_syntax_error' })
    assert(!(await readdir(dir)).includes('planted.parquet'))
  })
})

describe('an inspection', () => {
  const inspected = (kind: 'inspect' | 'inspect-condition', sql: string, within?: Within) =>
    engine.run(
      {
        trust: 'tenant',
        tables: [{ ...orders, files: [] }],
        output: { kind, sql, ...(within === undefined ? {} : { within }) },
        limits: LIMITS,
      },
      AbortSignal.timeout(600_000),
    )

  it('gives columns, types and what they are made of', async () => {
    const run = await inspected(
      'inspect',
      'SELECT customer, sum(amount) AS total FROM sales.orders WHERE id > 1 GROUP BY ALL',
    )
    assert.deepEqual(run.columns, [
      { name: 'customer', type: 'string' },
      { name: 'total', type: 'decimal(38,2)' },
    ])
    const column = (name: string) => ({ table: ['sales', 'orders'], column: name })
    const influence = [column('customer'), column('id')]
    assert.deepEqual(run.lineage, [
      { name: 'customer', direct: [column('customer')], influence, grouped: [], copied: column('customer') },
      { name: 'total', direct: [column('amount')], influence, grouped: [], copied: null },
    ])
  })

  it('gives what a text within another has by itself, too', async () => {
    const within = { before: 'SELECT id FROM (\n', after: '\n) AS output', as: 'query' } as const
    const run = await inspected('inspect', 'SELECT id, upper(customer) AS name FROM sales.orders', within)
    assert.deepEqual(
      [run.columns, run.textColumns].map((columns) => columns?.map(({ name }) => name)),
      [['id'], ['id', 'name']],
    )
    assert.equal((await inspected('inspect', 'SELECT id FROM sales.orders')).textColumns, undefined)
  })

  it('of a text that is known starts nothing, and says nothing of another text, table or tenant', async () => {
    const users: string[] = []
    const accounts = {
      refuseSpent: () => undefined,
      payerOf: (owner: string | null) => owner,
      charge: (payer: string | null) => users.push(String(payer)),
    }
    const scratchDir = join(dir, 'inspections')
    const counted = createEngine({ scratchDir, maxChildren: 2, warmChildren: 0, maxQueued: 1, accounts })
    const table = (type: LogicalType, files: readonly string[] = []) => {
      return [{ name: ['t'], files, columns: [{ name: 'a', type, fieldId: 1 }] }]
    }
    const ask = async (tenant: string, sql: string, tables = table('integer'), signal = patience()) => {
      users.length = 0
      const job = { trust: 'tenant', tenant, tables, output: { kind: 'inspect', sql }, limits: LIMITS } as const
      const { columns, lineage, isRowWise } = await counted.run(job, signal)
      return { told: { columns, lineage, isRowWise }, isNew: users.length > 0 }
    }
    try {
      const { told, isNew } = await ask('acme', 'SELECT a FROM t')
      assert.deepEqual([told.columns, isNew], [[{ name: 'a', type: 'integer' }], true])
      assert.deepEqual(await ask('acme', 'SELECT a FROM t'), { told, isNew: false })
      assert.deepEqual(await ask('acme', 'SELECT a FROM t', table('integer', ['/gone'])), { told, isNew: false })
      assert.equal((await ask('beta', 'SELECT a FROM t')).isNew, true)
      const other = await ask('acme', 'SELECT a FROM t', table('string'))
      assert.deepEqual([other.told.columns, other.isNew], [[{ name: 'a', type: 'string' }], true])
      assert.deepEqual((await ask('acme', 'SELECT a + 1 AS b FROM t')).told.columns, [{ name: 'b', type: 'integer' }])
      await assert.rejects(ask('acme', 'SELECT a FROM t', table('integer'), AbortSignal.abort()), {
        code: 'query_cancelled',
      })
    } finally {
      await counted.close()
    }
    await assert.rejects(ask('acme', 'SELECT a FROM t'), { code: 'engine_closed' })
  })

  it('refuses what a run would refuse', async () => {
    await assert.rejects(inspected('inspect', 'SELECT nope FROM sales.orders'), { code: 'column_not_found' })
    await assert.rejects(inspected('inspect', 'SELECT * FROM sales.others'), { code: 'table_not_found' })
    await assert.rejects(inspected('inspect', "SELECT * FROM read_text('x')"), { code: 'sql_not_allowed' })
  })

  it('takes a condition for what it is', async () => {
    const run = await inspected('inspect-condition', "amount > 1 AND customer <> 'x' -- fine")
    assert.deepEqual(run.columns, [{ name: 'condition', type: 'boolean' }])
    const columns = ['amount', 'customer'].map((column) => ({ table: ['sales', 'orders'], column }))
    assert.deepEqual(run.lineage[0]?.influence, columns)
    await assert.rejects(inspected('inspect-condition', 'amount'), { code: 'sql_invalid' })
    await assert.rejects(inspected('inspect-condition', 'nope = 1'), { code: 'column_not_found' })
    await assert.rejects(inspected('inspect-condition', 'sum(amount) > 1'), { code: 'sql_invalid' })
    await assert.rejects(inspected('inspect-condition', 'true) UNION SELECT (true'), { code: 'sql_syntax_error' })
    for (const text of ['id, true', 'true AS x', 'DISTINCT true', 'true FROM range(3)', 'true UNION SELECT true']) {
      await assert.rejects(inspected('inspect-condition', text), { code: 'sql_not_allowed' }, text)
    }
    await assert.rejects(inspected('inspect-condition', 'true) OR (true'), { code: 'sql_syntax_error' })
  })

  it('judges a text alone, whatever stands around it', async () => {
    const within = { before: 'SELECT "id" FROM (\n', after: '\n) AS output', as: 'query' } as const
    const output = (sql: string) => ({ kind: 'inspect' as const, sql, within })
    const run = (sql: string) =>
      engine.run(
        { trust: 'tenant', tables: [{ ...orders, files: [] }], output: output(sql), limits: LIMITS },
        AbortSignal.timeout(600_000),
      )
    assert.deepEqual((await run('FROM sales.orders -- all')).columns, [{ name: 'id', type: 'integer' }])
    await assert.rejects(run('SELECT * FROM sales.orders) AS output, (SELECT 1'), { code: 'sql_syntax_error' })
  })
})

describe('streamed input', () => {
  const columns = [
    { name: 'id', type: 'integer' },
    { name: 'text', type: 'string' },
  ] as const

  it('keeps null, the empty text, quotes, line breaks and characters cut in two', async () => {
    const bytes = Buffer.from('"1",""\n"2",\n,"say ""hi"",\nyou"\n"4","zoë ☃"\n"5","\\N"\n')
    const oneByOne = async function* () {
      for (const byte of bytes) yield new Uint8Array([byte])
    }
    const rows = await fromCsv(oneByOne(), columns, 'SELECT * FROM "in"')
    assert.deepEqual(rows, [
      [1, ''],
      [2, null],
      [null, 'say "hi",\nyou'],
      [4, 'zoë ☃'],
      [5, '\\N'],
    ])
  })

  it('keeps every byte of binary values, as PostgreSQL writes them', async () => {
    const source = async function* () {
      yield Buffer.from('"1","\\x00ff5c78"\n"2","\\x"\n"3",\n')
    }
    const binary = [columns[0], { name: 'bytes', type: 'binary' }] as const
    const rows = await fromCsv(source(), binary, 'SELECT id, hex(bytes) FROM "in"')
    assert.deepEqual(rows, [
      [1, '00FF5C78'],
      [2, ''],
      [3, null],
    ])
  })

  it('may be empty', async () => {
    assert.deepEqual(await fromCsv((async function* () {})(), columns, 'SELECT * FROM "in"'), [])
  })

  it('takes a million rows without holding them', async () => {
    const lines = async function* () {
      for (let at = 0; at < 1_000_000; at += 1000) {
        let chunk = ''
        for (let id = at; id < at + 1000; id++) chunk += `"${id}","row ${id}"\n`
        yield Buffer.from(chunk)
      }
    }
    const rows = await fromCsv(lines(), columns, 'SELECT count(*), sum(id), max(length(text)) FROM "in"')
    assert.deepEqual(rows, [[1_000_000n, 499_999_500_000n, 10n]])
  })

  it('that does not fit its types fails without telling a value', async () => {
    const source = async function* () {
      yield Buffer.from('"1","a"\n"hush","b"\n')
    }
    await assert.rejects(fromCsv(source(), columns, 'SELECT * FROM "in"'), (error) => {
      assert(isSluiceError(error))
      assert(!error.message.includes('hush'))
      return error.kind === 'INVALID_DATA'
    })
  })

  it('that breaks off fails the job with its own reason', async () => {
    const source = async function* () {
      yield Buffer.from('"1","a"\n')
      throw new Error('the source is gone')
    }
    await assert.rejects(fromCsv(source(), columns, 'SELECT * FROM "in"'), /the source is gone/)
  })
})

describe('a job', () => {
  const FOREVER = 'SELECT sum(a.range * b.range) FROM range(10000000000) a, range(1000000) b'

  it('is killed at its deadline', async () => {
    // Alone with its engine: children of the tests before may take a while to end, and it would wait for their place.
    const alone = engineOfOne()
    try {
      const output = { kind: 'rows' as const, sql: FOREVER }
      const limits = { ...LIMITS, timeoutMs: 1500 }
      const all = async () =>
        allRows(await alone.run({ trust: 'tenant', output, limits }, AbortSignal.timeout(600_000)))
      await assert.rejects(all, { kind: 'QUOTA', code: 'query_timeout' })
    } finally {
      await alone.close()
    }
  })

  it('is killed when its caller gives up', async () => {
    const caller = new AbortController()
    const run = engine.run({ trust: 'tenant', steps: [{ sql: FOREVER }], limits: LIMITS }, caller.signal)
    setTimeout(() => caller.abort(), 500)
    await assert.rejects(run, { code: 'query_cancelled' })
  })

  const hogs = [
    "SELECT length(repeat('x', 1000000000))",
    "SELECT max(length(repeat('x', 50000000 + range::INTEGER))) FROM range(1000)",
    'SELECT len(list(range)) FROM range(1000000000)',
    "SELECT len(string_agg(repeat('y', 1000), '')) FROM range(10000000)",
    'SELECT len(list_transform(range(200000000), lambda x: x::VARCHAR))',
    "WITH RECURSIVE t(s) AS (SELECT repeat('x', 1000) UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
  ]
  for (const sql of hogs) {
    it(`is killed over its memory: ${sql.slice(0, 50)}`, async () => {
      const job = { limits: { ...LIMITS, memoryBytes: 150 * MIB } }
      await assert.rejects(allOf(job, sql), { kind: 'QUOTA', code: 'query_memory_exceeded' })
    })
  }

  it('has a child of its own: nothing of it is left for the next', async () => {
    const open = engineOfOne()
    try {
      const first = { trust: 'own' as const, steps: [{ sql: 'CREATE TABLE left_over AS SELECT 1' }], limits: LIMITS }
      await open.run(first, AbortSignal.timeout(600_000))
      const second = { trust: 'own' as const, steps: [{ sql: 'SELECT * FROM left_over' }], limits: LIMITS }
      await assert.rejects(open.run(second, AbortSignal.timeout(600_000)), { code: 'table_not_found' })
    } finally {
      await open.close()
    }
  })

  it('waits for its turn, and is refused when too many wait', async () => {
    const small = engineOfOne()
    const done = { trust: 'tenant' as const, steps: [{ sql: 'SELECT 1', rows: 'collect' as const }], limits: LIMITS }
    try {
      const caller = new AbortController()
      const busy = small.run({ ...done, steps: [{ sql: FOREVER }] }, caller.signal)
      const waiting = small.run(done, AbortSignal.timeout(600_000))
      await assert.rejects(small.run(done, AbortSignal.timeout(600_000)), { kind: 'TRANSIENT', code: 'engine_busy' })
      caller.abort()
      await assert.rejects(busy, { code: 'query_cancelled' })
      assert.deepEqual((await waiting).results[0]?.rows, [[1]])
    } finally {
      await small.close()
    }
  })

  it('of the runtime itself leaves a place to the tenants, however long its rows are not taken', async () => {
    const rows = "SELECT range, repeat('x', 1000) FROM range(1000000)"
    const output = { kind: 'copy-csv' as const, sql: rows }
    const caller = new AbortController()
    // Two have all places of this engine; none is fetched, as by a store that hangs.
    const stuck = [1, 2, 3].map(() => engine.run({ trust: 'own', output, limits: LIMITS }, caller.signal))
    try {
      assert.deepEqual(await allOf({ tenant: 'acme' }, 'SELECT 1'), [[1]])
    } finally {
      caller.abort()
      await Promise.allSettled(stuck)
    }
  })

  it('gives up its place in the queue when it is cancelled or late', async () => {
    const small = engineOfOne()
    const job = { trust: 'tenant' as const, steps: [{ sql: FOREVER }], limits: LIMITS }
    try {
      const busy = small.run(job, AbortSignal.timeout(600_000))
      await assert.rejects(small.run(job, AbortSignal.timeout(300)), { code: 'query_cancelled' })
      const late = { ...job, limits: { ...LIMITS, timeoutMs: 300 } }
      await assert.rejects(small.run(late, AbortSignal.timeout(600_000)), { kind: 'TRANSIENT', code: 'engine_busy' })
      const hasty = { ...job, limits: { ...LIMITS, timeoutMs: 1 } }
      await assert.rejects(small.run(hasty, AbortSignal.timeout(600_000)), { code: 'query_timeout' }, 'its own fault')
      await small.close()
      await assert.rejects(busy, { kind: 'TRANSIENT', code: 'engine_closed' })
      await assert.rejects(small.run(job, AbortSignal.timeout(600_000)), { code: 'engine_closed' })
    } finally {
      await small.close()
    }
  })

  it('is told that the engine was busy where it waited for most of its time', async () => {
    const small = engineOfOne()
    const job = { trust: 'tenant' as const, steps: [{ sql: FOREVER }], limits: LIMITS }
    try {
      const caller = new AbortController()
      const busy = assert.rejects(small.run(job, caller.signal), { code: 'query_cancelled' })
      const late = small.run({ ...job, limits: { ...LIMITS, timeoutMs: 4000 } }, AbortSignal.timeout(600_000))
      const free = pause(2500).then(() => caller.abort())
      await assert.rejects(late, { kind: 'TRANSIENT', code: 'engine_busy' })
      await Promise.all([busy, free])
    } finally {
      await small.close()
    }
  })

  it('clears away what a killed runtime spilled', async () => {
    const scratch = await folder('orphans')
    await mkdir(join(scratch, 'spill-999999999-x'))
    await mkdir(join(scratch, 'keep'))
    const open = engineOfOne(scratch)
    const job = { trust: 'own' as const, steps: [{ sql: 'SELECT 1' }], limits: { ...LIMITS, tempBytes: MIB } }
    await open.run(job, AbortSignal.timeout(600_000))
    await open.close()
    const left = (await readdir(scratch)).filter((name) => !name.startsWith(`spill-${process.pid}-`))
    assert.deepEqual(left, ['keep'])
  })

  it('of the runtime itself may spill, and its spill files go with it', async () => {
    const sql =
      "SELECT count(*) FROM (SELECT range, repeat('x', 50) || range AS t FROM range(3000000) ORDER BY t DESC) WHERE t <> ''"
    const limits = { ...LIMITS, memoryBytes: 200 * MIB, tempBytes: 2048 * MIB }
    const steps = [{ sql, rows: 'collect' as const }]
    const run = await engine.run({ trust: 'own', steps, limits }, AbortSignal.timeout(600_000))
    assert.deepEqual(run.results[0]?.rows, [[3_000_000n]])
    await assert.rejects(allOf({ limits: { ...LIMITS, memoryBytes: 100 * MIB } }, sql), {
      code: 'query_memory_exceeded',
    })
    await waitUntilNoSpill(join(dir, 'scratch'))
  })

  it('fails for a while where a file is missing, and lends its place to the next', async () => {
    const gone = { ...orders, files: [join(dir, 'gone.parquet')] }
    for (let times = 0; times < 5; times++) {
      await assert.rejects(tenant('SELECT * FROM sales.orders', [gone]), {
        kind: 'TRANSIENT',
        code: 'engine_io_failed',
      })
      const output = { kind: 'parquet-files' as const, sql: 'SELECT 1 AS id', dir: join(dir, 'nowhere'), columns: [] }
      const job = { trust: 'tenant' as const, output, limits: LIMITS }
      await assert.rejects(engine.run(job, AbortSignal.timeout(600_000)), { code: 'ENOENT' })
    }
    assert.deepEqual(await tenant('SELECT count(*) FROM sales.orders', [orders]), [[3n]])
  })

  it('of the runtime itself reaches its own paths and no others', async () => {
    const outside = await mkdtemp(join(tmpdir(), 'sluice-outside-'))
    try {
      await writeFile(join(outside, 'x.csv'), 'a\n1\n')
      const steps = [{ sql: `SELECT * FROM read_csv('${join(outside, 'x.csv')}')`, rows: 'collect' as const }]
      const signal = AbortSignal.timeout(600_000)
      await assert.rejects(engine.run({ trust: 'own', steps, limits: LIMITS }, signal), { code: 'sql_not_allowed' })
      const open = await engine.run({ trust: 'own', steps, readPaths: [outside], limits: LIMITS }, signal)
      assert.deepEqual(open.results[0]?.rows, [[1n]])
    } finally {
      await rm(outside, { recursive: true, force: true })
    }
  })

  it('of the runtime itself ends at a step that finds what must not be', async () => {
    const counts = (sql: string) => ({ sql, rows: 'collect' as const, gate: true })
    const steps = [
      counts('SELECT 0, 0'),
      counts('SELECT 0, 2'),
      { sql: "SELECT error('it is not run')", rows: 'collect' as const },
    ]
    const { results } = await engine.run({ trust: 'own', steps, limits: LIMITS }, AbortSignal.timeout(600_000))
    const found = results.map(({ rows }) => rows.flat().map(Number))
    assert.deepEqual(found, [
      [0, 0],
      [0, 2],
    ])
  })

  it('says how many parameters there are where there are other numbers of values', async () => {
    for (const [sql, values, message] of [
      ['SELECT ?', [1n, 2n], 'the statement has 1 parameter, and 2 values were sent'],
      ['SELECT $1::INTEGER', [], 'the statement has 1 parameter, and 0 values were sent'],
      ['SELECT ?, ?', [1n], 'the statement has 2 parameters, and 1 value was sent'],
      ['SELECT 1', [1n], 'the statement has 0 parameters, and 1 value was sent'],
    ] as const) {
      const output = { kind: 'rows', sql, parameters: values } as const
      await assert.rejects(engine.run({ trust: 'tenant', limits: LIMITS, output }, AbortSignal.timeout(600_000)), {
        code: 'sql_invalid_input',
        kind: 'INVALID_DATA',
        message,
      })
    }
  })

  it('is its own fault, however deeply it is nested, and whatever cannot be kept in the form that it asks for', async () => {
    const levels = 900
    const deep = [
      `SELECT ${'CASE WHEN true THEN '.repeat(levels)}1${' END'.repeat(levels)}`,
      `SELECT NULL::${'STRUCT(a '.repeat(levels)}INTEGER${')'.repeat(levels)}`,
    ]
    for (const sql of deep) await assert.rejects(allOf({}, sql), { kind: 'INVALID_DATA' }, sql.slice(0, 30))
    const unkept = [
      "SELECT TRY_CAST({'a': NULL} AS MAP(INTEGER[], STRUCT(x INTEGER)))",
      "SELECT INTERVAL '-1 month 30 days'",
    ]
    for (const sql of unkept) {
      const parquet = async () => collect(await start({}, sql, 'parquet'))
      await assert.rejects(parquet(), { kind: 'INVALID_DATA', code: 'sql_unsupported' }, sql)
    }
    const nested = (lists: number) => `SELECT ${'['.repeat(lists)}1${']'.repeat(lists)} AS x`
    for (const kind of ['ndjson', 'csv', 'rows', 'json-rows'] as const) {
      await assert.rejects(start({}, nested(11), kind), { kind: 'INVALID_DATA', code: 'sql_unsupported' })
    }
    assert.equal(JSON.stringify(JSON.parse(await text(await start({}, nested(8), 'ndjson'))).x), '[[[[[[[[1]]]]]]]]')
    // A fault of DuckDB's planner, without a word of its own for it.
    const uncopied = 'SELECT rank() OVER (ORDER BY (SELECT 1) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)'
    await assert.rejects(allOf({}, uncopied), { kind: 'INVALID_DATA', code: 'query_failed' })
  })

  it('is told in words without values, paths or hidden names', async () => {
    const secret = { ...orders, name: ['s', 't'] }
    const told: readonly (readonly [sql: string, code: string])[] = [
      ['SELECT customer::INTEGER FROM s.t', 'sql_conversion_error'],
      ["SELECT strptime(customer, '%Y') FROM s.t", 'sql_invalid_input'],
      ['SELECT nonsense FROM s.t', 'column_not_found'],
      ['SELECT customer + amount FROM s.t', 'sql_invalid'],
      ['SELECT id, count(*) FROM s.t', 'sql_invalid'],
      ['SELECT * FROM s.t WHERE custom = 1', 'column_not_found'],
    ]
    for (const [sql, code] of told) {
      await assert.rejects(allOf({ tables: [secret] }, sql), (error) => {
        assert(isSluiceError(error))
        assert.equal(error.code, code, `${sql}: ${String(error.cause)}`)
        const all = JSON.stringify([error.message, error.remedy, error.details])
        assert.doesNotMatch(all, /ada|bob|parquet|proc|read_|"note"|Candidate|LINE/)
        return true
      })
    }
  })
})

it('no child outlives a runtime that is killed', { skip: process.platform !== 'linux' }, async () => {
  const fixture = fileURLToPath(new URL('./engine.fixture.ts', import.meta.url))
  const parent = spawn(process.execPath, ['--no-warnings', fixture], {
    env: { ...process.env, SLUICE_TEST: 'secret' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(parent.stdout, 'data', { signal: AbortSignal.timeout(600_000) })
  const children = childrenOf(parent.pid ?? -1)
  assert(children.length >= 2, 'one child with the job, one warm')
  for (const child of children) assert.doesNotMatch(await readFile(`/proc/${child}/environ`, 'latin1'), /secret/)
  parent.kill('SIGKILL')
  await once(parent, 'exit')
  await until('all children end', () => !children.some(isAlive))
})

function start(
  job: Partial<EngineJob>,
  sql: string,
  kind: 'rows' | 'json-rows' | 'ndjson' | 'csv' | 'copy-csv' | 'parquet' = 'rows',
) {
  return engine.run({ trust: 'tenant', limits: LIMITS, ...job, output: { kind, sql } }, AbortSignal.timeout(600_000))
}

async function allOf(job: Partial<EngineJob>, sql: string): Promise<unknown[]> {
  return await allRows(await start(job, sql))
}

async function tenant(sql: string, tables: readonly EngineTable[]): Promise<unknown[]> {
  return await allOf({ tables }, sql)
}

async function own(sql: string): Promise<unknown> {
  const job = {
    trust: 'own' as const,
    steps: [{ sql, rows: 'collect' as const }],
    readPaths: [dir],
    writeDirs: [dir],
    limits: LIMITS,
  }
  return (await engine.run(job, AbortSignal.timeout(600_000))).results[0]?.rows
}

type CsvColumns = NonNullable<EngineJob['csvInput']>['columns']

async function fromCsv(source: AsyncIterable<Uint8Array>, columns: CsvColumns, sql: string): Promise<unknown> {
  const csvInput = { name: 'in', columns, source }
  const job = { trust: 'own' as const, csvInput, steps: [{ sql, rows: 'collect' as const }], limits: LIMITS }
  return (await engine.run(job, AbortSignal.timeout(600_000))).results[0]?.rows
}

async function allRows(run: EngineRun): Promise<unknown[]> {
  const rows: unknown[] = []
  for await (const batch of rowsOf(run)) rows.push(...batch)
  return rows
}

async function collect(run: EngineRun): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of run.output) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function text(run: EngineRun): Promise<string> {
  return (await collect(run)).toString('utf8')
}

async function folder(name: string): Promise<string> {
  await mkdir(join(dir, name))
  return join(dir, name)
}

async function waitUntilNoSpill(path: string): Promise<void> {
  const spills = async () => (await readdir(path)).filter((name) => name.startsWith('spill-'))
  await until('nothing is spilled any more', async () => (await spills()).length === 0)
}

describe('a statement of which the engine dies', () => {
  it('has two processes, and then is told that it fails by itself', async () => {
    const alone = engineOfOne()
    const before = new Set(childrenOf(process.pid))
    const sql = 'SELECT sum(a.range * b.range)::INTEGER FROM range(10000000000) a, range(1000000) b'
    const steps = [{ sql, rows: 'collect' as const }]
    const run = alone.run({ trust: 'tenant', tenant: 'one', steps, limits: LIMITS }, AbortSignal.timeout(600_000))
    const ended = assert.rejects(run, (error) => isSluiceError(error) && error.code === 'query_failed')
    const killed = new Set<number>()
    const next = () => childrenOf(process.pid).find((child) => !before.has(child) && !killed.has(child))
    for (let time = 1; time <= 2; time++) {
      await until('the statement has a process', () => next() !== undefined)
      const child = next() as number
      killed.add(child)
      await until('the process works on it', () => hasWorked(child))
      process.kill(child, 'SIGSEGV')
    }
    await ended
    await alone.close()
  })
})

/** Processor time that only a statement without end takes. */
async function hasWorked(child: number): Promise<boolean> {
  const fields = (await readFile(`/proc/${child}/stat`, 'latin1').catch(() => '')).split(' ')
  return Number(fields[13]) > 150
}
