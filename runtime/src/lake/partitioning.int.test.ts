import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type LogicalType, typeName, type Value } from '@sluice/sdk'
import fc from 'fast-check'
import { fileType } from '../engine/sql-text.ts'
import { bucketOf } from './murmur3.ts'
import { parsePartitionKey, partitionKeySql } from './partitioning.ts'
import { encodeStored, parsePrinted, type StoredValue } from './stored-value.ts'
import { LIMITS, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

/** The partition values that the engine's expressions give for these values, given and read as text. */
async function partitionValues(type: LogicalType, transform: string, texts: readonly (string | null)[]) {
  const source = { id: 1, name: 'd', type, nullable: true }
  const field = { 'source-id': 1, 'field-id': 1000, name: 'p', transform }
  const list = texts.map((text) => (text === null ? 'NULL' : `'${text.replaceAll("'", "''")}'`)).join(', ')
  const cast = typeName(type) === 'binary' ? `from_hex(v)` : `CAST(v AS ${fileType(type)})`
  const sql = `SELECT ${partitionKeySql(field, source, '"d"')} FROM (SELECT n, ${cast} AS d FROM
    (SELECT unnest([${list}]::VARCHAR[]) AS v, generate_subscripts([${list}]::VARCHAR[], 1) AS n)) ORDER BY n`
  const job = { trust: 'own', steps: [{ sql, rows: 'collect' }], limits: LIMITS } as const
  const run = await lake.engine.run(job, AbortSignal.timeout(60_000))
  return (run.results[0]?.rows ?? []).map(([key]) => parsePartitionKey(field, source, key as string | null))
}

/** What Iceberg hashes: integers and dates as longs. */
function hashed(type: LogicalType, value: StoredValue): Uint8Array {
  const asLong = type === 'integer' || type === 'date'
  return encodeStored(asLong ? 'long' : type, asLong ? BigInt(value as number) : value)
}

const samples: Partial<Record<LogicalType, fc.Arbitrary<string>>> = {
  integer: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(String),
  long: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String),
  date: fc
    .date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
    .map((date) => date.toISOString().slice(0, 10)),
  timestamp: fc
    .date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
    .map((date) => date.toISOString().slice(0, -1)),
  'decimal(9,2)': fc.integer({ min: -999_999_999, max: 999_999_999 }).map((unscaled) => decimal(BigInt(unscaled), 2)),
  'decimal(38,10)': fc.bigInt(-(10n ** 38n) + 1n, 10n ** 38n - 1n).map((unscaled) => decimal(unscaled, 10)),
  uuid: fc.uuid(),
  string: fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => !text.includes('\0')),
}

function decimal(unscaled: bigint, scale: number): string {
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

test('buckets are those of the specification, for every type', async () => {
  for (const [type, arbitrary] of Object.entries(samples) as [LogicalType, fc.Arbitrary<string>][]) {
    const texts = fc.sample(arbitrary, { numRuns: 150, seed: 7 })
    const expected = texts.map((text) => bucketOf(hashed(type, parsePrinted(type, text) as StoredValue), 997))
    assert.deepEqual(await partitionValues(type, 'bucket[997]', texts), expected, type)
  }
  const binary = ['', '00', '0001', '000102', '00010203', 'ffffffffff']
  const expected = binary.map((hex) => bucketOf(Buffer.from(hex, 'hex'), 997))
  assert.deepEqual(await partitionValues('binary', 'bucket[997]', binary), expected)
})

test('times are cut downwards, also before 1970, and by UTC', async () => {
  const times = [
    '1969-12-31 23:59:59.999999',
    '1970-01-01 00:00:00',
    '1969-12-31 00:00:00',
    '2024-02-29 12:00:00',
    null,
  ]
  assert.deepEqual(await partitionValues('timestamp', 'hour', times), [-1, 0, -24, 474_780, null])
  assert.deepEqual(await partitionValues('timestamp', 'day', times), [-1, 0, -1, 19_782, null])
  assert.deepEqual(await partitionValues('timestamp', 'month', times), [-1, 0, -1, 649, null])
  assert.deepEqual(await partitionValues('timestamp', 'year', times), [-1, 0, -1, 54, null])
  const zoned = ['2024-01-01 00:30:00+02', '2023-12-31 23:30:00-05']
  assert.deepEqual(await partitionValues('timestamptz', 'day', zoned), [19_722, 19_723])
  assert.deepEqual(await partitionValues('timestamptz', 'year', zoned), [53, 54])
})

test('truncation goes downwards and counts characters', async () => {
  const cases: [LogicalType, string, string[], Value[]][] = [
    ['integer', 'truncate[10]', ['-1', '0', '9', '-10', '-2147483648'], [-10, 0, 0, -10, 2147483646]],
    ['long', 'truncate[10]', ['-1', '19', '9223372036854775807'], [-10n, 10n, 9223372036854775800n]],
    ['decimal(9,2)', 'truncate[50]', ['10.65', '-0.05', '-0.51'], [1050n, -50n, -100n]],
    ['string', 'truncate[3]', ['ä€😀b', 'ab', ''], ['ä€😀', 'ab', '']],
  ]
  for (const [type, transform, values, expected] of cases) {
    assert.deepEqual(await partitionValues(type, transform, values), expected, type)
  }
})

test('null, the empty string and text that looks like a marker are partitions of their own', async () => {
  const texts = [null, '', '!', ':', 'NULL', '__HIVE_DEFAULT_PARTITION__', 'a/b=c', 'x'.repeat(64)]
  assert.deepEqual(await partitionValues('string', 'identity', texts), texts)
})

test('values that cannot name a partition are refused', async () => {
  const refused = { kind: 'INVALID_DATA', code: 'lake_partition_value_invalid' }
  await assert.rejects(partitionValues('timestamp', 'day', ['infinity']), refused)
  await assert.rejects(partitionValues('date', 'identity', ['-infinity']), refused)
  await assert.rejects(partitionValues('string', 'identity', ['x'.repeat(65)]), refused)
})
