/** Transforms in the real Trino over a table that the lake has written, without a runtime around them. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { EngineTable } from '@sluice/engine'
import { collect, commitStep, LIMITS } from '@sluice/iceberg/testing'
import { type Column, castLoss, type LogicalType, type TableSchema } from '@sluice/sdk'
import { TrinoClient } from '../../plugins/analytics/trino/client.ts'
import { TrinoCompute } from '../../plugins/compute/trino/compute.ts'
import { type RegistryLake, startRegistryLake } from '../../runtime/src/lake/testing.ts'
import type { ManifestSet } from '../../runtime/src/manifest/manifest-set.ts'
import { distributedRows } from '../../runtime/src/materializer/distributed-rows.ts'
import { type LakeState, stateOfScan, stateTable } from '../../runtime/src/materializer/lake-state.ts'
import { type StagedRows, stagedTable } from '../../runtime/src/materializer/staged-rows.ts'
import { until, withLimits } from '../../test/until.ts'
import { Random } from '../readers/random.ts'
import { quoted, writingSelect } from '../readers/sql.ts'
import { randomCell } from '../readers/values.ts'
import { catalogProperties } from '../trino/catalog-properties.ts'
import { trinoRows } from '../trino/rows.ts'

const URL = process.env['SLUICE_TEST_TRINO_URL'] as string
const TENANT = `compute${Date.now().toString(36)}`
const TABLE = { warehouse: TENANT, namespace: 'raw_db', table: 'things' }
const ROWS = 300
const SEED = 7

const TYPES: readonly (readonly [string, LogicalType])[] = [
  ['rank', 'integer'],
  ['big', 'long'],
  ['amount', 'decimal(38,10)'],
  ['price', 'decimal(9,2)'],
  ['small', 'float'],
  ['ratio', 'double'],
  ['ok', 'boolean'],
  ['day', 'date'],
  ['seen', 'timestamp'],
  ['at', 'timestamptz'],
  ['code', 'uuid'],
  ['bytes', 'binary'],
  ['name', 'string'],
  ['doc', 'json'],
]
const ID: Column = { name: 'id', type: 'integer', nullable: false }
const SCHEMA: TableSchema = {
  columns: [ID, ...TYPES.map(([name, type]) => ({ name, type, nullable: true }))],
  primaryKey: ['id'],
}

let lake: RegistryLake
let compute: TrinoCompute
let state: LakeState

before(async () => {
  lake = await startRegistryLake()
  const random = new Random(SEED)
  const columns = SCHEMA.columns.map((column, index) => ({ ...column, id: index + 1 }))
  const written = Array.from({ length: ROWS }, (_, key) => {
    return new Map(columns.map(({ id, name, type }) => [id, name === 'id' ? String(key) : randomCell(random, type)]))
  })
  const select = writingSelect({ written, after: { columns } })
  await commitStep(lake, TABLE, { operation: 'replace', schema: SCHEMA, select })
  state = stateOfScan(await lake.lake.scan(TABLE)) as LakeState
  const client = new TrinoClient({ url: URL, user: 'sluice', catalog: {} })
  compute = new TrinoCompute(client, await catalogProperties(lake))
})

after(async () => {
  await trinoRows({ url: URL }, `DROP CATALOG IF EXISTS lakehouse_${TENANT}`).catch(() => undefined)
  await lake?.[Symbol.asyncDispose]()
})

interface Asked {
  readonly transform: string
  readonly columns: readonly Column[]
  readonly where?: string
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

async function staged<T>(asked: Asked, use: (rows: Omit<StagedRows, 'primaryKey'>) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(lake.dir, 'run-'))
  const input = { name: 'source', columns: null, where: asked.where ?? null } as ManifestSet['inputs'][number]
  const manifests = { compute: { engine: 'distributed', transform: asked.transform } } as unknown as ManifestSet
  try {
    const rows = await distributedRows(
      [{ input, state, table: TABLE, moment: null, rejected: 0 }],
      manifests,
      asked.columns,
      {
        tenant: TENANT,
        engine: lake.engine,
        distributed: compute,
        limits: { ...LIMITS, timeoutMs: asked.timeoutMs ?? LIMITS.timeoutMs },
        ownLimits: LIMITS,
        directory,
        signal: asked.signal ?? new AbortController().signal,
      },
    )
    return await use(rows)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

const check = (transform: string) =>
  compute.check(
    { inputs: [{ alias: 'source', columns: SCHEMA.columns, where: null }], transform, columns: [ID] },
    AbortSignal.timeout(600_000),
  )

/** Longer than anything here waits for, and bounded. */
const slow = (marker: string): Asked => ({
  transform: `SELECT max(a.id) AS id FROM source a CROSS JOIN source b CROSS JOIN UNNEST(sequence(1, 10000)) AS s(n)
    WHERE mod(a.id * b.id + n, 7) <> 8 AND a.name <> '${marker}'`,
  columns: [ID],
})

