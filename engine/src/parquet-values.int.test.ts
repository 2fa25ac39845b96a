/** What a query gives as parquet is what it gives as JSON, to the last digit, whatever its type is made of. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { createEngine, type Engine, type EngineRun } from './index.ts'
import { testEngineProgram } from './testing.ts'

let dir: string
let engine: Engine
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-parquet-'))
  const children = { maxChildren: 2, warmChildren: 1, maxQueued: 4 }
  engine = createEngine({ scratchDir: join(dir, 'scratch'), ...(await testEngineProgram()), ...children })
})
after(async () => {
  await engine.close()
  await rm(dir, { recursive: true, force: true })
})

const LIMITS = { memoryBytes: 512 * 1024 * 1024, timeoutMs: 600_000, threads: 1 }

const run = (sql: string, kind: 'json-rows' | 'parquet', readPaths: readonly string[] = []): Promise<EngineRun> => {
  const trust = readPaths.length > 0 ? 'own' : 'tenant'
  const job = { trust, tenant: 'acme', tables: [], readPaths, output: { kind, sql }, limits: LIMITS } as const
  return engine.run(job, AbortSignal.timeout(600_000))
}

async function bytesOf({ output, finished }: EngineRun): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of output) chunks.push(chunk)
  await finished
  return Buffer.concat(chunks)
}

/** Values as SQL, of the types that a query may give, and the type that a file has where it is another. */
const VALUES: readonly (readonly [string, string?])[] = [
  ...['99999999999999999999999999999999999999', '-9007199254740993', '0'].map(
    (digits) => [`'${digits}'::HUGEINT`, 'DECIMAL(38,0)'] as const,
  ),
  ["'18446744073709551617'::UHUGEINT", 'DECIMAL(38,0)'],
  ['(SELECT sum(x) FROM (VALUES (9007199254740993::BIGINT), (2)) t(x))', 'DECIMAL(38,0)'],
  ["INTERVAL '1 year 2 days 03:00:00.001'", 'INTERVAL'],
  ["TIMETZ '12:00:00.5+05:30'", 'VARCHAR'],
  ["TIMETZ '00:00:00-15:59:59'", 'VARCHAR'],
  ['18446744073709551615::UBIGINT'],
  ["TIME '24:00:00'"],
  ["'-infinity'::TIMESTAMPTZ"],
  ["'12345-01-01'::DATE"],
  ["'2026-02-28T12:00:00.123456789'::TIMESTAMP_NS"],
  ["'1e-45'::FLOAT"],
  ['1.10::DECIMAL(38,37)'],
  ["'\\xFF'::BLOB"],
]
/** By how a value is held: in a list, a record, a map, and in each other, beside a null. */
const HELD: Readonly<Record<string, (value: string) => string>> = {
  alone: (value) => value,
  list: (value) => `[${value}, NULL]`,
  record: (value) => `{'a "b': ${value}, 'c': 1}`,
  row: (value) => `ROW(${value}, 'x')`,
  map: (value) => `MAP {'k': ${value}, 'n': NULL}`,
  array: (value) => `array_value(${value}, NULL)`,
  records: (value) => Array.from({ length: 12 }).reduce<string>((inner) => `{'r': ${inner}}`, value),
  deep: (value) => `[{'m': MAP {'k': [${value}]}}, NULL]`,
}

/** Where a number stands as text, and where as a number, is no difference here. */
const inTexts = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value), (_, part) => (typeof part === 'number' ? String(part) : part))

async function rowsOf(asked: Promise<EngineRun>): Promise<readonly (readonly unknown[])[]> {
  return JSON.parse(`[${(await bytesOf(await asked)).toString().replace(/,\s*$/, '')}]`)
}

it('tells the same values from a file of parquet as in JSON, and its columns by the same names', async () => {
  const file = join(dir, 'values.parquet')
  const cases = VALUES.flatMap(([value, type]) =>
    Object.entries(HELD).map(([how, held]) => ({
      name: `${how} "${value}"`,
      sql: held(value),
      type: how === 'alone' ? type : undefined,
    })),
  )
  const name = (at: number) => `"${cases[at]?.name.replaceAll('"', '""')}"`
  const columns = cases.map(({ sql }, at) => `${sql} AS ${name(at)}`)
  const sql = `SELECT ${columns.join(', ')} UNION ALL SELECT ${cases.map(() => 'NULL').join(', ')} -- the end`
  await writeFile(file, await bytesOf(await run(sql, 'parquet')))
  const [whole, none] = (await rowsOf(run(sql, 'json-rows'))) as [unknown[], unknown[]]
  const [written, empty] = (await rowsOf(run(`SELECT * FROM '${file}'`, 'json-rows', [file]))) as [unknown[], unknown[]]
  const described = await rowsOf(
    run(`SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM '${file}')`, 'json-rows', [file]),
  )
  for (const [at, { name: told, type }] of cases.entries()) {
    assert.deepEqual(inTexts([written[at], empty[at]]), inTexts([whole[at], none[at]]), told)
    assert.equal(none[at], null)
    assert.equal(described[at]?.[0], told)
    if (type !== undefined) assert.equal(described[at]?.[1], type, told)
  }
  assert.equal(described.length, cases.length)
})

it('refuses what a file could not hold, however it is held, and tells nothing of it', async () => {
  for (const value of [
    "'170141183460469231731687303715884105727'::HUGEINT",
    "INTERVAL '1703 days 00:00:00.000001'",
    "INTERVAL '-1703 days'",
  ]) {
    for (const [how, held] of Object.entries(HELD)) {
      const told = async () => bytesOf(await run(`SELECT ${held(value)} AS v`, 'parquet'))
      await assert.rejects(
        told(),
        (error: unknown) => isSluiceError(error, 'INVALID_DATA') && !/170[13]/.test(error.message),
        `${how} ${value}`,
      )
    }
  }
})

it('keeps two columns of one name', async () => {
  const file = join(dir, 'twins.parquet')
  const named = `SELECT column_name FROM (DESCRIBE SELECT * FROM '${file}')`
  for (const sql of ['SELECT 1 AS v, 2 AS v', 'SELECT 1::HUGEINT AS v, 2::HUGEINT AS v']) {
    await writeFile(file, await bytesOf(await run(sql, 'parquet')))
    assert.deepEqual(await rowsOf(run(named, 'json-rows', [file])), [['v'], ['v_1']], sql)
  }
})
