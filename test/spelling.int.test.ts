/** How values are told as text: by every output of the engine alike, and numbers by no more digits than PostgreSQL takes. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createEngine, type Engine } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import fc from 'fast-check'
import { startTestPostgres, type TestDatabase } from '../runtime/src/database/testing.ts'

const LIMITS = { memoryBytes: 256 * 1024 * 1024, timeoutMs: 600_000, threads: 1 }

let folder: string
let engine: Engine
let database: TestDatabase

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-spelling-'))
  engine = createEngine({
    scratchDir: folder,
    ...(await testEngineProgram()),
    maxChildren: 1,
    warmChildren: 1,
    maxQueued: 9,
  })
  database = await (await startTestPostgres()).createDatabase()
})

after(async () => {
  await engine?.close()
  await database?.drop()
  await rm(folder, { recursive: true, force: true })
})

async function written(kind: 'json-rows' | 'ndjson' | 'csv', sql: string): Promise<string> {
  const run = await engine.run({ trust: 'own', output: { kind, sql }, limits: LIMITS }, AbortSignal.timeout(600_000))
  const chunks: Uint8Array[] = []
  for await (const chunk of run.output) chunks.push(chunk)
  await run.finished
  return Buffer.concat(chunks).toString()
}

const NUMBERS = {
  double: [
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.double({ min: 1e14, max: 1e17, noNaN: true }),
    fc.integer().map(Number),
  ],
  float: [
    fc.float({ noNaN: true, noDefaultInfinity: true }),
    fc.float({ min: 1e5, max: 2 ** 57, noNaN: true }),
    fc.integer({ min: -(2 ** 24), max: 2 ** 24 }).map(Number),
  ],
} as const
const EDGES = [0, -0, 0.1, 0.1 + 0.2, 1e-4, 1e-5, 1e-7, 999_999, 1e6, 123_456.7, 1_234_567, 16_777_216, 1e9, -1e10]
const FAR_EDGES = [999_999_999_999_999, 1e15 + 0.5, 9_007_199_254_740_991, 1e21, 1e22, 5e-324, Number.MAX_VALUE]

describe('numbers', () => {
  for (const [type, arbitraries] of Object.entries(NUMBERS)) {
    it(`of the type ${type} are told by texts that give them back, whole ones without a point`, async () => {
      const made = arbitraries.flatMap((arbitrary) => fc.sample(arbitrary as fc.Arbitrary<number>, 300))
      const texts = [...made, ...EDGES, ...(type === 'float' ? [1e-45, 3.4028235e38] : FAR_EDGES)].map((value) =>
        Object.is(value, -0) ? '-0' : String(value),
      )
      const known = await database.pool().query<{ text: string; value: number }>(
        `SELECT to_json(v::${type === 'float' ? 'real' : 'double precision'})::text AS text
          FROM unnest($1::text[]) WITH ORDINALITY t(v, at) ORDER BY at`,
        [texts],
      )
      const sql = `SELECT v::${type} FROM (VALUES ${texts.map((text) => `('${text}')`).join(', ')}) AS t(v)`
      const outputs = {
        json: (await written('json-rows', sql)).split('\n').map((row) => row.replace(/^\[|\],?$/g, '')),
        lines: (await written('ndjson', sql))
          .trimEnd()
          .split('\n')
          .map((line) => line.replace(/^[^:]*:|}$/g, '')),
        csv: (await written('csv', sql)).trimEnd().split('\n').slice(1),
      }
      for (const [output, told] of Object.entries(outputs)) {
        assert.equal(told.length >= texts.length, true, output)
        for (const [at, { text }] of known.rows.entries()) {
          const isSame = told[at] === text || isNear(told[at] ?? '', text, type)
          assert.ok(isSame, `${output}: ${texts[at]} is ${told[at]}, and ${text} in PostgreSQL`)
        }
      }
    })
  }
})

/** Exponents begin elsewhere. PostgreSQL does without texts that are as near to two numbers; floats may have a digit too many. */
function isNear(text: string, other: string, type: string): boolean {
  const value = (one: string) => (type === 'float' ? Math.fround(Number(one)) : Number(one))
  const digits = (one: string) => one.replace(/e.*|[-.]/g, '').replace(/^0+|0+$/g, '').length
  return (
    Object.is(value(text), value(other)) && (type === 'float' || digits(text) <= digits(other)) && !text.endsWith('.0')
  )
}

