/** Runs of a connection over a source of two tables and one log, in this process, with a lake that can be taken away. */
import assert from 'node:assert/strict'
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { LIMITS, readScan } from '@sluice/iceberg/testing'
import {
  batchFromRows,
  type ChangeEvent,
  type ChangePosition,
  type ChangeSource,
  type Column,
  type Connector,
  type ReadEvent,
  type ReadRequest,
  SluiceError,
} from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { rawTable, readInputs } from '../materializer/inputs.ts'
import { capture } from '../registry/captures.ts'
import { createConnection } from '../registry/connections.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { registryMigrations } from '../registry/migrations.ts'
import type { Product } from '../registry/products.ts'
import { listQuarantine } from '../registry/quarantine.ts'
import { claimRun, finishRun } from '../registry/run-claims.ts'
import { runLog } from '../registry/run-progress.ts'
import { enqueueRun } from '../registry/runs.ts'
import { ANN, tenantWithKeys } from '../registry/testing.ts'
import type { IngestionDeps } from './ingestion-run.ts'
import { runIngestion } from './run-ingestion.ts'

export const TENANT = 'acme'
export const COLUMNS: readonly Column[] = [
  { name: 'id', type: 'integer', nullable: false },
  { name: 'v', type: 'string', nullable: true },
]
const NAMES = ['t', 'u'] as const
type Name = (typeof NAMES)[number]

/** No input is a product. */
const noProducts = () => Promise.reject(new Error('no product is read here'))

export let lake: RegistryLake
export let masters: MasterKeys
export let scratchDirectory: string
let worlds = 0
before(async () => {
  lake = await startRegistryLake([registryMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
  await lake.pool.query(`update tenants set tier = 'enterprise'`)
  scratchDirectory = await mkdtemp(join(tmpdir(), 'sluice-log-'))
})
after(() => lake[Symbol.asyncDispose]())

/** A source of two tables and one log, which forgets what is acknowledged. */
export class Source implements ChangeSource {
  readonly tables: Record<Name, Map<number, string>> = { t: new Map(), u: new Map() }
  readonly log: { readonly order: string; readonly table: Name; readonly event: (stream: number) => ChangeEvent }[] = []
  lineage = 1
  columns = COLUMNS
  /** Of `t`. */
  key = ['id']
  mustReread = false
  refused: readonly Name[] = []
  acked = ''
  /** Of every table another one each time that `rewrite` is called. */
  incarnation = 1
  readonly calls: string[] = []
  /** Done once while the next table is read whole. */
  meanwhile: (() => void) | null = null
  #order = 0

  get head() {
    return String(this.#order).padStart(6, '0')
  }
  #append(table: Name, event: (seq: string) => (stream: number) => ChangeEvent) {
    this.#order += 1
    this.log.push({ order: this.head, table, event: event(this.head) })
  }
  #row(table: Name, op: string, id: number, v: string | null) {
    this.#append(table, (seq) => (stream) => {
      const cells = [op, seq, null, null, String(id), v].map((cell) => (cell === null ? '' : `"${cell}"`))
      return { kind: 'rows', stream, chunk: Buffer.from(`${cells.join(',')}\n`), rows: 1 }
    })
  }
  put(table: Name, id: number, v: string) {
    this.tables[table].set(id, v)
    this.#row(table, 'u', id, v)
  }
  remove(table: Name, id: number) {
    this.tables[table].delete(id)
    this.#row(table, 'd', id, null)
  }
  /** Has another value that the log does not tell. */
  rewrite(table: Name, id: number, v: string) {
    this.tables[table].set(id, v)
    this.incarnation += 1
  }
  truncate(table: Name) {
    this.tables[table].clear()
    this.#append(table, (seq) => (stream) => ({ kind: 'truncate', stream, seq }))
  }
  reject(table: Name, id: number) {
    this.#append(table, (seq) => (stream) => {
      return { kind: 'reject', stream, seq, column: 'v', reason: 'it is odd', key: { id: String(id) }, raw: 'odd' }
    })
  }
  keyOf(table: string) {
    return table === 't' ? this.key : ['id']
  }
  content(table: Name) {
    return [...this.tables[table]].toSorted(([a], [b]) => a - b)
  }

  async prepare({ anew, streams }: Parameters<ChangeSource['prepare']>[0]) {
    this.calls.push(anew ? 'prepare anew' : 'prepare')
    if (anew) {
      this.lineage += 1
      this.acked = this.head
      this.log.length = 0
    }
    const refused = streams
      .filter(({ table }) => this.refused.includes(table as Name))
      .map(({ schema, table }) => ({
        schema,
        table,
        code: 'no_identity',
        reason: 'it has none',
        remedy: 'Give it one.',
      }))
    const incarnations = streams.map(({ schema, table }) => ({ schema, table, incarnation: String(this.incarnation) }))
    return { position: { lineage: String(this.lineage), order: this.acked || '000000' }, refused, incarnations }
  }
  async *changes({ after, streams }: Parameters<ChangeSource['changes']>[0]): AsyncGenerator<ChangeEvent> {
    this.calls.push(`changes ${after.order}`)
    if (after.lineage !== String(this.lineage) || after.order < this.acked) {
      throw new SluiceError('CONFLICT', 'it is gone', { code: 'position_lost' })
    }
    const told = new Set<number>()
    for (const { order, table, event } of this.log.filter((one) => one.order > after.order)) {
      const stream = streams.findIndex((one) => one.table === table)
      if (stream < 0) continue
      const schema = { columns: this.columns, primaryKey: this.keyOf(table) }
      if (!told.has(stream)) yield { kind: 'schema', stream, schema, mustReread: this.mustReread }
      told.add(stream)
      yield event(stream)
      yield this.#checkpoint(order)
    }
    yield this.#checkpoint(this.head)
  }
  #checkpoint(order: string): ChangeEvent {
    const position = { lineage: String(this.lineage), order }
    return { kind: 'checkpoint', position, sourceTime: '2026-01-01T00:00:00Z' }
  }
  async ack({ position }: { readonly position: ChangePosition }) {
    this.calls.push(`ack ${position.order}`)
    if (position.order > this.acked) this.acked = position.order
    this.log.splice(0, this.log.filter((one) => one.order <= position.order).length)
  }
  async health() {
    return { state: 'ok', retainedBytes: 0, limitBytes: null, message: 'all is well' } as const
  }
  async release() {
    this.calls.push('release')
  }
}

