import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { castLoss, type LogicalType } from '@sluice/sdk'
import { lossCondition } from './cast-loss.ts'
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
  ['string', '1e400', 'double', true],
  ['string', '-1e39', 'float', true],
  ['string', '-Infinity', 'double', false],
  ['string', '1e-400', 'double', true],
  ['string', '1.5e-45', 'float', true],
  ['string', '0.0e-400', 'double', false],
  ['json', '1e400', 'double', true],
  ['json', '1.5', 'decimal(38,0)', true],
  ['string', '2020-01-02', 'date', false],
  ['string', '2020-01-02 03:04:05', 'date', true],
  ['string', '2020-01-02 03:04:05.123456', 'timestamp', false],
  ['string', '2020-01-02 03:04:05.1234567', 'timestamp', true],
  ['string', '2020-01-02 00:00:00.0000001', 'date', true],
  ['string', '2020-01-02T00:00:00+02', 'date', true],
  ['string', '2020-01-02T00:00:00Z', 'date', false],
  ['string', '2020-01-02 03:04:05+02', 'timestamp', true],
  ['string', '2020-01-02 03:04:05+05:30:15', 'timestamp', true],
  ['string', '2020-01-02 03:04:05 UTC', 'timestamp', true],
  ['json', '"2020-01-02T03:04:05+02"', 'timestamp', true],
  ['json', '"2020-01-02T03:04:05"', 'timestamp', false],
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

  it('of a text loses the digits that its number has beyond the places of the type, however it is written', async () => {
    const zeros = (count: number) => '0'.repeat(count)
    const fractions = ['', '.', '.0', '.5', '.50', '.000000001', `.${zeros(37)}1`, `.${zeros(40)}`, `.${zeros(39)}3`]
    const written = ['', '0', '-7', '+12', ' 1_200'].flatMap((whole) =>
      fractions.flatMap((fraction) =>
        ['', 'e0', 'E2', 'e-3', 'e-40', 'e+5'].map((exponent) => `${whole}${fraction}${exponent}`),
      ),
    )
    // Exactly: whole units of the smallest place that a text here can name, and what a type keeps of them.
    const SMALLEST = 100n
    const unitsOf = (text: string) => {
      const [mantissa = '', exponent = '0'] = text.split(/e/i)
      const [whole = '', fraction = ''] = mantissa.replaceAll(/[ _+-]/g, '').split('.')
      const power = SMALLEST + BigInt(exponent) - BigInt(fraction.length)
      return BigInt(`0${whole}${fraction}`) * 10n ** power
    }
    const TYPED = {
      'decimal(38,0)': 0n,
      'decimal(38,9)': 9n,
      'decimal(38,37)': 37n,
      'decimal(30,2)': 2n,
      'decimal(10,2)': 2n,
      long: 0n,
    } as const
    const steps = Object.keys(TYPED).map((type) => {
      const rows = written.map((text) => `(${quoted(text)})`).join(', ')
      const loses = lossCondition('x', 'string', 'VARCHAR', type as LogicalType)
      const fits = `TRY_CAST(x AS ${sqlType(type as LogicalType)}) IS NOT NULL`
      const sql = `SELECT x, CASE WHEN ${fits} THEN ${loses} END FROM (VALUES ${rows}) t(x)`
      return { sql, rows: 'collect' as const }
    })
    const run = await engine.run({ trust: 'own', steps, limits: LIMITS }, AbortSignal.timeout(600_000))
    for (const [at, [type, places]] of Object.entries(TYPED).entries()) {
      const told = (run.results[at]?.rows ?? []).filter(([, loses]) => loses !== null)
      assert.ok(told.length > 50, type)
      for (const [text, loses] of told) {
        assert.equal(loses, unitsOf(String(text)) % 10n ** (SMALLEST - places) !== 0n, `${text} as ${type}`)
      }
    }
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
