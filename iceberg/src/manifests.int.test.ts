import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import { readAvro } from './format/avro-file.ts'
import type { DataFile } from './index.ts'
import { LIMITS, publish, startTestLake, type TestLake } from './testing.ts'

let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'amount', type: 'decimal(20,2)', nullable: true },
  ],
  primaryKey: ['id'],
}
const ref = { warehouse: 'acme', namespace: 'many', table: 'commits' }
const COMMITS = 130

test('the manifests of many small commits are merged, and no file is lost or changed by it', async () => {
  const target = {
    ref,
    base: null,
    schema: SCHEMA,
    rows: 'keep',
    select: 'SELECT 1 AS id, -1234567890123.45 AS amount',
    partitioning: [{ column: 'amount', transform: 'truncate[10]' }],
  } as const
  const { written } = await lake.lake.write({ limits: LIMITS }, [target], AbortSignal.timeout(600_000))
  const [data] = written
  const [real] = data?.files ?? []
  assert.ok(data && real)
  const expected = new Map<string, DataFile>()
  let base = null
  for (let at = 0; at < COMMITS; at++) {
    const file = {
      ...real,
      uri: real.uri.replace('.parquet', `-${at}.parquet`),
      rows: at + 1,
      partition: [at % 5 === 0 ? null : BigInt(-at * 10)],
    }
    expected.set(file.uri, file)
    const plan = base === null ? { plan: data.plan } : {}
    await publish(lake, await lake.lake.stage(ref, { base, ...plan, operation: 'append', files: [file], summary: {} }))
    base = await lake.lake.load(ref)
  }
  const scan = await lake.lake.scan(ref)
  assert.deepEqual(new Map(scan.files.map(({ uri, file }) => [uri, file])), expected)
  assert.equal(scan.rows, (COMMITS * (COMMITS + 1)) / 2)
  assert.equal(scan.summary['total-data-files'], String(COMMITS))
  const list = base?.metadata.snapshots.at(-1)?.['manifest-list'] as string
  const file = await lake.store.get(lake.store.pathOf(list) as string)
  const lines = (await readAvro(file, { records: 1000 })).records
  assert.ok(lines.length < 101, `${lines.length} manifests`)
})

test('of a merged manifest one file can be removed, and removing what is not there is a conflict', async () => {
  const base = await lake.lake.load(ref)
  const [first, second] = (await lake.lake.scan(ref)).files
  assert.ok(base && first && second)
  const request = { base, operation: 'overwrite', files: [], summary: {} } as const
  const staged = await lake.lake.stage(ref, { ...request, removed: [first.uri] })
  assert.deepEqual([staged.removedRows, staged.addedRows], [first.rows, 0])
  await publish(lake, staged)
  const left = (await lake.lake.scan(ref)).files.map((file) => file.uri)
  assert.deepEqual([left.length, left.includes(first.uri), left.includes(second.uri)], [COMMITS - 1, false, true])
  const again = { ...request, base: await lake.lake.load(ref), removed: [first.uri] }
  await assert.rejects(lake.lake.stage(ref, again), { kind: 'CONFLICT', code: 'lake_commit_conflict' })
})