const STRICT = { transform: 'SELECT v FROM t', engine: 'distributed' } as const

export async function follow(mode: 'cdc' | 'full' = 'cdc') {
  worlds += 1
  const name = `log${worlds}`
  const connection = await inTransaction(lake.pool, (tx) =>
    createConnection(tx, { tenant: TENANT, name, connectorType: 'postgresql', config: {}, createdBy: ANN }),
  )
  const source = new Source()
  const reads: string[] = []
  const connector = {
    discover: async () => ({
      tables: NAMES.map((table) => {
        const told = { schema: 'public', name: table, kind: 'table', estimatedRows: null, suggestedCursor: null }
        return { ...told, primaryKey: source.keyOf(table), columns: source.columns }
      }),
      next: null,
    }),
    async *read({ table }: ReadRequest): AsyncGenerator<ReadEvent> {
      reads.push(table)
      const width = source.columns.length
      const rows = source.content(table as Name).map((row) => [...row, null, null].slice(0, width))
      yield { kind: 'schema', schema: { columns: source.columns, primaryKey: source.keyOf(table) } }
      source.meanwhile?.()
      source.meanwhile = null
      yield { kind: 'batch', batch: batchFromRows(rows, width) }
      yield { kind: 'state', state: { version: 1, value: {} }, rows: rows.length }
    },
    changes: source,
    ack: async () => undefined,
    close: async () => undefined,
  } as unknown as Connector
  const input = (table: Name) => ({
    ...{ name: table, connection: name, table: `public.${table}`, cursorColumn: null, primaryKey: [], columns: null },
    ...{ mode: world.mode, where: null, onSchemaChange: world.onSchemaChange },
  })
  const ref = (table: Name) => rawTable(TENANT, name, `public.${table}`)
  const lost: string[] = []
  const manifestsNow = () =>
    ({
      inputs: NAMES.map(input),
      quality: { checks: [] },
      compute: { trigger: 'manual', ...(world.isStrict ? STRICT : { transform: 'SELECT 1' }) },
    }) as unknown as ManifestSet
  const world = {
    source,
    connection,
    reads,
    lost,
    mode: mode as 'cdc' | 'full',
    onSchemaChange: 'evolve',
    /** Whether the product uses `v` of `t`, and knows of no marks. */
    isStrict: false,
    /** What may be spooled. */
    spool: { bytes: 1e9, allBytes: 1e9 },
    capture: () => capture(lake.pool, connection.id),
    inputs: () =>
      readInputs({ tenant: TENANT } as Product, manifestsNow(), AbortSignal.timeout(60_000), {
        pool: lake.pool,
        lake: lake.lake,
        upstreamOf: noProducts,
      }),
    snapshot: async (table: Name) => (await lake.lake.scan(ref(table))).snapshotId,
    /** Of the rows that were put aside: their key, and what came. */
    quarantined: async (table: Name) => {
      const place = { tenant: TENANT, connectionId: connection.id, tables: [`public.${table}`] }
      const { items } = await listQuarantine(lake.pool, masters, place, { limit: 10, after: null })
      return items.map(({ key, raw }) => [key, raw])
    },
    rows: async (table: Name) =>
      (await readScan(lake, await lake.lake.scan(ref(table))))
        .map((row) => [...row])
        .toSorted(([a], [b]) => Number(a) - Number(b)),
    async isAsSource() {
      for (const table of NAMES) assert.deepEqual(await world.rows(table), source.content(table))
    },
    /** `dies`: at the fault point of that name. */
    async sync(dies: string | null = null, meanwhile: (() => Promise<unknown>) | null = null) {
      const run = { tenant: TENANT, kind: 'ingestion', connectionId: connection.id, trigger: 'manual' } as const
      await enqueueRun(lake.pool, { ...run, createdBy: ANN })
      const claimed = await claimRun(lake.pool, { workerId: 'w', leaseMs: 3_600_000 })
      assert.ok(claimed)
      const { lease } = claimed
      const ended = new AbortController()
      try {
        await runIngestion({ connection, lease, signal: ended.signal, toTransforms: async () => {} }, {
          ...{ pool: lake.pool, masters, lake: lake.lake, limits: LIMITS, scratchDirectory },
          async faultPoint(point: string) {
            if (point !== dies) return
            if (meanwhile !== null) return void (await meanwhile())
            ended.abort(new Error('died'))
            ended.signal.throwIfAborted()
          },
          openConnector: async () => connector,
          readsAtOneMoment: () => false,
          productsOf: async () => [{ product: {} as Product, manifests: manifestsNow() }],
          logSpool: world.spool,
          checkStorage: async () => ({ bytes: 1e9, exceeded: () => new Error('too much') }),
          tellLogLost: async (_: unknown, __: unknown, { reason }: { readonly reason: string }) =>
            void lost.push(reason),
        } as unknown as IngestionDeps)
      } finally {
        await finishRun(lake.pool, lease, { state: 'succeeded', result: {} })
      }
      return (await runLog(lake.pool, lease.runId)).map(({ message }) => message)
    },
  }
  return world
}

/** As of a mount that has gone: a file is where the folder of the lake was. */
export async function withoutLake<T>(work: () => Promise<T>): Promise<T> {
  const here = join(lake.dir, 'store')
  const away = `${here}.away`
  await rename(here, away)
  await writeFile(here, '')
  try {
    return await work()
  } finally {
    await rm(here, { recursive: true })
    await rename(away, here)
  }
}

export type World = Awaited<ReturnType<typeof follow>>
