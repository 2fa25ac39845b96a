/** Commits and plans while the metadata of a table grows; its data files are described and not there. */
import { randomUUID } from 'node:crypto'
import {
  type CommitRequest,
  type DataFile,
  type Lake,
  planTable,
  type TableRef,
  type TableState,
} from '@sluice/iceberg'
import { inTransaction } from '../runtime/src/database/pools.ts'
import { registryCatalog } from '../runtime/src/lake/registry-catalog.ts'
import type { LakeBench } from './lake.ts'
import { treeMb } from './memory.ts'

const SCHEMA = { columns: [{ name: 'id', type: 'long', nullable: false }], primaryKey: ['id'] } as const
const ROWS_A_FILE = 100_000
const ROUNDS = 7
const MILLION = 1_000_000

export async function measureGrowth(bench: LakeBench): Promise<void> {
  console.log('simulated metadata: 100,000 rows a file; medians in ms')
  console.log(`${'rows'.padStart(12)} ${'snapshots'.padStart(10)}   append  exchange   changes  full plan   process MB`)
  for (const millions of [1, 10, 100]) {
    for (const snapshots of [1, 10, 100]) await measureOne(bench, millions, snapshots)
  }
}

async function measureOne(bench: LakeBench, millions: number, snapshots: number): Promise<void> {
  const ref: TableRef = { warehouse: 'bench', namespace: 'growth', table: `t_${randomUUID()}` }
  const { lake } = bench
  const count = (millions * MILLION) / ROWS_A_FILE
  let next = 0
  for (let made = 0; made < snapshots; made += 1) {
    const files = Math.floor((count * (made + 1)) / snapshots) - Math.floor((count * made) / snapshots)
    const base = await lake.load(ref)
    await commit(bench, ref, { ...appended(lake, ref, base, files, next), base })
    next += files
  }
  const times = { append: [] as number[], exchange: [] as number[], changes: [] as number[], plan: [] as number[] }
  for (let round = 0; round < ROUNDS; round += 1) {
    // A process that has read nothing yet, so that what is kept in memory does not hide what is read.
    const fresh = { ...bench, lake: lake.fresh() }
    const base = (await fresh.lake.load(ref)) as TableState
    times.append.push(await timed(() => commit(fresh, ref, { ...appended(lake, ref, base, 1, next), base })))
    next += 1
    const before = (await fresh.lake.load(ref)) as TableState
    const scan = await fresh.lake.scan(before)
    const gone = scan.files.at(-1)
    const exchange = {
      ...appended(lake, ref, before, 1, next),
      base: before,
      operation: 'overwrite' as const,
      removed: [gone?.uri as string],
      removedFrom: [gone?.manifest as string],
    }
    const again = { ...bench, lake: lake.fresh() }
    times.exchange.push(await timed(() => commit(again, ref, exchange)))
    next += 1
    const after = (await fresh.lake.load(ref)) as TableState
    const [from, to] = [before.snapshotId as string, after.snapshotId as string]
    times.changes.push(await timed(() => lake.fresh().changes(ref, from, to, ['id'])))
    times.plan.push(await timed(() => lake.fresh().scan(ref)))
  }
  const median = (list: number[]) => (list.sort((a, b) => a - b)[ROUNDS >> 1] as number).toFixed(1)
  const cells = [median(times.append), median(times.exchange), median(times.changes), median(times.plan)]
  const memory = Math.round(await treeMb(process.pid))
  console.log(
    `${(millions * MILLION).toLocaleString('en').padStart(12)} ${String(snapshots).padStart(10)} ${cells.map((cell) => cell.padStart(9)).join(' ')} ${String(memory).padStart(12)}`,
  )
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}

async function commit({ lake, pool }: LakeBench, ref: TableRef, request: CommitRequest): Promise<void> {
  const staged = await lake.stage(ref, request)
  await inTransaction(pool, (tx) => lake.publish(registryCatalog(tx), [staged]))
}

function appended(lake: Lake, ref: TableRef, base: TableState | null, files: number, from: number) {
  const plan = planTable({ base, schema: SCHEMA, rows: 'keep' })
  return {
    plan,
    operation: 'append' as const,
    files: Array.from({ length: files }, (_, at) =>
      describedFile(lake.dataUri(ref, `${randomUUID()}.parquet`), from + at),
    ),
    summary: {},
  }
}

function describedFile(uri: string, at: number): DataFile {
  const bound = (value: number) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(value))
    return bytes
  }
  return {
    content: 'data',
    uri,
    rows: ROWS_A_FILE,
    sizeBytes: 4_000_000,
    specId: 0,
    partition: [],
    columnSizes: new Map([[1, 4_000_000]]),
    valueCounts: new Map([[1, ROWS_A_FILE]]),
    nullCounts: new Map([[1, 0]]),
    nanCounts: new Map(),
    lowerBounds: new Map([[1, bound(at * ROWS_A_FILE)]]),
    upperBounds: new Map([[1, bound((at + 1) * ROWS_A_FILE - 1)]]),
    sortOrderId: 0,
  }
}
