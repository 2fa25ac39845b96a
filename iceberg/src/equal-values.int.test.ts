/** What is equal is found, by filters, joins and merges, in files of values that repeat: the engine looks such up in filters. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { rename } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { DuckDBInstance } from '@duckdb/node-api'
import { quoteText } from '@sluice/engine'
import type { LogicalType, TableSchema } from '@sluice/sdk'
import type { TableRef } from './index.ts'
import { engineTable } from './scan.ts'
import { collect, commitStep, LIMITS, publish, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake
/** How many rows statements find, by type: in files of the lake, and in the same rows as the engine writes them. */
let found: { readonly own: Counts; readonly plain: Counts }

before(async () => {
  lake = await startTestLake()
  const scans = new Map<string, Scan>()
  for (const [type, values] of Object.entries(VALUES)) {
    const ref = newRef()
    await commitStep(lake, ref, { operation: 'append', schema: schemaOf(type), select: rowsOf(values) })
    scans.set(type, await lake.lake.scan(ref))
  }
  const own = await countsIn(scans, (type) => VALUES[type] ?? [])
  // As the engine writes by itself: in lakes that are older than this, and by others.
  for (const { localFile } of [...scans.values()].flatMap(({ files }) => files)) await writtenAnew(localFile ?? '')
  found = { own, plain: await countsIn(scans, plainValues) }
})
after(() => lake[Symbol.asyncDispose]())

const newRef = (): TableRef => ({ warehouse: 'acme', namespace: 'equal', table: `t_${randomUUID()}` })

const EACH = 40
const VALUES: Readonly<Record<string, readonly string[]>> = {
  binary: ["''::BLOB", "from_hex('ff')", "from_hex('00ff')", "from_hex('5c')", "'a'::BLOB"],
  string: ["''", "'a'", "'é'", "'😀'"],
  float: ["'nan'::FLOAT", "'-0'::FLOAT", '1.1::FLOAT', "'inf'::FLOAT"],
  double: ["'nan'::DOUBLE", "'-0'::DOUBLE", '1.1::DOUBLE', "'-inf'::DOUBLE"],
  integer: ['0', '-1', '2147483647'],
  'decimal(38,10)': ['0::DECIMAL(38,10)', '-0.0000000001::DECIMAL(38,10)'],
  timestamptz: ["'1969-12-31 23:59:59.999999+00'::TIMESTAMPTZ", "'9999-12-31 00:00:00+00'::TIMESTAMPTZ"],
  uuid: ["'ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID", "'00000000-0000-0000-0000-000000000000'::UUID"],
}

const schemaOf = (type: string): TableSchema => ({
  columns: [
    { name: 'v', type: type as LogicalType, nullable: false },
    { name: 'i', type: 'long', nullable: false },
  ],
  primaryKey: ['v', 'i'],
})

const rowsOf = (values: readonly string[]) =>
  `SELECT v, i FROM (VALUES ${values.map((value) => `(${value})`).join(', ')}) v(v), range(${EACH}) r(i)`

/** Those that are found however the file was written. */
const plainValues = (type: string): readonly string[] =>
  (VALUES[type] ?? []).filter((value) => !['float', 'double'].includes(type) || !value.includes('-0'))

for (const [type, values] of Object.entries(VALUES)) {
  test(`values of ${type} that repeat are found by an equal one`, () => {
    const expected = (asked: readonly string[]) => asked.flatMap(() => [EACH, EACH, EACH])
    assert.deepEqual(found.own.get(type), expected(values))
    assert.deepEqual(found.plain.get(type), expected(plainValues(type)))
  })
}

type Scan = Awaited<ReturnType<TestLake['lake']['scan']>>
type Counts = ReadonlyMap<string, readonly number[]>

/** All in one job: an engine's process for each type takes longer than what it is asked. */
async function countsIn(scans: ReadonlyMap<string, Scan>, valuesOf: (type: string) => readonly string[]) {
  const asked = [...scans].map(([type, scan], at) => {
    const table = `t${at}`
    const statements = valuesOf(type).flatMap((value) => [
      `SELECT count(*) FROM ${table} WHERE v = ${value}`,
      `SELECT count(*) FROM ${table} WHERE v IN (${value}, ${value})`,
      `SELECT count(*) FROM ${table} WHERE v IN (SELECT x FROM (VALUES (${value})) s(x))`,
    ])
    return { type, table: engineTable(scan, [table]), statements }
  })
  const told = await collect(
    lake.engine,
    asked.map(({ table }) => table),
    asked.flatMap(({ statements }) => statements),
  )
  const counts = told.map(([row]) => Number(row?.[0]))
  return new Map(asked.map(({ type, statements }) => [type, counts.splice(0, statements.length)]))
}

async function writtenAnew(file: string): Promise<void> {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  const [target, source] = [quoteText(`${file}.new`), quoteText(file)]
  await connection.run(
    `COPY (SELECT * FROM read_parquet(${source})) TO ${target} (FORMAT parquet, FIELD_IDS {v: 1, i: 2})`,
  )
  connection.closeSync()
  await rename(`${file}.new`, file)
}

test('rows are replaced and taken out by keys of bytes', async () => {
  const ref = newRef()
  const [schema, values] = [schemaOf('binary'), VALUES['binary'] ?? []]
  await commitStep(lake, ref, { operation: 'append', schema, select: rowsOf(values) })
  const base = await lake.lake.load(ref)
  assert.ok(base)
  const scan = await lake.lake.scan(base)
  const job = { limits: LIMITS }
  const changed = "SELECT from_hex('ff') AS v, 3::BIGINT AS i UNION ALL SELECT from_hex('ff'), 100"
  const gone = "SELECT from_hex('00ff') AS v, 5::BIGINT AS i"
  const request = { base, scan, schema, rows: 'keep', key: ['v', 'i'], job, changed, gone } as const
  const { written, removed, removedFrom } = await lake.lake.merge(request, AbortSignal.timeout(600_000))
  const commit = { base, plan: written.plan, operation: 'overwrite', files: written.files } as const
  await publish(
    lake,
    await lake.lake.stage(ref, { ...commit, removed, removedFrom, writeId: written.writeId, summary: {} }),
  )
  const statements = [
    'SELECT count(*), count(DISTINCT (v, i)) FROM t',
    "SELECT count(*) FROM t WHERE v = from_hex('00ff') AND i = 5",
  ]
  const told = await collect(lake.engine, [engineTable(await lake.lake.scan(ref), ['t'])], statements)
  assert.deepEqual(told.flat(2).map(Number), [5 * EACH, 5 * EACH, 0])
})
