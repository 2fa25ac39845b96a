/**
 * Rows that were left out of a raw table, since their source says nothing of values that rows lack, are tried again: by any order of
 * reads, changes and deletes, the table has what an account of them says.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { LIMITS, readScan } from '@sluice/iceberg/testing'
import type { Column, Connector, ReadEvent, ReadRequest } from '@sluice/sdk'
import { batchFromRows, isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { rawTable } from '../materializer/inputs.ts'
import { type Connection, createConnection } from '../registry/connections.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { registryMigrations } from '../registry/migrations.ts'
import type { Product } from '../registry/products.ts'
import { listQuarantine } from '../registry/quarantine.ts'
import { type RowChoice, removeQuarantined } from '../registry/quarantine-replay.ts'
import { claimRun, finishRun } from '../registry/run-claims.ts'
import { lastReads, tableProgress } from '../registry/run-progress.ts'
import { enqueueRun } from '../registry/runs.ts'
import { ANN, tenantWithKeys } from '../registry/testing.ts'
import type { IngestionDeps } from './ingestion-run.ts'
import { runReplay } from './replay/run-replay.ts'
import { runIngestion } from './run-ingestion.ts'

const TENANT = 'acme'
const TABLE = 'public.t'
const ALL: RowChoice = { ids: null, limit: null }

let lake: RegistryLake
let masters: MasterKeys
let sources = 0
let random = 5

/** Numbers below `count`, the same in every run. */
function any(count: number): number {
  random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((random / 2_147_483_648) * count)
}

