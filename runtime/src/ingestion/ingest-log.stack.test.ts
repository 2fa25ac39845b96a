import assert from 'node:assert/strict'
import { mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
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
import { registryCatalog } from '../lake/registry-catalog.ts'
import { tenantScratch } from '../lake/tenant-layout.ts'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { rawTable, readInputs } from '../materializer/inputs.ts'
import { askBackfill } from '../registry/backfills.ts'
import { capture, captureStreams } from '../registry/captures.ts'
import { createConnection } from '../registry/connections.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { registryMigrations } from '../registry/migrations.ts'
import type { Product } from '../registry/products.ts'
import { listQuarantine } from '../registry/quarantine.ts'
import { claimRun, finishRun } from '../registry/run-claims.ts'
import { lastReads, runLog } from '../registry/run-progress.ts'
import { enqueueRun } from '../registry/runs.ts'
import { ANN, tenantWithKeys } from '../registry/testing.ts'
import type { IngestionDeps } from './ingestion-run.ts'
import { runIngestion } from './run-ingestion.ts'

const TENANT = 'acme'
const COLUMNS: readonly Column[] = [
  { name: 'id', type: 'integer', nullable: false },
  { name: 'v', type: 'string', nullable: true },
]
const NAMES = ['t', 'u'] as const
type Name = (typeof NAMES)[number]

/** No input is a product. */
const noProducts = () => Promise.reject(new Error('no product is read here'))

let lake: RegistryLake
let masters: MasterKeys
let scratchDirectory: string
let worlds = 0
before(async () => {
  lake = await startRegistryLake([registryMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
  await lake.pool.query(`update tenants set tier = 'enterprise'`)
  scratchDirectory = await mkdtemp(join(tmpdir(), 'sluice-log-'))
})
after(() => lake[Symbol.asyncDispose]())

/** A source of two tables and one log, which forgets what is acknowledged. */
class Source implements ChangeSource {
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
    this.acked = position.order
    this.log.splice(0, this.log.filter((one) => one.order <= position.order).length)
  }
  async health() {
    return { state: 'ok', retainedBytes: 0, limitBytes: null, message: 'all is well' } as const
  }
  async release() {
    this.calls.push('release')
  }
}

async function follow(mode: 'cdc' | 'full' = 'cdc') {
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
      compute: { trigger: 'manual', transform: 'SELECT 1' },
    }) as unknown as ManifestSet
  const world = {
    source,
    connection,
    reads,
    lost,
    mode: mode as 'cdc' | 'full',
    onSchemaChange: 'evolve',
    capture: () => capture(lake.pool, connection.id),
    inputs: () =>
      readInputs({ tenant: TENANT } as Product, manifestsNow(), AbortSignal.timeout(60_000), {
        pool: lake.pool,
        lake: lake.lake,
        upstreamOf: noProducts,
      }),
    snapshot: async (table: Name) => (await lake.lake.scan(ref(table))).snapshotId,
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

test('a log is read on from where it was, with deletes, and an idle run commits nothing and lets the source forget', async () => {
  const world = await follow()
  const { source } = world
  source.tables.t.set(1, 'one').set(2, 'two')
  // What the read has not seen, and then what it has.
  source.meanwhile = () => source.put('t', 3, 'three')
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, ['t', 'u'])
  source.put('t', 1, 'changed')
  source.remove('t', 2)
  source.put('u', 7, 'seven')
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, ['t', 'u'], 'nothing was read whole again')
  const [read] = await lastReads(lake.pool, world.connection.id, ['public.t'])
  const { mode, deletes, rowsWritten, rowsRemoved } = read as NonNullable<typeof read>
  assert.deepEqual(
    { mode, deletes, rowsWritten, rowsRemoved },
    { mode: 'cdc', deletes: 'log', rowsWritten: 1, rowsRemoved: 1 },
  )
  const before = await world.snapshot('t')
  const moments = (await world.inputs()).map(({ moment }) => moment)
  assert.equal(moments[0], moments[1], 'all tables are of one place in the log')
  source.calls.length = 0
  await world.sync()
  assert.equal(await world.snapshot('t'), before)
  assert.deepEqual(source.calls, ['prepare', `changes ${source.head}`, `ack ${source.head}`])
  source.truncate('t')
  source.put('t', 9, 'after')
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(await readdir(tenantScratch(scratchDirectory, world.connection.tenant)), [])
  assert.deepEqual(await readdir(scratchDirectory), ['tenants'])
})

