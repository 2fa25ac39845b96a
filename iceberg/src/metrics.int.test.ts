import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { LogicalType, Row, TableSchema, Value } from '@sluice/sdk'
import { decodeStored, parsePrinted, type StoredValue } from './format/stored-value.ts'
import type { Scan, ScanFile } from './index.ts'
import { commitStep, readScans, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const TYPES: Record<string, LogicalType> = {
  i: 'integer',
  l: 'long',
  f: 'float',
  d: 'double',
  dec: 'decimal(9,2)',
  wide: 'decimal(38,5)',
  day: 'date',
  at: 'timestamp',
  zoned: 'timestamptz',
  u: 'uuid',
  b: 'binary',
  s: 'string',
  j: 'json',
  ok: 'boolean',
}
const SCHEMA: TableSchema = {
  columns: Object.entries(TYPES).map(([name, type]) => ({ name, type, nullable: name !== 'i' })),
  primaryKey: ['i'],
}
// Each column has nulls; the floating ones have zeros of both signs, infinities and NaN in some partitions only.
const SELECT = `SELECT n::INTEGER AS i, (n * 922337203685477 - 4611686018427387904)::BIGINT AS l,
  CASE n % 9 WHEN 0 THEN '-0.0'::FLOAT WHEN 1 THEN 'nan'::FLOAT ELSE n / 3 END AS f,
  CASE WHEN n = 5 THEN 'infinity'::DOUBLE WHEN n % 7 = 0 THEN 0 ELSE (n - 50) / 7 END AS d,
  ((n - 40) * 1.37)::DECIMAL(9,2) AS dec, ((n - 40) * 12345678901.12345)::DECIMAL(38,5) AS wide,
  CASE WHEN n = 70 THEN 'infinity'::DATE WHEN n > 3 THEN DATE '1969-11-25' + n::INTEGER END AS day,
  TIMESTAMP '1969-12-31 12:00:00.123456' + INTERVAL (n) HOUR AS at,
  TIMESTAMPTZ '2020-01-01 00:00:00+02' + INTERVAL (n) HOUR AS zoned, uuid() AS u, encode('x' || n) AS b,
  CASE WHEN n % 6 = 0 THEN NULL WHEN n % 7 = 0 THEN '' ELSE repeat('ä€😀', n % 11) || chr((n + 60)::INTEGER) END AS s,
  '{"n":' || n || '}' AS j, CASE WHEN n % 5 > 0 THEN n % 2 = 0 END AS ok FROM range(80) r(n)`

const SPECS = [
  [],
  [{ column: 'ok', transform: 'identity' }],
  [{ column: 's', transform: 'truncate[2]' }],
  [
    { column: 'zoned', transform: 'day' },
    { column: 'l', transform: 'bucket[2]' },
  ],
  [{ column: 'dec', transform: 'truncate[5000]' }],
]

for (const partitioning of SPECS) {
  const name = partitioning.map(({ column, transform }) => `${column} ${transform}`).join(', ') || 'nothing'
  test(`no row lies outside what its manifest says of its file, partitioned by ${name}`, async () => {
    const ref = { warehouse: 'acme', namespace: 'metrics', table: `t${SPECS.indexOf(partitioning)}` }
    await commitStep(lake, ref, { operation: 'append', schema: SCHEMA, select: SELECT, partitioning })
    const scan = await lake.lake.scan(ref)
    assert.equal(scan.rows, 80)
    let bounded = 0
    const found = await readScans(
      lake,
      scan.files.map((file) => ({ ...scan, files: [file] })),
    )
    for (const [at, file] of scan.files.entries()) bounded += checkFile(scan, file, found[at] ?? [])
    assert.ok(bounded >= scan.files.length * 8, 'bounds are there at all')
  })
}

function checkFile(scan: Scan, file: ScanFile, rows: readonly Row[]): number {
  assert.equal(rows.length, file.rows)
  for (const [at, { id, type, name }] of scan.schema.fields.entries()) {
    const present = rows.map((row) => row[at] as Value).filter((value) => value !== null)
    assert.equal(file.file.valueCounts.get(id), rows.length, name)
    assert.equal(file.file.nullCounts.get(id), rows.length - present.length, name)
    const [lower, upper] = [file.file.lowerBounds.get(id), file.file.upperBounds.get(id)]
    if (lower === undefined || upper === undefined) continue
    for (const value of present) {
      assert.ok(!isBelow(stored(type, value), decodeStored(type, lower)), `${name}: ${value} is below its bound`)
      assert.ok(!isBelow(decodeStored(type, upper), stored(type, value)), `${name}: ${value} is above its bound`)
    }
  }
  return file.file.lowerBounds.size
}

function stored(type: LogicalType, value: Value): StoredValue {
  if (typeof value !== 'string') return value as StoredValue
  const parsed = parsePrinted(type, value)
  assert.notEqual(parsed, null, `${type} ${value} must have no bounds`)
  return parsed as StoredValue
}

function isBelow(a: StoredValue, b: StoredValue): boolean {
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0
  return a < b || (Object.is(a, -0) && Object.is(b, 0)) || Number.isNaN(a)
}