/** A value as SQL, and how it is told; what is no text in JSON is the second. */
const TOLD: readonly (readonly [sql: string, told: string, json?: unknown])[] = [
  ["'NaN'::DOUBLE", 'NaN'],
  ["'-inf'::FLOAT", '-Infinity'],
  ['9007199254740991', '9007199254740991', 9007199254740991],
  ['-9007199254740992', '-9007199254740992'],
  ['18446744073709551615::UBIGINT', '18446744073709551615'],
  ["'-170141183460469231731687303715884105728'::HUGEINT", '-170141183460469231731687303715884105728'],
  ["'340282366920938463463374607431768211455'::UHUGEINT", '340282366920938463463374607431768211455'],
  ['170141183460469231731687303715884105728::UHUGEINT', '170141183460469231731687303715884105728'],
  ['9007199254740991::UHUGEINT', '9007199254740991', 9007199254740991],
  ['9007199254740992::UBIGINT', '9007199254740992'],
  ['sum(1::BIGINT)', '1', 1],
  ['0.5::DECIMAL(1,1)', '0.5'],
  ['-0.5::DECIMAL(38,38)', `-0.5${'0'.repeat(37)}`],
  ['true', 'true', true],
  ["DATE '0001-01-01'", '0001-01-01'],
  ["DATE '12345-06-07'", '12345-06-07'],
  ["DATE '0001-02-29 (BC)'", '0000-02-29'],
  ["DATE '0044-03-15 (BC)'", '-000043-03-15'],
  ["DATE '5877642-06-25 (BC)'", '-5877641-06-25'],
  ["DATE '5881580-07-10'", '5881580-07-10'],
  ["'infinity'::DATE", 'infinity'],
  ["TIMESTAMP '2020-01-01 00:00:01.5'", '2020-01-01T00:00:01.500000'],
  ["TIMESTAMP '12345-01-01 01:02:03.000001'", '12345-01-01T01:02:03.000001'],
  ["TIMESTAMP '0044-03-15 (BC) 01:02:03'", '-000043-03-15T01:02:03.000000'],
  ["TIMESTAMP '290309-12-22 (BC) 00:00:00'", '-290308-12-22T00:00:00.000000'],
  ["TIMESTAMP '294247-01-10 04:00:54.775806'", '294247-01-10T04:00:54.775806'],
  ["'-infinity'::TIMESTAMP", '-infinity'],
  ["TIMESTAMP_S '1969-12-31 23:59:59'", '1969-12-31T23:59:59.000000'],
  ["TIMESTAMP_MS '1969-12-31 23:59:59.9'", '1969-12-31T23:59:59.900000'],
  ["TIMESTAMP_NS '1969-12-31 23:59:59.123456789'", '1969-12-31T23:59:59.123456789'],
  ["TIMESTAMP_NS '2020-01-01 00:00:01.1234'", '2020-01-01T00:00:01.123400'],
  ["'infinity'::TIMESTAMP_NS", 'infinity'],
  ["TIMESTAMPTZ '2020-01-01 00:00:00+05:30'", '2019-12-31T18:30:00.000000Z'],
  ["TIMESTAMPTZ '0044-03-15 (BC) 01:02:03+00'", '-000043-03-15T01:02:03.000000Z'],
  ["'infinity'::TIMESTAMPTZ", 'infinity'],
  ["TIME '24:00:00'", '24:00:00.000000'],
  ["TIME '23:59:59.9'", '23:59:59.900000'],
  ["'23:59:59.123456789'::TIME_NS", '23:59:59.123456789'],
  ["'12:00:00.5+05:30'::TIMETZ", '12:00:00.500000+05:30'],
  ["'00:00:00-08'::TIMETZ", '00:00:00.000000-08'],
  ["INTERVAL '1 year -2 days -03:00:00.5'", '1 year -2 days -03:00:00.5'],
  ["'0101'::BIT", '0101'],
  ["'\\x00\\xFF\\x22'::BLOB", 'AP8i'],
  ["'FFFFFFFF-0000-0000-0000-000000000001'::UUID", 'ffffffff-0000-0000-0000-000000000001'],
  ["'a\"b'::ENUM('a\"b')", 'a"b'],
  ['\'say "x"\'', 'say "x"'],
  [`['NaN'::DOUBLE, 1, 1e15]`, '["NaN",1,1000000000000000]', ['NaN', 1, 1e15]],
  [
    "{'a': DATE '0044-03-15 (BC)', 'b': [TIME '24:00:00'], 'c': NULL::INTEGER}",
    '{"a":"-000043-03-15","b":["24:00:00.000000"],"c":null}',
    { a: '-000043-03-15', b: ['24:00:00.000000'], c: null },
  ],
  ["MAP {DATE '2020-01-01': -0.0::DOUBLE}", '[["2020-01-01",-0]]', [['2020-01-01', -0]]],
]