before(async () => {
  lake = await startRegistryLake([registryMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
})
after(() => lake[Symbol.asyncDispose]())

interface SourceRow {
  readonly id: number
  readonly at: number | null
  readonly v: string
}

const isNumber = (text: string) => /^\d+$/.test(text)

/** A source that gives what is in `next`, and leaves out rows whose `v` its type does not hold. */
async function follow(sweeps: boolean) {
  sources += 1
  const name = `db${sources}`
  const connection: Connection = await inTransaction(lake.pool, (tx) =>
    createConnection(tx, { tenant: TENANT, name, connectorType: 'postgresql', config: {}, createdBy: ANN }),
  )
  const source = {
    next: [] as readonly SourceRow[],
    keys: new Set<number>(),
    type: 'integer' as 'integer' | 'string',
    keyRejects: 0,
    mode: 'incremental' as 'incremental' | 'full' | 'cdc',
    beforeCommit: async () => undefined as unknown,
  }
  const columns = (): readonly Column[] => [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'at', type: 'integer', nullable: true },
    { name: 'v', type: source.type, nullable: true },
  ]
  const read = { count: 0 }
  const connector = {
    discover: async () => ({
      tables: [
        {
          ...{ schema: 'public', name: 't', primaryKey: ['id'], suggestedCursor: 'at', columns: columns() },
          kind: 'table',
        },
      ],
      next: null,
    }),
    async *read(request: ReadRequest): AsyncGenerator<ReadEvent> {
      const isKeys = request.columns.length > 0
      const own = isKeys ? columns().filter(({ name: one }) => request.columns.includes(one)) : columns()
      yield { kind: 'schema', schema: { columns: own, primaryKey: ['id'] }, repeats: true }
      const fits = (row: SourceRow) => source.type === 'string' || isNumber(row.v)
      const good = source.next.filter(fits).map(({ id, at, v }) => [id, at, source.type === 'string' ? v : Number(v)])
      const keys = [...source.keys].map((id) => own.map((column) => (column.name === 'id' ? id : null)))
      const rows = isKeys ? keys : good
      if (rows.length > 0) yield { kind: 'batch', batch: batchFromRows(rows, own.length) }
      const odd = { kind: 'reject', reason: 'it is odd', column: 'v' } as const
      if (isKeys) for (let left = source.keyRejects; left > 0; left -= 1) yield { ...odd, column: 'id' }
      else
        for (const { id, at, v } of source.next.filter((row) => !fits(row))) {
          const row = { id: String(id), at: at === null ? null : String(at), v }
          yield { ...odd, key: { id: String(id) }, raw: v, row }
        }
      read.count += 1
      yield { kind: 'state', state: { version: 1, value: { read: read.count } }, rows: rows.length }
    },
    ack: async () => undefined,
    close: async () => undefined,
  } as unknown as Connector
  const place = { tenant: TENANT, connectionId: connection.id, table: TABLE }
  async function work(replay: RowChoice | null) {
    const deletes = sweeps ? { deletes: 'key_sweep' } : { deletes: 'unseen', deletesReason: 'none go' }
    const input = {
      ...{ name: 'source', connection: name, table: TABLE, mode: source.mode, cursorColumn: null, primaryKey: [] },
      ...{ columns: null, where: null, onSchemaChange: 'evolve', ...deletes },
    }
    const quality = { checks: [], maxRejected: { percent: 100, rows: 1_000_000 } }
    const manifests = { inputs: [input], quality, compute: { trigger: 'manual', transform: 'SELECT 1' } }
    const run = { tenant: TENANT, kind: 'ingestion', connectionId: connection.id, trigger: 'manual' } as const
    await enqueueRun(lake.pool, { ...run, createdBy: ANN, ...(replay === null ? {} : { input: { replay } }) })
    const claimed = await claimRun(lake.pool, { workerId: 'w', leaseMs: 3_600_000 })
    assert.ok(claimed)
    const { lease } = claimed
    const about = { connection, lease, signal: AbortSignal.timeout(600_000), toTransforms: async () => {} }
    const deps = {
      pool: lake.pool,
      masters,
      lake: lake.lake,
      faultPoint: async (point: string) => (point === 'replay.applied' ? source.beforeCommit() : undefined),
      limits: LIMITS,
      openConnector: async () => connector,
      readsAtOneMoment: () => false,
      productsOf: async () => [{ product: {} as Product, manifests: manifests as unknown as ManifestSet }],
      checkStorage: async () => ({
        bytes: Number.MAX_SAFE_INTEGER,
        exceeded: () => new SluiceError('QUOTA', 'x', { code: 'x' }),
      }),
      scratchDirectory: lake.dir,
    } as unknown as IngestionDeps
    try {
      if (replay === null) await runIngestion(about, deps)
      else await runReplay(about, { ...replay, tables: [TABLE] }, deps)
    } finally {
      await finishRun(lake.pool, lease, { state: 'succeeded', result: {} })
    }
    const [table] = await tableProgress(lake.pool, lease.runId)
    return [table?.rowsRead, table?.rowsWritten, table?.rowsSuperseded, table?.rowsRejected]
  }
  const ref = rawTable(TENANT, name, TABLE)
  return {
    source,
    place,
    sync: () => work(null),
    replay: (choice = ALL) => work(choice),
    lastRun: async () => (await lastReads(lake.pool, connection.id, [TABLE]))[0]?.runId,
    summary: async () => (await lake.lake.scan(ref)).summary,
    content: async () => readScan(lake, await lake.lake.scan(ref)),
    aside: async () =>
      (await listQuarantine(lake.pool, masters, { ...place, tables: [TABLE] }, { limit: 1000, after: null })).items,
  }
}

interface Aside extends SourceRow {
  readonly order: number
}

const byId = (one: readonly unknown[], other: readonly unknown[]) => Number(one[0]) - Number(other[0])

for (const sweeps of [true, false]) {
  test(`rows left out come when their column holds them, and none over a newer one; ${sweeps ? 'deletes are found' : 'deletes stay unseen'}`, {
    timeout: 900_000,
  }, async () => {
    const table = await follow(sweeps)
    const { source } = table
    const held = new Map<number, SourceRow>()
    let aside: Aside[] = []
    let order = 0
    for (let step = 0; step < 7; step += 1) {
      source.next = Array.from({ length: 12 }, () => ({
        ...{ id: any(20), at: any(10) === 0 ? null : any(8), v: any(3) === 0 ? `x${any(50)}` : String(any(50)) },
      }))
      for (const { id } of source.next) source.keys.add(id)
      if (step > 1) for (const id of source.keys) if (any(8) === 0) source.keys.delete(id)
      await table.sync()
      const bad = source.next.filter(({ v }) => !isNumber(v)).map((row) => ({ ...row, order: order++ }))
      aside = [...aside.filter(({ id }) => !bad.some((row) => row.id === id)), ...bad]
      const newest = new Map<number, SourceRow>()
      for (const row of source.next.filter(({ v }) => isNumber(v))) {
        const known = newest.get(row.id)
        if (known === undefined || (row.at ?? -1) >= (known.at ?? -1)) newest.set(row.id, row)
      }
      // Who does not look for rows that are gone sees versions of them in any order: what comes late takes no newer one's place.
      for (const [id, row] of newest) if (sweeps || (row.at ?? -1) >= (held.get(id)?.at ?? -1)) held.set(id, row)
      if (sweeps) for (const id of held.keys()) if (!source.keys.has(id)) held.delete(id)
    }
    const expected = () => [...held.values()].map(({ id, at, v }) => [id, at, v]).toSorted(byId)
    const check = async (when: string) => {
      const rows = (await table.content()).map(([id, at, v]) => [id, at, String(v)])
      assert.deepEqual(rows.toSorted(byId), expected(), when)
      const keys = (await table.aside()).map(({ key }) => Number(key?.['id'])).toSorted((a, b) => a - b)
      assert.deepEqual(
        keys,
        aside.map(({ id }) => id).toSorted((a, b) => a - b),
        when,
      )
    }
    await check('read')
    assert.ok(aside.length > 8)
    const read = await table.lastRun()
    assert.deepEqual(await table.replay(), [aside.length, 0, 0, aside.length])
    source.type = 'string'
    for (const limit of [3, 5, 1000]) {
      const chosen = new Set(aside.toSorted((one, other) => one.order - other.order).slice(0, limit))
      const done = new Set<Aside>()
      let applied = 0
      for (const [id, rows] of Map.groupBy(aside, (row) => row.id)) {
        const newest = (one: Aside, other: Aside) => (other.at ?? -1) - (one.at ?? -1) || other.order - one.order
        for (const [rank, row] of rows.toSorted(newest).entries()) {
          const before = held.get(id)
          if (!chosen.has(row)) continue
          if (rank > 0 || (sweeps && !source.keys.has(id)) || (before && (row.at ?? -1) < (before.at ?? -1)))
            done.add(row)
          else if (before === undefined || before.at !== row.at) {
            done.add(row)
            held.set(id, row)
            applied += 1
          }
        }
      }
      aside = aside.filter((row) => !done.has(row))
      const stays = chosen.size - done.size
      assert.deepEqual(await table.replay({ ids: null, limit }), [chosen.size, applied, done.size - applied, stays])
      await check(`the oldest ${limit}`)
    }
    assert.deepEqual(await table.replay(), [aside.length, 0, 0, aside.length], 'a second time brings nothing')
    await check('a second time')
    assert.equal(await table.lastRun(), read, 'nothing of the source was read')
  })
}

describe('a replay', () => {
  test('keeps a row whose key the source could not tell, and counts what the table lacks no more', async () => {
    const table = await follow(true)
    const { source } = table
    source.next = [
      { id: 1, at: 1, v: '1' },
      { id: 2, at: 1, v: 'x' },
      { id: 3, at: 1, v: 'y' },
    ]
    source.keys = new Set([1, 2])
    await table.sync()
    source.type = 'string'
    source.keyRejects = 1
    assert.deepEqual(await table.replay(), [2, 1, 0, 1])
    assert.match((await table.aside())[0]?.reason ?? '', /could not tell the keys/)
    assert.equal((await table.summary())['sluice.rows-rejected'], '1')
    source.keyRejects = 0
    assert.deepEqual(await table.replay(), [1, 0, 1, 0])
    assert.deepEqual(await table.content(), [
      [1, 1, '1'],
      [2, 1, 'x'],
    ])
  })

  test('changes nothing where somebody gives up one of its rows meanwhile', async () => {
    const table = await follow(false)
    const { source } = table
    source.next = [
      { id: 1, at: 1, v: '1' },
      { id: 2, at: 1, v: 'x' },
      { id: 3, at: 1, v: 'y' },
    ]
    await table.sync()
    source.type = 'string'
    const [one] = await table.aside()
    source.beforeCommit = () =>
      inTransaction(lake.pool, (tx) => removeQuarantined(tx, table.place, [one?.id as string]))
    await assert.rejects(table.replay(), (error) => isSluiceError(error, 'FENCED'))
    assert.deepEqual(await table.content(), [[1, 1, 1]])
    source.beforeCommit = async () => undefined
    assert.deepEqual(await table.replay(), [1, 1, 0, 0])
  })

  test('is refused of a table that is read whole or by its log', async () => {
    const table = await follow(false)
    table.source.next = [{ id: 1, at: 1, v: 'x' }]
    await assert.rejects(table.replay(), (error) => isSluiceError(error) && error.code === 'replay_unsupported')
    await table.sync()
    for (const mode of ['full', 'cdc'] as const) {
      table.source.mode = mode
      await assert.rejects(table.replay(), (error) => isSluiceError(error) && error.code === 'replay_unsupported')
    }
    assert.equal((await table.aside()).length, 1)
  })
})
