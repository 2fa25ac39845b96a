/** Tables with files that cannot be read any more: whoever writes everything anew can, and who keeps rows cannot. */
import assert from 'node:assert/strict'
import { readdir, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { TableSchema } from '@sluice/sdk'
import { isToBegin, type Lake, type TableRef } from './index.ts'
import { StoreCatalog } from './store-catalog.ts'
import { commitStep, LIMITS, publish, readScan, startLakeOver, startTestLake, type TestLake } from './testing.ts'

let shelf: TestLake

before(async () => {
  shelf = await startTestLake()
})
after(() => shelf[Symbol.asyncDispose]())

const SCHEMA: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'item', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}
const PARTITIONED = [{ column: 'id', transform: 'bucket[2]' }]

const HARM = { removed: unlink, garbled: (file: string) => writeFile(file, '{"x":') }
const KINDS = {
  metadata: /^metadata\/.*\.metadata\.json$/,
  list: /^metadata\/snap-.*\.avro$/,
  manifest: /^metadata\/.*-m\.avro$/,
  data: /^data\//,
} as const

for (const [kind, pattern] of Object.entries(KINDS)) {
  for (const [how, harm] of Object.entries(HARM)) {
    for (const partitioning of [[], PARTITIONED]) {
      const table = `${kind}_${how}_${partitioning.length}`

      test(`${table}: all rows take the place of those that cannot be read, and the table goes on`, async () => {
        const ref: TableRef = { warehouse: 'acme', namespace: 'broken', table }
        const rows = (item: string) => `SELECT i AS id, '${item}' AS item FROM range(4) t(i)`
        for (const operation of ['replace', 'append'] as const) {
          const select = operation === 'replace' ? rows('first') : "SELECT 9 AS id, 'more' AS item"
          await commitStep(shelf, ref, { operation, select, schema: SCHEMA, partitioning })
        }
        const root = join(shelf.dir, 'store', (await shelf.lake.load(ref))?.files.root ?? '')
        const files = (await readdir(root, { recursive: true })).filter((file) => pattern.test(file))
        assert.ok(files.length > 0, `${root} has no ${kind}`)
        for (const file of files) await harm(join(root, file))
        const lake = shelf.lake.fresh()
        if (kind === 'metadata') await assert.rejects(lake.load(ref), { code: 'lake_file_corrupted' })
        if (kind !== 'data') await assert.rejects(append(lake, ref), { code: 'lake_file_corrupted' })

        const base = await lake.loadToReplace(ref)
        assert.equal(isToBegin(base), kind === 'metadata')
        const staged = await replace(lake, ref, rows('anew'), partitioning)
        await publish(shelf, staged)
        // Who began from the same state has lost.
        await assert.rejects(lake.publish(shelf.catalog, [{ ...staged, to: `${staged.to}x`, snapshotId: '1' }]))

        const again = shelf.lake.fresh()
        const scan = await again.scan(ref)
        assert.deepEqual(
          (await readScan(shelf, scan)).map((row) => (row as unknown as unknown[])[1]),
          ['anew', 'anew', 'anew', 'anew'],
        )
        assert.equal(scan.summary['total-records'], '4')
        await publish(shelf, await append(again, ref))
        assert.equal((await again.scan(ref)).rows, 5)
        const problems = await again.check(ref, AbortSignal.timeout(60_000))
        const snapshots = new Set(again.snapshots((await again.load(ref)) as never).map(({ snapshotId }) => snapshotId))
        // Of what the table was nothing is left, or it is named as broken.
        assert.equal(snapshots.size, kind === 'metadata' ? 2 : 4)
        assert.equal(problems.length > 0, kind !== 'metadata', JSON.stringify(problems))
      })
    }
  }
}

test('a table that somebody has mended meanwhile keeps its history', async () => {
  let onLook: () => Promise<unknown> = async () => undefined
  await using other = await startLakeOver((store) => {
    const catalog = new StoreCatalog(store)
    const pointer = catalog.pointer.bind(catalog)
    catalog.pointer = async (of) => {
      await onLook()
      return pointer(of)
    }
    return catalog
  })
  for (const mendedAt of [1, 2, 3]) {
    const ref: TableRef = { warehouse: 'acme', namespace: 'broken', table: `mended_${mendedAt}` }
    for (const item of ['first', 'second']) {
      await commitStep(other, ref, {
        operation: 'append',
        select: `SELECT 1::BIGINT AS id, '${item}' AS item`,
        schema: SCHEMA,
      })
    }
    const whole = (await other.lake.load(ref))?.location as string
    const broken = whole.replace(/[^/]+$/, '00009-broken.metadata.json')
    assert.equal(await other.catalog.movePointer(ref, whole, broken), true)
    let looks = 0
    onLook = async () => {
      looks += 1
      if (looks === mendedAt) await other.catalog.movePointer(ref, broken, whole)
    }
    const base = await other.lake.fresh().loadToReplace(ref)
    onLook = async () => undefined
    assert.equal(isToBegin(base), false, `mended before the look ${mendedAt}`)
    assert.deepEqual([base?.location, base?.metadata.snapshots.length], [whole, 2])
  }
})

test('a table that lies in another object store than the configured one is begun anew by nobody', async () => {
  const ref: TableRef = { warehouse: 'acme', namespace: 'broken', table: 'elsewhere' }
  await commitStep(shelf, ref, {
    operation: 'append',
    select: "SELECT 1::BIGINT AS id, 'first' AS item",
    schema: SCHEMA,
  })
  const whole = (await shelf.lake.load(ref))?.location as string
  const [, path] = whole.split('/store/')
  for (const other of [`s3://${path}`, `file:///no/such/folder/${path}`]) {
    const from = (await shelf.catalog.pointer(ref)) as string
    assert.equal(await shelf.catalog.movePointer(ref, from, other), true)
    await assert.rejects(shelf.lake.fresh().loadToReplace(ref), { code: 'lake_path_foreign', remedy: /configuration/ })
  }
})

async function replace(lake: Lake, ref: TableRef, select: string, partitioning: typeof PARTITIONED) {
  const base = await lake.loadToReplace(ref)
  const target = { ref, base, select, schema: SCHEMA, rows: 'rewrite', partitioning } as const
  const { written } = await lake.write({ limits: LIMITS }, [target], AbortSignal.timeout(60_000))
  const { plan, files, writeId } = written[0] as (typeof written)[0] & object
  return lake.stage(ref, { base, plan, operation: 'replace', files, writeId, summary: {} })
}

async function append(lake: Lake, ref: TableRef) {
  const base = await lake.load(ref)
  const scan = await lake.scan(ref)
  const select = "SELECT 10 AS id, 'later' AS item"
  const target = { ref, base: base && { ...base }, select, schema: SCHEMA, rows: 'keep' } as const
  const { written } = await lake.write({ limits: LIMITS }, [target], AbortSignal.timeout(60_000))
  const { plan, files, writeId } = written[0] as (typeof written)[0] & object
  assert.equal(scan.snapshotId, base?.snapshotId)
  return lake.stage(ref, { base, plan, operation: 'append', files, writeId, summary: {} })
}
