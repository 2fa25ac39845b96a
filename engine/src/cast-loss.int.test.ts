import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { castLoss } from './cast-loss.ts'
import { createEngine, type Engine, lostValues } from './index.ts'
import { fileType, sqlType } from './sql-text.ts'
import { testEngineProgram } from './testing.ts'

const LIMITS = { memoryBytes: 512 * 1024 * 1024, timeoutMs: 600_000, threads: 1 } as const

/** Values of each type at its edges and in between, as DuckDB reads their text. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  boolean: ['true', 'false'],
  integer: ['0', '1', '-2147483648', '2147483647', '16777217'],
  long: ['0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808'],
  float: ['0.5', '1e30', 'nan', 'infinity', '1.7', '16777216', '0.1'],
  double: ['0.1', '1e300', '-infinity', 'nan', '2.5', '123456789.125', '1e15'],
  'decimal(38,9)': ['0.1', '12345678901234567890.123456789', '1.5', '-3', '0.000000001'],
  'decimal(10,2)': ['0.10', '12.34', '99999999.99', '5.00'],
  'decimal(5,0)': ['0', '12345', '-7'],
  string: ['1', '1.5', 'true', 'yes', '2020-01-02', '2020-01-02 03:04:05.1234567', '0.12345678901234567890', ' x '],
  json: ['1', '"a"', '{"a": 1.5}', 'true'],
  date: ['2020-02-29', '0044-03-15 (BC)', '9999-12-31', 'infinity'],
  timestamp: ['2020-02-29 00:00:00', '2020-02-29 23:59:59.999999', '-infinity', '0001-01-01 00:00:00'],
  timestamptz: ['2020-02-29 00:00:00+00', '2020-02-29 23:59:59.999999+02', 'infinity'],
  uuid: ['123e4567-e89b-12d3-a456-426614174000'],
  binary: ['abc', '\\xff\\x00', ''],
}

const TYPES = Object.keys(VALUES) as LogicalType[]

/** What rows of these values lose as these types; null: it cannot be told, or every value fails. */
const KNOWN: readonly (readonly [string, string, LogicalType, boolean])[] = [
  ['double', '0.1', 'float', true],
  ['double', '0.5', 'float', false],
  ['double', '1.25', 'decimal(5,1)', true],
  ['double', '1.5', 'decimal(5,1)', false],
  ['double', '2.5', 'integer', true],
  ['double', '2', 'long', false],
  ['long', '9007199254740993', 'double', true],
  ['long', '9223372036854775807', 'double', true],
  ['long', '9007199254740992', 'double', false],
  ['integer', '16777217', 'float', true],
  ['decimal(38,9)', '1.250000000', 'decimal(10,2)', false],
  ['decimal(38,9)', '1.255000000', 'decimal(10,2)', true],
  ['decimal(38,9)', '0.1', 'double', false],
  ['decimal(38,9)', '12345678901234567890.123456789', 'double', true],
  ['decimal(10,2)', '7.00', 'integer', false],
  ['decimal(10,2)', '7.01', 'integer', true],
  ['string', '12', 'integer', false],
  ['string', '12.0', 'integer', false],
  ['string', '12.7', 'integer', true],
  ['string', '1e3', 'long', false],
  ['string', '1.230', 'decimal(5,2)', false],
  ['string', '1.239', 'decimal(5,2)', true],
  ['string', '0.1', 'double', false],
  ['string', '0.12345678901234567890', 'double', true],
  ['string', '2020-01-02', 'date', false],
  ['string', '2020-01-02 03:04:05', 'date', true],
  ['string', '2020-01-02 03:04:05.123456', 'timestamp', false],
  ['string', '2020-01-02 03:04:05.1234567', 'timestamp', true],
  ['string', '2020-01-02 03:04:05+02', 'timestamp', true],
  ['string', '2020-01-02 03:04:05+02', 'timestamptz', false],
  ['string', 'yes', 'boolean', true],
  ['string', 'TRUE', 'boolean', false],
  ['integer', '2', 'boolean', true],
  ['integer', '1', 'boolean', false],
  ['timestamp', '2020-01-02 03:04:05', 'date', true],
  ['timestamp', '2020-01-02 00:00:00', 'date', false],
  ['timestamptz', '2020-01-02 00:00:00+00', 'date', false],
  ['timestamptz', '2020-01-02 00:00:00+00', 'timestamp', true],
]