/** The statement that gives rows, not those before it that ask for its plan and for the types of its columns. */
const isMarked = (marker: string): string => `query LIKE '%${marker}%' AND query NOT LIKE 'EXPLAIN%'
  AND query NOT LIKE '%LIMIT 0' AND query NOT LIKE '%runtime.queries%'`

async function endOf(marker: string): Promise<unknown> {
  const sql = `SELECT state, error_code FROM system.runtime.queries WHERE ${isMarked(marker)}`
  for (const deadlineMs = performance.now() + 60_000; performance.now() < deadlineMs; ) {
    const [found] = await trinoRows({ url: URL }, sql)
    if (found?.[0] === 'FAILED' || found?.[0] === 'FINISHED') return found
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return 'Trino has no such statement that has ended'
}

describe('a transform in Trino', () => {
  test('gives the rows of the lake’s table as they are, in all types', async () => {
    await staged({ transform: 'SELECT * FROM source -- all of it', columns: SCHEMA.columns }, async (rows) => {
      assert.equal(rows.rowCount, ROWS)
      const tables: readonly EngineTable[] = [stateTable('expected', state), stagedTable('actual', rows)]
      const texts = SCHEMA.columns.map(({ name, type }) =>
        type === 'binary' ? `hex(${quoted(name)})` : `CAST(${quoted(name)} AS VARCHAR)`,
      )
      const select = (table: string) => `SELECT ${texts.join(', ')} FROM ${table}`
      const differing = (left: string, right: string) => `SELECT * FROM (${select(left)} EXCEPT ALL ${select(right)})`
      assert.deepEqual(await collect(lake.engine, tables, [differing('expected', 'actual')]), [[]])
      assert.deepEqual(await collect(lake.engine, tables, [differing('actual', 'expected')]), [[]])
    })
  })

  test('reads only what the input lets through', async () => {
    const columns = [{ name: 'id', type: 'long', nullable: false } as const]
    const counted = { transform: 'SELECT count(*) AS id FROM source', columns }
    const count = (asked: Asked) =>
      staged(asked, (rows) => collect(lake.engine, [stagedTable('output', rows)], ['SELECT id FROM output']))
    assert.deepEqual((await count(counted)).flat(2).map(String), [String(ROWS)])
    assert.deepEqual((await count({ ...counted, where: 'id < 7 -- of them' })).flat(2).map(String), ['7'])
    const any = { ...counted, where: "bytes IS NULL OR bytes >= X''" }
    assert.deepEqual((await count(any)).flat(2).map(String), [String(ROWS)], 'a filter of bytes')
  })

  describe('its casts', () => {
    /** A value in Trino's words, the type that the column is to have, and whether it loses something on its way. */
    const CASTS: readonly (readonly [value: string, to: LogicalType, loses: boolean])[] = [
      ["DECIMAL '1.255'", 'decimal(9,2)', true],
      ["DECIMAL '1.250'", 'decimal(9,2)', false],
      ["DOUBLE '2.5'", 'integer', true],
      ["DOUBLE '2'", 'long', false],
      ["DOUBLE '0.1'", 'float', true],
      ["DOUBLE '0.5'", 'float', false],
      ["DOUBLE '0.125'", 'decimal(9,2)', true],
      ["BIGINT '9007199254740993'", 'double', true],
      ["BIGINT '9223372036854775807'", 'double', true],
      ["BIGINT '9007199254740992'", 'double', false],
      ["DECIMAL '7.50'", 'long', true],
      ["TIMESTAMP '2026-01-01 10:00:00.000001'", 'date', true],
      ["TIMESTAMP '2026-01-01 00:00:00'", 'date', false],
      ["TIMESTAMP '2026-01-01 00:00:00.1234567'", 'timestamp', true],
      ["TIMESTAMP '2026-01-01 00:00:00.1234560'", 'timestamp', false],
      ["TIMESTAMP '2026-01-01 00:00:00 UTC'", 'timestamp', true],
      ["TIMESTAMP '2026-01-01 00:00:00 UTC'", 'date', false],
      ["'1.255'", 'decimal(9,2)', true],
      ["'1.25'", 'decimal(9,2)', false],
      ["'0.1234567891'", 'decimal(38,9)', true],
      ["'0.1234567890'", 'decimal(38,9)', false],
      ["'1.5'", 'decimal(38,0)', true],
      ["'-12.000'", 'decimal(38,0)', false],
      ["'1e-40'", 'decimal(38,9)', true],
      ["'12.50e1'", 'decimal(38,0)', false],
      ["'1200e-2'", 'decimal(38,0)', false],
      ["JSON '1.5'", 'decimal(38,0)', true],
      ["'0.12345678901234567'", 'double', true],
      ["'1e400'", 'double', true],
      ["'-1e39'", 'float', true],
      ["'-Infinity'", 'double', false],
      ["'1e-400'", 'double', true],
      ["'1.5e-45'", 'float', true],
      ["'0.0e-400'", 'double', false],
      ["' 0.5e1'", 'double', false],
      ["'t'", 'boolean', true],
      ["'TRUE'", 'boolean', false],
      ["'2026-01-01 00:00:00.1234567'", 'timestamp', true],
      ["'2026-01-01 00:00:00.123'", 'timestamp', false],
      ["'2026-01-01 00:00:00.1234567 UTC'", 'timestamptz', true],
      ["'17'", 'integer', false],
      ["'2026-01-01'", 'date', false],
    ]
    /** Nothing is asked about these, whatever the value. */
    const HOLDING: readonly (readonly [value: string, to: LogicalType])[] = [
      ['NULL', 'integer'],
      ["TINYINT '7'", 'integer'],
      ['count(*)', 'long'],
      ["BIGINT '7'", 'integer'],
      ["REAL '0.1'", 'double'],
      ["DECIMAL '1.25'", 'decimal(38,9)'],
      ["INTEGER '7'", 'double'],
      ["DATE '2026-01-01'", 'timestamp'],
      ["TIMESTAMP '2026-01-01 10:00:00'", 'timestamptz'],
      ["'text'", 'string'],
      ["UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59'", 'string'],
    ]
    const columnsOf = (types: readonly LogicalType[]): readonly Column[] =>
      types.map((type, at) => ({ name: `c${at}`, type, nullable: true }))
    const selected = (values: readonly string[], more = '') =>
      `SELECT ${values.map((value, at) => `${value} AS c${at}`).join(', ')} FROM source ${more}`

    test('are judged by what the transform gives, before anything runs', async () => {
      const all = [
        ...CASTS.map(([value, to]) => ({ value, to, loses: true })),
        ...HOLDING.map(([value, to]) => ({ value, to, loses: false })),
      ]
      const columns = columnsOf(all.map(({ to }) => to))
      const inputs = [{ alias: 'source', columns: SCHEMA.columns, where: null }]
      const transform = selected(all.map(({ value }) => value))
      const given = await compute.check({ inputs, transform, columns }, AbortSignal.timeout(600_000))
      const judged = all.map(({ value, to }, at) => `${value} ${to} ${castLoss(given[at] as string, to) !== null}`)
      assert.deepEqual(
        judged,
        all.map(({ value, to, loses }) => `${value} ${to} ${loses}`),
      )
    })

    test('are counted by the values that lose something, and nothing else is', async () => {
      const columns = columnsOf(CASTS.map(([, to]) => to))
      const transform = selected(
        CASTS.map(([value]) => `CASE WHEN id < 7 THEN ${value} END`),
        'WHERE id < 9',
      )
      await staged({ transform, columns }, async (rows) => {
        assert.equal(rows.rowCount, 9)
        const expected = CASTS.flatMap(([, , loses], at) => (loses ? [[`c${at}`, 7]] : []))
        assert.deepEqual(rows.lost, Object.fromEntries(expected))
      })
    })
  })

  test('cannot name what is no input', async () => {
    for (const table of ['system.runtime.queries', `lakehouse_${TENANT}.raw_db.things`, `"a". /**/ "b"."c"`]) {
      await assert.rejects(check(`SELECT id FROM ${table}`), { code: 'sql_not_allowed' }, table)
    }
    for (const table of ['raw_db.things', 'things', 'information_schema.tables', 'runtime.queries']) {
      await assert.rejects(check(`SELECT id FROM ${table}`), { kind: 'INVALID_DATA', code: 'sql_invalid' }, table)
    }
  })

  test('is refused with Trino’s name and place of what is wrong, and no more', async () => {
    await assert.rejects(check('SELECT id\n  , nowhere FROM source'), (error: Error) => {
      assert.match(error.message, /COLUMN_NOT_FOUND at line 2, column 5$/)
      return true
    })
  })

  test('ends with its time and with its caller, in Trino too', async () => {
    // Time enough for the statement to have reached Trino, which plans it first.
    await withLimits([8_000, 30_000, 120_000], async (timeoutMs) => {
      const marker = `out-of-time-${timeoutMs}-`
      await assert.rejects(
        staged({ ...slow(marker), timeoutMs }, async () => undefined),
        { kind: 'QUOTA', code: 'query_timeout' },
      )
      assert.deepEqual(await endOf(marker), ['FAILED', 'USER_CANCELED'])
    })
    const caller = new AbortController()
    const called = staged({ ...slow('called-off'), signal: caller.signal }, async () => undefined)
    const isRunning = `SELECT 1 FROM system.runtime.queries WHERE state = 'RUNNING' AND ${isMarked('called-off')}`
    await until('the statement runs', async () => (await trinoRows({ url: URL }, isRunning)).length > 0)
    caller.abort()
    await assert.rejects(called, { code: 'query_cancelled' })
    assert.deepEqual(await endOf('called-off'), ['FAILED', 'USER_CANCELED'])
  })
})
