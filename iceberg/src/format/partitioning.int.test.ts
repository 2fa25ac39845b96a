import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fileType } from '@sluice/engine'
import { type LogicalType, typeName } from '@sluice/sdk'
import fc from 'fast-check'
import { collect, startTestLake, type TestLake } from '../testing.ts'
import { bucketOf } from './murmur3.ts'
import { parsePartitionKey, partitionKeySql } from './partitioning.ts'
import { encodeStored, parsePrinted, type StoredValue } from './stored-value.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

interface Case {
  readonly type: LogicalType
  readonly transform: string
  readonly texts: readonly (string | null)[]
}

/** The partition values that the engine's expressions give for values given as text; one job for all cases. */
async function partitionValues(...cases: readonly Case[]): Promise<readonly (readonly (StoredValue | null)[])[]> {
  const found = await collect(lake.engine, [], cases.map(statement))
  return cases.map((one, at) => {
    const { field, source } = fieldOf(one)
    return (found[at] ?? []).map(([key]) => parsePartitionKey(field, source, key as string | null))
  })
}

function fieldOf({ type, transform }: Case) {
  const source = { id: 1, name: 'd', type, nullable: true }
  return { source, field: { 'source-id': 1, 'field-id': 1000, name: 'p', transform } }
}

function statement(one: Case): string {
  const { field, source } = fieldOf(one)
  const list = `[${one.texts.map((text) => (text === null ? 'NULL' : `'${text.replaceAll("'", "''")}'`)).join(', ')}]::VARCHAR[]`
  const cast = typeName(one.type) === 'binary' ? 'from_hex(v)' : `CAST(v AS ${fileType(one.type)})`
  return `SELECT ${partitionKeySql(field, source, '"d"')} FROM (SELECT n, ${cast} AS d FROM
    (SELECT unnest(${list}) AS v, generate_subscripts(${list}, 1) AS n)) ORDER BY n`
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
  const binary = ['', '00', '0001', '000102', '00010203', 'ffffffffff']
  const texts = (Object.entries(samples) as [LogicalType, fc.Arbitrary<string>][]).map(
    ([type, arbitrary]): [LogicalType, readonly string[]] => [type, fc.sample(arbitrary, { numRuns: 150, seed: 7 })],
  )
  const cases = [...texts, ['binary', binary] as const].map(([type, texts]) => ({
    type,
    transform: 'bucket[997]',
    texts,
  }))
  const found = await partitionValues(...cases)
  for (const [at, { type, texts }] of cases.entries()) {
    const bytes = (text: string) =>
      type === 'binary' ? Buffer.from(text, 'hex') : hashed(type, parsePrinted(type, text) as StoredValue)
    assert.deepEqual(
      found[at],
      texts.map((text) => bucketOf(bytes(text), 997)),
      type,
    )
  }
})

test('times are cut downwards, also before 1970, and by UTC', async () => {
  const texts = [
    '1969-12-31 23:59:59.999999',
    '1970-01-01 00:00:00',
    '1969-12-31 00:00:00',
    '2024-02-29 12:00:00',
    null,
  ]
  const zoned = ['2024-01-01 00:30:00+02', '2023-12-31 23:30:00-05', '2023-12-31 23:59:59+00', '2024-01-01 00:00:00+00']
  const found = await partitionValues(
    ...['hour', 'day', 'month', 'year'].map((transform): Case => ({ type: 'timestamp', transform, texts })),
    ...['day', 'year'].map((transform): Case => ({ type: 'timestamptz', transform, texts: zoned })),
  )
  assert.deepEqual(found, [
    [-1, 0, -24, 474_780, null],
    [-1, 0, -1, 19_782, null],
    [-1, 0, -1, 649, null],
    [-1, 0, -1, 54, null],
    [19_722, 19_723, 19_722, 19_723],
    [53, 54, 53, 54],
  ])
})

test('truncation goes downwards and counts characters', async () => {
  const found = await partitionValues(
    { type: 'integer', transform: 'truncate[10]', texts: ['-1', '0', '9', '-10', '-2147483640'] },
    { type: 'long', transform: 'truncate[10]', texts: ['-1', '19', '9223372036854775807'] },
    { type: 'decimal(9,2)', transform: 'truncate[50]', texts: ['10.65', '-0.05', '-0.51'] },
    { type: 'string', transform: 'truncate[3]', texts: ['ä€😀b', 'ab', ''] },
  )
  assert.deepEqual(found, [
    [-10, 0, 0, -10, -2147483640],
    [-10n, 10n, 9223372036854775800n],
    [1050n, -50n, -100n],
    ['ä€😀', 'ab', ''],
  ])
})

test('null, the empty string and text that looks like a marker are partitions of their own', async () => {
  const texts = [null, '', '!', ':', 'NULL', '__HIVE_DEFAULT_PARTITION__', 'a/b=c', 'x'.repeat(64)]
  assert.deepEqual(await partitionValues({ type: 'string', transform: 'identity', texts }), [texts])
})

test('values that cannot name a partition are refused', async () => {
  const bad: readonly Case[] = [
    { type: 'timestamp', transform: 'day', texts: ['infinity'] },
    { type: 'date', transform: 'identity', texts: ['-infinity'] },
    { type: 'string', transform: 'identity', texts: ['x'.repeat(65)] },
    { type: 'decimal(9,2)', transform: 'truncate[5000]', texts: ['-9999999.99'] },
    { type: 'integer', transform: 'truncate[10]', texts: ['-2147483648'] },
    { type: 'long', transform: 'truncate[100]', texts: ['-9223372036854775808'] },
  ]
  for (const one of bad) {
    await assert.rejects(partitionValues(one), { kind: 'INVALID_DATA', code: 'lake_partition_value_invalid' })
  }
})
