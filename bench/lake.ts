/**
 * Measures the lake: `npm run bench:lake -- --rows 1000000`. Ingest against what PostgreSQL gives and what plain DuckDB
 * takes, merges in three ways, and commits and plans as a table's metadata grows. Ratios are worth comparing, not figures.
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEngine, type Engine, type EngineLimits } from '@sluice/engine'
import { FolderStore, Lake, type TableRef } from '@sluice/iceberg'
import pg from 'pg'
import { type EmbeddedServer, startEmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { migrate } from '../runtime/src/database/migrate.ts'
import { inTransaction, openPool } from '../runtime/src/database/pools.ts'
import { LAKE_MIGRATIONS } from '../runtime/src/lake/migrations.ts'
import { registryCatalog } from '../runtime/src/lake/registry-catalog.ts'
import { measureGrowth } from './lake-growth.ts'
import { measureMerges } from './lake-merges.ts'
import { SCHEMA } from './measured-table.ts'
import { withPeak } from './memory.ts'
import { flag } from './setup.ts'

const rows = Number(flag('rows') ?? 1_000_000)
const MB = 1024 * 1024

export const LIMITS: EngineLimits = { memoryBytes: 1024 * MB, timeoutMs: 900_000, threads: 2, tempBytes: 4096 * MB }

export interface LakeBench {
  readonly lake: Lake
  readonly pool: pg.Pool
  readonly engine: Engine
  readonly folder: string
  readonly rows: number
}

const COLUMNS = `id bigint PRIMARY KEY, name text NOT NULL, city text, country text, amount numeric(12,2),
  quantity integer, ratio double precision, active boolean, born date, updated_at timestamptz`

const COPY = 'COPY measured TO STDOUT (FORMAT csv, FORCE_QUOTE *)'

async function fillSource(server: EmbeddedServer): Promise<void> {
  const { host, port, user, password } = server.tcpAddress
  const client = new pg.Client({ host, port, user, password, database: 'postgres' })
  await client.connect()
  await client.query(`CREATE TABLE measured (${COLUMNS})`)
  await client.query(`INSERT INTO measured SELECT i, 'name ' || i, 'city ' || i % 1000, 'country ' || i % 50, i * 1.25,
    i % 100, i / 7.0, i % 2 = 0, date '1970-01-01' + (i % 18000)::int, timestamptz '2026-01-01' + i * interval '1 second'
    FROM generate_series(1, ${rows}) i`)
  await client.query('VACUUM ANALYZE measured')
  await client.end()
}

/** The rows as `psql` gives them; `bytes()` once the stream has ended. */
function psqlCopy(server: EmbeddedServer): { readonly rows: AsyncIterable<Uint8Array>; bytes(): number } {
  const { host, port, user, password } = server.tcpAddress
  const child = spawn('psql', ['-q', '-h', host, '-p', String(port), '-U', user, '-d', 'postgres', '-c', COPY], {
    env: { ...process.env, PGPASSWORD: password },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let bytes = 0
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
      bytes += chunk.length
      yield chunk
    }
    if (child.exitCode === null) await once(child, 'exit')
    if (child.exitCode !== 0) throw new Error(`psql ended with ${child.exitCode}`)
  }
  return { rows: counted(), bytes: () => bytes }
}

async function timed<Result>(work: () => Promise<Result>): Promise<readonly [Result, number]> {
  const start = performance.now()
  const result = await work()
  return [result, (performance.now() - start) / 1000]
}

async function measureIngest(bench: LakeBench, source: EmbeddedServer): Promise<void> {
  const [bytes, outS] = await timed(async () => {
    const copy = psqlCopy(source)
    for await (const _ of copy.rows);
    return copy.bytes()
  })
  const ref: TableRef = { warehouse: 'bench', namespace: 'raw', table: `t_${randomUUID()}` }
  const [[, ourS], peakMb] = await withPeak(process.pid, () => timed(() => ingest(bench, ref, psqlCopy(source).rows)))
  const [, duckS] = await timed(() => plainCopy(bench, psqlCopy(source).rows))
  const rate = (seconds: number) =>
    `${Math.round(rows / seconds).toLocaleString('en')} rows/s, ${(bytes / seconds / MB).toFixed(1)} MB/s`
  console.log(`psql COPY TO STDOUT                        ${rate(outS)}`)
  console.log(`the same rows → DuckDB COPY TO parquet     ${rate(duckS)}   ${(outS / duckS).toFixed(2)} of psql`)
  console.log(
    `the same rows → committed lake table       ${rate(ourS)}   ${(outS / ourS).toFixed(2)} of psql, ${(duckS / ourS).toFixed(2)} of DuckDB`,
  )
  console.log(`peak memory, this process and its children ${Math.round(peakMb)} MB\n`)
}

async function ingest({ lake, pool }: LakeBench, ref: TableRef, source: AsyncIterable<Uint8Array>): Promise<void> {
  const csvInput = { name: 'incoming', columns: SCHEMA.columns, source }
  const target = { ref, base: null, select: 'SELECT * FROM incoming', schema: SCHEMA, rows: 'rewrite' } as const
  const { written } = await lake.write({ csvInput, limits: LIMITS }, [target], AbortSignal.timeout(LIMITS.timeoutMs))
  const [data] = written
  if (!data) throw new Error('nothing was written')
  const { plan, files, writeId } = data
  const commit = await lake.stage(ref, { base: null, plan, operation: 'append', files, writeId, summary: {} })
  await inTransaction(pool, (tx) => lake.publish(registryCatalog(tx), [commit]))
}

/** The engine alone: no field ids, no statistics, no names, no commit. */
async function plainCopy({ engine, folder }: LakeBench, source: AsyncIterable<Uint8Array>): Promise<void> {
  const sql = `COPY (SELECT * FROM incoming) TO '${folder}/${randomUUID()}.parquet' (FORMAT parquet, COMPRESSION zstd)`
  await engine.run(
    {
      trust: 'own',
      csvInput: { name: 'incoming', columns: SCHEMA.columns, source },
      steps: [{ sql }],
      writeDirs: [folder],
      limits: LIMITS,
    },
    AbortSignal.timeout(LIMITS.timeoutMs),
  )
}

async function main(): Promise<void> {
  console.log(`${rows.toLocaleString('en')} rows of ten columns, Node ${process.version}\n`)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-lake-'))
  const server = await startEmbeddedServer({ dataFolder: join(folder, 'postgres'), durable: false })
  const pool = await openPool(server.address, { applicationName: 'bench', maxConnections: 4 })
  const engine = createEngine({ maxChildren: 2, warmChildren: 1, maxQueued: 10, scratchDir: join(folder, 'scratch') })
  try {
    await migrate(pool, [LAKE_MIGRATIONS])
    await fillSource(server)
    const lake = new Lake({ store: new FolderStore(join(folder, 'lake')), catalog: registryCatalog(pool), engine })
    const bench = { lake, pool, engine, folder, rows }
    await measureIngest(bench, server)
    await measureMerges(bench)
    await measureGrowth(bench)
  } finally {
    await engine.close()
    await pool.end()
    await server.destroy()
    await rm(folder, { recursive: true, force: true })
  }
}

await main()