let engine: Engine
let dir: string

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-casts-'))
  engine = createEngine({
    scratchDir: join(dir, 'scratch'),
    ...(await testEngineProgram()),
    maxChildren: 1,
    warmChildren: 0,
    maxQueued: 1,
  })
})

after(async () => {
  await engine.close()
  await rm(dir, { recursive: true, force: true })
})

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`
const literal = (text: string, type: string) => `CAST(${quoted(text)} AS ${sqlType(type as LogicalType)})`

describe('a cast', () => {
  it('that is said to lose nothing fails, or gives the value back', async () => {
    const pairs = TYPES.flatMap((from) => TYPES.map((to) => ({ from, to }))).filter(
      ({ from, to }) => castLoss(from, to) === null,
    )
    assert.ok(pairs.length > TYPES.length * 2)
    const checks = pairs.flatMap(({ from, to }) =>
      (VALUES[from] as readonly string[]).map((text) => {
        const value = literal(text, from)
        const back = `TRY_CAST(TRY_CAST(${value} AS ${fileType(to)}) AS ${sqlType(from)})`
        const differs = `TRY_CAST(${value} AS ${fileType(to)}) IS NOT NULL AND ${back} IS DISTINCT FROM ${value}`
        return `SELECT ${quoted(`${from} ${text} as ${to}`)} WHERE ${differs}`
      }),
    )
    const steps = [{ sql: checks.join('\nUNION ALL\n'), rows: 'collect' as const }]
    const run = await engine.run({ trust: 'own', steps, limits: LIMITS }, AbortSignal.timeout(600_000))
    assert.deepEqual(run.results[0]?.rows.flat(), [])
  })

  it('is counted where values lose something, by column', async () => {
    const target = join(dir, 'counted')
    await mkdir(target)
    const columns = KNOWN.map(([, , type], index) => ({ name: `c "${index}`, type, fieldId: index + 1 }))
    const names = columns.map(({ name }) => `"${name.replaceAll('"', '""')}"`)
    const row = KNOWN.map(([from, text], index) => `${literal(text, from)} AS ${names[index]}`).join(', ')
    const nulls = KNOWN.map(([from]) => `CAST(NULL AS ${sqlType(from as LogicalType)})`).join(', ')
    const sql = `SELECT ${row} UNION ALL SELECT ${nulls} UNION ALL SELECT ${row}`
    const output = { kind: 'parquet-files', sql, dir: target, columns, countsLosses: true } as const
    const run = await engine.run({ trust: 'own', output, limits: LIMITS }, AbortSignal.timeout(600_000))
    const expected = columns.flatMap(({ name }, index) => (KNOWN[index]?.[3] ? [[name, 2]] : []))
    assert.deepEqual(Object.entries(lostValues(run.files, columns)), expected)
    for (const [from, , to, loses] of KNOWN) if (loses) assert.notEqual(castLoss(from, to), null, `${from} as ${to}`)
    const table = { name: ['t'], files: run.files.map(({ path }) => path), columns }
    const read = { trust: 'own', tables: [table], steps: [{ sql: 'SELECT * FROM t', rows: 'collect' }] } as const
    const { results } = await engine.run({ ...read, limits: LIMITS }, AbortSignal.timeout(600_000))
    assert.deepEqual([results[0]?.columns.length, results[0]?.rows.length], [columns.length, 3], 'no mark is read')
  })
})