for (const point of ['log.prepared', 'log.table-read', 'log.applied', 'log.committed']) {
  test(`a run that dies at ${point} is made up for by the next`, async () => {
    const world = await follow()
    const { source } = world
    source.tables.t.set(1, 'one')
    source.meanwhile = () => source.put('u', 4, 'meanwhile')
    await assert.rejects(world.sync(point))
    if (point === 'log.table-read' || point === 'log.applied') {
      await assert.rejects(world.inputs(), { code: 'input_not_ingested' })
    }
    source.put('t', 2, 'two')
    source.remove('t', 1)
    await world.sync()
    await world.isAsSource()
    source.put('t', 2, 'again')
    if (point !== 'log.prepared' && point !== 'log.table-read') {
      await assert.rejects(world.sync(point))
      source.remove('t', 2)
      await world.sync()
    } else await world.sync()
    await world.isAsSource()
    assert.equal((await world.capture())?.generation, 1)
  })
}

test('what the source has let go of is read whole in the same run, and said', async () => {
  const world = await follow()
  const { source } = world
  source.put('t', 1, 'one')
  await world.sync()
  source.put('t', 2, 'unseen')
  source.remove('t', 1)
  source.acked = source.head
  source.log.length = 0
  const said = await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.lost, ['the source has let go of changes that were not read yet'])
  assert.ok(said.some((line) => line.includes('begun anew')))
  const noted = await world.capture()
  assert.deepEqual([noted?.generation, noted?.lostReason], [2, world.lost[0]])
  // Another history.
  source.lineage += 1
  source.tables.t.set(5, 'of another history')
  await world.sync()
  await world.isAsSource()
  assert.equal((await world.capture())?.generation, 3)
})

test('a table whose rows have changed without being told is read whole in the same run', async () => {
  const world = await follow()
  const { source } = world
  source.put('t', 1, 'one')
  await world.sync()
  source.mustReread = true
  source.columns = [...COLUMNS, { name: 'w', type: 'string', nullable: true }]
  source.put('t', 2, 'two')
  source.log.pop()
  source.truncate('u')
  source.tables.t.set(3, 'untold')
  source.put('t', 3, 'untold')
  source.log.pop()
  source.reject('t', 8)
  await world.sync()
  assert.deepEqual(await world.rows('t'), [
    [1, 'one', null],
    [2, 'two', null],
    [3, 'untold', null],
  ])
})

test('a table that is read whole while the log tells of it as it was takes nothing of that', async () => {
  const world = await follow()
  const { source } = world
  source.put('t', 1, 'one')
  await world.sync()
  source.put('t', 1, 'then')
  source.rewrite('t', 1, 'now')
  // It has passed the log, and is gone before it has read the table.
  await assert.rejects(world.sync('log.committed'))
  assert.deepEqual(await captureStreams(lake.pool, world.connection.id), [])
  source.put('t', 2, 'then')
  source.rewrite('t', 2, 'now')
  await world.sync()
  await world.isAsSource()
  const reads = world.reads.length
  await world.sync()
  await world.isAsSource()
  assert.equal(world.reads.length, reads)
})

test('a refused table fails with its remedy, and others go on', async () => {
  const world = await follow()
  const { source } = world
  source.refused = ['u']
  source.tables.t.set(1, 'one')
  await assert.rejects(world.sync(), { code: 'changes_refused', remedy: 'Give it one.' })
  assert.deepEqual(await world.rows('t'), [[1, 'one']])
  source.refused = []
  await world.sync()
  await world.isAsSource()
})