describe('a value of a query', () => {
  it('keeps each of its members where they have no names', async () => {
    const sql = `SELECT ROW(1, NULL, 'a') AS one, [ROW(DATE '2020-01-01', {'b': ROW(2)})] AS list, NULL::STRUCT(a INTEGER) AS none,
      ['340282366920938463463374607431768211455'::UHUGEINT] AS far`
    const [one, list, far] = [[1, null, 'a'], [['2020-01-01', { b: [2] }]], ['340282366920938463463374607431768211455']]
    const rows = await written('json-rows', sql)
    assert.deepEqual(JSON.parse(rows.replace(/,\s*$/, '')), [one, list, null, far])
    assert.deepEqual(JSON.parse(await written('ndjson', sql)), { one, list, none: null, far })
    const [, row = ''] = (await written('csv', sql)).split('\n')
    assert.equal(
      row,
      '"[1,null,""a""]","[[""2020-01-01"",{""b"":[2]}]]",,"[""340282366920938463463374607431768211455""]"',
    )
  })

  it('is told alike in JSON, lines, CSV, where the platform itself reads it, and as the text of a cell', async () => {
    const sql = `SELECT ${TOLD.map(([expression], at) => `${expression} AS c${at}`).join(', ')}`
    const json = TOLD.map(([, told, json]) => (json === undefined ? told : json))
    assert.deepEqual(JSON.parse(await written('json-rows', sql).then((text) => text.replace(/,\s*$/, ''))), json)
    assert.deepEqual(Object.values(JSON.parse(await written('ndjson', sql))), json)
    const [, row = ''] = (await written('csv', sql)).split('\n')
    const cells = [...row.matchAll(/(?:"((?:[^"]|"")*)"|([^",]*))(?:,|$)/g)].map(
      ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain,
    )
    assert.deepEqual(
      cells.slice(0, TOLD.length),
      TOLD.map(([, told]) => told),
    )
    const steps = [
      { sql, rows: 'collect' as const },
      { sql, rows: 'collect' as const, textCharacters: 60 },
      { sql: "SELECT 'abcä😀f', NULL, [1, 2, 3] ORDER BY 1 LIMIT 1", rows: 'collect' as const, textCharacters: 5 },
    ]
    const { results } = await engine.run({ trust: 'own', steps, limits: LIMITS }, AbortSignal.timeout(600_000))
    const own = results[0]?.rows[0]?.map((value) =>
      typeof value === 'bigint' || typeof value === 'number' ? String(value) : value,
    )
    const comparable = TOLD.map(([, told, json]) =>
      Array.isArray(json) || json === true || (typeof json === 'object' && json !== null) ? json : told,
    )
    assert.deepEqual(
      own?.map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value)),
      comparable,
    )
    assert.deepEqual(
      results[1]?.rows[0],
      TOLD.map(([, told]) => told),
    )
    assert.deepEqual(results[2]?.rows, [['abcä😀', null, '[1,2,']])
  })
})
