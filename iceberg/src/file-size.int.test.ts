import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import type { TableRef } from './index.ts'
import { engineTable } from './index.ts'
import { collect, LIMITS, startTestLake, type TestLake } from './testing.ts'

/** How large data files become, with and without partitions. */
let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'part', type: 'string', nullable: true },
    { name: 'noise', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const ROWS = 1_000_000
const TARGET_BYTES = 2 * 1024 * 1024

async function written(partitioning: readonly { readonly column: string; readonly transform: string }[]) {
  const ref: TableRef = { warehouse: 'acme', namespace: 'sized', table: `t_${randomUUID()}` }
  const target = {
    ref,
    base: null,
    // Nearly all in one partition, in no order, and hardly to be compressed.
    select: `SELECT (i * 7919) % ${ROWS} AS id, CASE WHEN i % 100 = 0 THEN 'few' ELSE 'many' END AS part,
      sha256(i::VARCHAR)[:24] AS noise FROM range(${ROWS}) t(i)`,
    schema: SCHEMA,
    rows: 'keep',
    partitioning,
    sortBy: ['id'],
    targetFileBytes: TARGET_BYTES,
  } as const
  const { written } = await lake.lake.write({ limits: LIMITS }, [target], AbortSignal.timeout(600_000))
  const [data] = written
  assert.ok(data)
  const { plan, files, writeId } = data
  const staged = await lake.lake.stage(ref, { base: null, plan, operation: 'append', files, writeId, summary: {} })
  await lake.publish([staged])
  return { files, scan: await lake.lake.scan(ref) }
}

for (const partitioning of [[], [{ column: 'part', transform: 'identity' }]]) {
  const title = partitioning.length === 0 ? 'a plain table' : 'a partitioned table'
  test(`${title} has files of the size that was asked for, in its order, and with all rows`, async () => {
    const { files, scan } = await written(partitioning)
    assert.ok(files.length > 3, `${files.length} files`)
    // A file ends with the row group that passes the target.
    for (const file of files) assert.ok(file.sizeBytes < TARGET_BYTES * 2, `${file.sizeBytes} bytes`)
    assert.equal(
      files.reduce((sum, file) => sum + file.rows, 0),
      ROWS,
    )
    const tables = [
      engineTable(scan, ['rows']),
      ...scan.files.map((file, at) => engineTable({ ...scan, files: [file] }, [`f${at}`])),
    ]
    const [all = [], ...each] = await collect(lake.engine, tables, [
      `SELECT count(*)::VARCHAR, count(DISTINCT id)::VARCHAR, count(*) FILTER (part = 'few')::VARCHAR FROM rows`,
      ...scan.files.map(
        (_, at) => `SELECT count(DISTINCT part)::INTEGER, any_value(part), min(id)::VARCHAR, max(id)::VARCHAR,
        count(*) FILTER (id < before)::INTEGER FROM (SELECT *, lag(id, 1, -1) OVER () AS before FROM f${at})`,
      ),
    ])
    assert.deepEqual(all, [[String(ROWS), String(ROWS), String(ROWS / 100)]])
    for (const [at, [row]] of each.entries()) {
      const file = files[at]
      const [parts, part, , , unordered] = row ?? []
      if (file?.sortOrderId !== 0) assert.equal(unordered, 0, 'rows lie in the order that the file claims')
      if (partitioning.length > 0) assert.deepEqual([parts, part], [1, file?.partition[0]])
    }
  })
}