test('a changed row that cannot be carried goes to the quarantine, and is served no more as it was', async () => {
  const world = await follow()
  const { source } = world
  source.put('t', 1, 'one')
  source.put('t', 2, 'two')
  await world.sync()
  source.reject('t', 1)
  await world.sync()
  assert.deepEqual(await world.rows('t'), [[2, 'two']])
  const place = { tenant: TENANT, connectionId: world.connection.id, tables: ['public.t'] }
  const { items } = await listQuarantine(lake.pool, masters, place, { limit: 10, after: null })
  assert.deepEqual(
    items.map(({ key, raw }) => [key, raw]),
    [[{ id: '1' }, 'odd']],
  )
})

test('a table that is read in full for a while is read whole when it goes by the log again', async () => {
  const world = await follow()
  const { source } = world
  source.put('t', 1, 'one')
  await world.sync()
  world.mode = 'full'
  source.put('t', 2, 'two')
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(await captureStreams(lake.pool, world.connection.id), [])
  world.mode = 'cdc'
  source.put('t', 3, 'three')
  await world.sync()
  source.remove('t', 2)
  await world.sync()
  await world.isAsSource()
})

test('of two workers on one run the one that lost it commits nothing, and the log is applied once', async () => {
  const world = await follow()
  const { source } = world
  source.put('t', 1, 'one')
  await world.sync()
  source.put('t', 1, 'two')
  const end = 'update runs set lease_until = now() where connection_id = $1 and state = $2'
  const late = world.sync('log.applied', async () => {
    // It froze for longer than its lease; another takes over, and the source goes on.
    await lake.pool.query(end, [world.connection.id, 'running'])
    await world.sync()
    source.put('t', 1, 'three')
  })
  await assert.rejects(late, { kind: 'FENCED' })
  await world.sync()
  await world.isAsSource()
  assert.equal((await world.capture())?.generation, 1)
})

type World = Awaited<ReturnType<typeof follow>>

/** Why `t` is to be read whole, done before a sync. */
const CAUSES: Readonly<Record<string, (world: World) => unknown>> = {
  'another key': ({ source }) => (source.key = ['id', 'v']),
  'no table in the lake': ({ connection }) =>
    registryCatalog(lake.pool).dropPointer(rawTable(TENANT, connection.name, 'public.t')),
  'another table of that name': ({ source }) => source.rewrite('t', 1, 'now'),
  'a backfill': ({ connection }) => inTransaction(lake.pool, (tx) => askBackfill(tx, connection.id, ['public.t'])),
  'a while without its log': async (world) => {
    world.mode = 'full'
    await world.sync()
    world.mode = 'cdc'
    world.reads.length = 0
  },
  'the log alone': () => undefined,
}

/** What the log has of `t` by then. */
const TOLD: Readonly<Record<string, (source: Source) => unknown>> = {
  nothing: () => undefined,
  rows: (source) => source.put('t', 2, 'told'),
  'that it is to be read whole': (source) => {
    source.mustReread = true
    source.put('t', 2, 'told')
  },
}

for (const [cause, happens] of Object.entries(CAUSES)) {
  test(`a table that is to be read whole is read so once, whatever its log tells beside it: ${cause}`, async () => {
    for (const [what, tell] of Object.entries(TOLD)) {
      const world = await follow()
      const { source } = world
      source.put('t', 1, 'one')
      await world.sync()
      world.reads.length = 0
      await happens(world)
      tell(source)
      await world.sync()
      await world.isAsSource()
      const isWhole = cause !== 'the log alone' || what === 'that it is to be read whole'
      const times = () => world.reads.filter((table) => table === 't').length
      assert.equal(times(), isWhole ? 1 : 0, what)
      source.put('t', 3, 'later')
      source.mustReread = false
      await world.sync()
      await world.isAsSource()
      assert.equal(times(), isWhole ? 1 : 0, `${what}, and then the log goes on`)
    }
  })
}
