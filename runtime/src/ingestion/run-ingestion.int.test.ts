import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { LIMITS, readScan } from '@sluice/iceberg/testing'
import type { Column, Connector, ConnectorState, ReadEvent, ReadRequest, Row } from '@sluice/sdk'
import { batchFromRows, isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { rawTable } from '../materializer/inputs.ts'
import type { MaterializeRequest } from '../materializer/materialize.ts'
import { inputsUnchanged } from '../materializer/unchanged.ts'
import { askBackfill, backfillsOf } from '../registry/backfills.ts'
import type { Connection } from '../registry/connections.ts'
import { createConnection } from '../registry/connections.ts'
import { connectorState, saveConnectorState } from '../registry/connector-states.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import { registryMigrations } from '../registry/migrations.ts'
import type { Product } from '../registry/products.ts'
import { listQuarantine } from '../registry/quarantine.ts'
import { claimRun, finishRun } from '../registry/run-claims.ts'
import { lastReads, runLog } from '../registry/run-progress.ts'
import { enqueueRun } from '../registry/runs.ts'
import { ANN, tenantWithKeys } from '../registry/testing.ts'
import type { IngestionDeps } from './ingestion-run.ts'
import { makeWave } from './make-wave.ts'
import { runIngestion } from './run-ingestion.ts'

const TENANT = 'acme'
const COLUMNS: readonly Column[] = [
  { name: 'id', type: 'integer', nullable: false },
  { name: 'v', type: 'string', nullable: true },
]

let lake: RegistryLake
let masters: MasterKeys
let tables = 0

before(async () => {
  lake = await startRegistryLake([registryMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
  // Each test has a connection of its own, more than a tenant of the standard tier may have.
  await lake.pool.query(`UPDATE tenants SET tier = 'enterprise' WHERE slug = '${TENANT}'`)
})
after(() => lake[Symbol.asyncDispose]())

interface Source {
  /** What the next read gives, given its request. */
  rows: (request: ReadRequest) => readonly Row[]
  whole: boolean
  /** While the table is read. */
  reading: () => Promise<void>
  /** The rows come again and again. */
  endless: boolean
  /** What the tenant may still store, in bytes. */
  room: number
  /** Rows that cannot be carried, beside those. */
  rejects: number
  /** Of a read of keys: rows that it cannot tell. */
  keyRejects: number
  /** Columns that the product reads; null: all. */
  columns: readonly string[] | null
  /** The first row comes without its `v`, where that may be. */
  leavesOut: boolean
  cursor: string
  /** Whether its reads see one instant. */
  oneMoment: boolean
  key: readonly string[]
  /** What inputs.yaml says of rows that are gone. */
  deletes: Partial<Pick<Input, 'deletes' | 'deletesReason'>>
}

/** A connection with one table, which a product reads in this mode. */
async function follow() {
  tables += 1
  const name = `db${tables}`
  const connection: Connection = await inTransaction(lake.pool, (tx) =>
    createConnection(tx, { tenant: TENANT, name, connectorType: 'postgresql', config: {}, createdBy: ANN }),
  )
  const source: Source = {
    rows: () => [],
    whole: false,
    reading: async () => undefined,
    endless: false,
    room: Number.MAX_SAFE_INTEGER,
    rejects: 0,
    keyRejects: 0,
    columns: null,
    leavesOut: false,
    cursor: 'v',
    oneMoment: true,
    key: ['id'],
    deletes: {},
  }
  let batches = 0
  const states: (ConnectorState | null)[] = []
  const connector = {
    discover: async () => ({
      tables: [
        {
          schema: 'public',
          name: 't',
          primaryKey: source.key,
          suggestedCursor: source.cursor,
          columns: COLUMNS,
          kind: 'table',
        },
      ],
      next: null,
    }),
    async *read(request: ReadRequest): AsyncGenerator<ReadEvent> {
      const isKeys = request.columns.length > 0
      if (!isKeys) states.push(request.state)
      const columns = isKeys ? COLUMNS.filter(({ name }) => request.columns.includes(name)) : COLUMNS
      const nextRows = () =>
        source.rows(request).map((row) => columns.map((column) => row[COLUMNS.indexOf(column)] ?? null))
      const rows = nextRows()
      const leavesOut = source.leavesOut && request.optional?.includes('v') === true
      if (leavesOut) rows[0]?.splice(1, 1, null)
      yield { kind: 'schema', schema: { columns, primaryKey: source.key }, whole: source.whole || isKeys }
      yield { kind: 'batch', batch: batchFromRows(rows, columns.length) }
      if (!isKeys) await source.reading()
      const odd = { kind: 'reject', reason: 'it is odd', column: 'v' } as const
      if (leavesOut) yield { ...odd, carried: true }
      while (source.endless && !isKeys) {
        batches += 1
        yield { kind: 'batch', batch: batchFromRows(nextRows(), columns.length) }
      }
      if (!isKeys)
        for (let left = source.rejects; left > 0; left -= 1) yield { kind: 'reject', reason: 'it is odd', column: 'v' }
      if (isKeys)
        for (let left = source.keyRejects; left > 0; left -= 1)
          yield { kind: 'reject', reason: 'it is odd', column: 'id' }
      yield { kind: 'state', state: { version: 1, value: { read: states.length } }, rows: rows.length }
    },
    ack: async () => undefined,
    close: async () => undefined,
  } as unknown as Connector
  const ref = rawTable(TENANT, name, 'public.t')
  return {
    source,
    connectionId: connection.id,
    batches: () => batches,
    /** The state that each read was given. */
    states,
    ref,
    stored: async () => (await connectorState(lake.pool, connection.id, 'public.t'))?.state ?? null,
    store: (state: unknown) =>
      inTransaction(lake.pool, (tx) =>
        saveConnectorState(tx, { connectionId: connection.id, tableName: 'public.t', runId: 'run_0' }, state),
      ),
    content: async () => readScan(lake, await lake.lake.scan(ref)),
    /** `between`: what happens before the run is tried once more. */
    async sync(mode: 'full' | 'incremental', between?: () => Promise<void>) {
      const { columns } = source
      const input = {
        ...{ name: 'source', connection: name, table: 'public.t', mode, cursorColumn: null, primaryKey: [], columns },
        where: null,
      }
      const manifests = {
        inputs: [{ ...input, ...source.deletes, onSchemaChange: 'evolve' }],
        quality: { checks: [] },
        compute: { trigger: 'manual', transform: 'SELECT 1' },
      }
      const run = { tenant: TENANT, kind: 'ingestion', connectionId: connection.id, trigger: 'manual' } as const
      await enqueueRun(lake.pool, { ...run, createdBy: ANN })
      const claimed = await claimRun(lake.pool, { workerId: 'w', leaseMs: 3_600_000 })
      assert.ok(claimed)
      const { lease } = claimed
      try {
        const about = { connection, lease, signal: AbortSignal.timeout(600_000), toTransforms: async () => {} }
        const deps = {
          pool: lake.pool,
          masters,
          lake: lake.lake,
          faultPoint: async () => undefined,
          limits: LIMITS,
          openConnector: async () => connector,
          readsAtOneMoment: () => source.oneMoment,
          productsOf: async () => [{ product: {} as Product, manifests: manifests as unknown as ManifestSet }],
          checkStorage: async () => ({ bytes: source.room, exceeded: tooMuch }),
        } as unknown as IngestionDeps
        await runIngestion(about, deps)
        if (between !== undefined) {
          await between()
          await runIngestion(about, deps)
        }
      } finally {
        await finishRun(lake.pool, lease, { state: 'succeeded', result: {} })
      }
      const [table] = await lastReads(lake.pool, connection.id, ['public.t'])
      return { ...table, log: (await runLog(lake.pool, lease.runId)).map(({ message }) => message) }
    },
  }
}

const tooMuch = () => new SluiceError('QUOTA', 'the tenant stores too much', { code: 'tier_limit_exceeded' })

for (const mode of ['full', 'incremental'] as const) {
  test(`rows without end are ended by what the tenant may store while they are read, ${mode}`, async () => {
    const table = await follow()
    table.source.rows = () => [[1, 'a']]
    await table.sync(mode)
    let id = 0
    table.source.rows = () =>
      Array.from({ length: 1_000 }, () => {
        id += 1
        return [id, randomBytes(60).toString('base64')]
      })
    table.source.endless = true
    table.source.room = 64 * 1024
    await assert.rejects(table.sync(mode), (error) => isSluiceError(error) && error.code === 'tier_limit_exceeded')
    assert(table.batches() > 0)
    assert.deepEqual(await table.content(), [[1, 'a']])
  })
}

test('an incremental read after a full one begins anew, and those after it go on', async () => {
  const table = await follow()
  table.source.rows = () => [
    [1, 'a'],
    [2, 'a'],
  ]
  await table.sync('incremental')
  assert.notEqual(await table.stored(), null)
  table.source.rows = () => [
    [1, 'b'],
    [2, 'b'],
  ]
  await table.sync('full')
  assert.equal(await table.stored(), null)
  table.source.rows = () => [
    [2, 'c'],
    [3, 'c'],
  ]
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [
    [2, 'c'],
    [3, 'c'],
  ])
  table.source.rows = () => [[3, 'd']]
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [
    [2, 'c'],
    [3, 'd'],
  ])
  assert.deepEqual(
    table.states.map((state) => state?.value['read'] ?? null),
    [null, null, null, 3],
  )
})

test('a table that is asked for is read whole once, also where that is asked for while it is read', async () => {
  const table = await follow()
  const ask = () => inTransaction(lake.pool, (tx) => askBackfill(tx, table.connectionId, ['public.t']))
  const asked = async () => (await backfillsOf(lake.pool, table.connectionId)).length
  table.source.rows = () => [
    [1, 'a'],
    [2, 'a'],
  ]
  await table.sync('incremental')
  await ask()
  // Asked for again when rows of the answer to the first have been told: the next run reads once more.
  let isAskedAgain = false
  table.source.rows = () => [
    [1, 'behind the cursor'],
    [3, 'a'],
  ]
  table.source.reading = async () => {
    if (!isAskedAgain) await ask()
    isAskedAgain = true
  }
  const read = await table.sync('incremental')
  assert.ok(read.log.includes('public.t: 2 rows (incremental, read whole as was asked for)'), read.log.join('\n'))
  assert.equal(await asked(), 1)
  const whole = [
    [1, 'behind the cursor'],
    [3, 'a'],
  ]
  assert.deepEqual(await table.content(), whole)
  await table.sync('incremental')
  assert.equal(await asked(), 0)
  table.source.rows = () => [[3, 'b']]
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [whole[0], [3, 'b']])
  assert.deepEqual(
    table.states.map((state) => state?.value['read'] ?? null),
    [null, null, null, 3],
  )
})

test('a run that has read the table reads it again where that was asked for before its next attempt', async () => {
  const table = await follow()
  table.source.rows = () => [[1, 'a']]
  await table.sync('incremental')
  table.source.rows = () => [[1, 'b']]
  await table.sync('incremental', () =>
    inTransaction(lake.pool, (tx) => askBackfill(tx, table.connectionId, ['public.t'])),
  )
  assert.deepEqual(await backfillsOf(lake.pool, table.connectionId), [])
  assert.deepEqual(
    table.states.map((state) => state?.value['read'] ?? null),
    [null, 1, null],
  )
  await table.sync('incremental', async () => undefined)
  assert.equal(table.states.length, 4, 'what is read is read')
})

test('a raw table without that key, or without a snapshot, is read and written anew', async () => {
  const table = await follow()
  await table.store({ version: 1, value: { read: 0 } })
  table.source.rows = () => [
    [1, 'a'],
    [1, 'b'],
  ]
  await table.sync('full')
  await table.store({ version: 1, value: { read: 1 } })
  table.source.rows = () => [
    [1, 'c'],
    [2, 'c'],
  ]
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [
    [1, 'c'],
    [2, 'c'],
  ])
  table.source.key = ['id', 'v']
  table.source.rows = () => [
    [1, 'c'],
    [1, 'd'],
  ]
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [
    [1, 'c'],
    [1, 'd'],
  ])
  assert.deepEqual(
    table.states.map((state) => state?.value ?? null),
    [null, null, null],
  )
  await table.sync('incremental')
  assert.deepEqual(table.states.at(-1)?.value, { read: 3 })
})

test('where the connector starts anew, rows of the former table go', async () => {
  const table = await follow()
  table.source.rows = () => [
    [1, 'a'],
    [2, 'a'],
  ]
  await table.sync('incremental')
  table.source.rows = () => [
    [2, 'b'],
    [3, 'b'],
  ]
  table.source.whole = true
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [
    [2, 'b'],
    [3, 'b'],
  ])
  table.source.rows = () => []
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [])
})

/** A source that gives the first rows to whoever goes on, and to a read of keys those of all rows that there are. */
const changed = (came: readonly Row[], all: readonly Row[]) => (request: ReadRequest) =>
  request.state === null ? all : came

test('rows whose keys the source no longer has go with the same sync; rows that come meanwhile stay', async () => {
  const table = await follow()
  table.source.deletes = { deletes: 'key_sweep' }
  table.source.rows = () => [
    [1, 'a'],
    [2, 'a'],
    [3, 'a'],
  ]
  const first = await table.sync('incremental')
  assert.deepEqual([first.mode, first.deletes, first.rowsRemoved], ['incremental', 'key_sweep', null])
  table.source.rows = changed([[4, 'b']], [[2, 'a']])
  const second = await table.sync('incremental')
  assert.deepEqual(await table.content(), [
    [2, 'a'],
    [4, 'b'],
  ])
  assert.equal(second.rowsRemoved, 2)
  assert.equal(second.modeReason, 'the input "source" asks for it')
  assert.ok(second.log.includes('public.t: 2 rows were gone, by a read of 1 keys'), second.log.join('\n'))
  table.source.rows = changed([], [])
  assert.equal((await table.sync('incremental')).rowsRemoved, 2)
  assert.deepEqual(await table.content(), [])
})

test('a source that is not what was read before is read whole by the same run', async () => {
  const before: readonly Row[] = [
    [1, 'b'],
    [2, 'b'],
  ]
  const cases: Readonly<Record<string, readonly Row[]>> = {
    'a row that is back': [...before, [3, 'a']],
    'a row in an earlier state': [
      [1, 'a'],
      [2, 'b'],
    ],
  }
  for (const [what, now] of Object.entries(cases)) {
    for (const oneMoment of [true, false]) {
      const table = await follow()
      Object.assign(table.source, { deletes: { deletes: 'key_sweep' }, oneMoment })
      table.source.rows = () => before
      await table.sync('incremental')
      const all: readonly Row[] = [...now, [4, 'c']]
      table.source.rows = changed([[4, 'c']], all)
      const run = await table.sync('incremental')
      // Between two reads of two instants, rows come that nobody has put back.
      assert.equal(table.states.at(-1) === null, oneMoment, what)
      if (!oneMoment) continue
      assert.deepEqual(await table.content(), all, what)
      assert.ok(run.log.some((line) => line.endsWith('not as they had been read, so that all are read again')))
      table.source.rows = changed([], all)
      await table.sync('incremental')
      assert.notEqual(table.states.at(-1), null, 'and goes on')
    }
  }
})

test('rows that could not be carried are no sign of another source', async () => {
  const table = await follow()
  Object.assign(table.source, { deletes: { deletes: 'key_sweep' }, rejects: 2 })
  const held: readonly Row[] = [[1, 'a']]
  const keys = (all: readonly Row[]) => (request: { readonly columns: readonly string[] }) =>
    request.columns.length > 0 ? all : held
  table.source.rows = keys([...held, [2, 'x'], [3, 'x']])
  await table.sync('incremental')
  table.source.rejects = 0
  for (let syncs = 0; syncs < 2; syncs += 1) {
    await table.sync('incremental')
    assert.notEqual(table.states.at(-1), null)
  }
  table.source.rejects = 1
  table.source.rows = keys([...held, [2, 'x'], [3, 'x'], [4, 'x']])
  await table.sync('incremental')
  assert.notEqual(table.states.at(-1), null, 'one more of them')
  table.source.rejects = 0
  table.source.rows = keys([...held, [2, 'x'], [3, 'x'], [4, 'x'], [5, 'a']])
  await table.sync('incremental')
  assert.equal(table.states.at(-1), null, 'one that was never refused')
})

test('rows that are gone stay where inputs.yaml says why, and where a version does not know of deletes', async () => {
  for (const [deletes, why] of [
    [{ deletes: 'unseen', deletesReason: 'rows are only added' }, 'rows are only added'],
    [{}, 'the version was deployed before deletes were looked for'],
  ] as const) {
    const table = await follow()
    table.source.deletes = deletes
    table.source.rows = () => [[1, 'a']]
    await table.sync('incremental')
    table.source.rows = changed([[2, 'a']], [[2, 'a']])
    const run = await table.sync('incremental')
    assert.equal((await table.content()).length, 2)
    assert.deepEqual([run.deletes, run.deletesReason, run.rowsRemoved], ['unseen', why, null])
    assert.ok(run.log.includes(`public.t: rows that are gone are not looked for: ${why}`))
  }
})

test('keys of which one could not be told take nothing away, and the run says so', async () => {
  const table = await follow()
  table.source.deletes = { deletes: 'key_sweep' }
  table.source.rows = () => [
    [1, 'a'],
    [2, 'a'],
  ]
  await table.sync('incremental')
  table.source.rows = changed([[3, 'b']], [[3, 'b']])
  table.source.keyRejects = 1
  const held = await table.sync('incremental')
  assert.deepEqual(await table.content(), [
    [1, 'a'],
    [2, 'a'],
    [3, 'b'],
  ])
  assert.ok(
    held.log.some((line) => line.startsWith('public.t: no row was removed as gone: 1 rows were rejected')),
    held.log.join('\n'),
  )
  table.source.keyRejects = 0
  table.source.rows = changed([], [[3, 'b']])
  assert.equal((await table.sync('incremental')).rowsRemoved, 2)
})

test('keys that do not come to their end take nothing away', async () => {
  const table = await follow()
  table.source.deletes = { deletes: 'key_sweep' }
  table.source.rows = () => [
    [1, 'a'],
    [2, 'a'],
  ]
  await table.sync('incremental')
  table.source.rows = (request) => {
    if (request.columns.length > 0) throw new SluiceError('TRANSIENT', 'the source is gone', { code: 'source_lost' })
    return [[3, 'c']]
  }
  await assert.rejects(table.sync('incremental'), { code: 'source_lost' })
  assert.equal((await table.content()).length, 2)
  table.source.rows = changed([[3, 'c']], [[3, 'c']])
  await table.sync('incremental')
  assert.deepEqual(await table.content(), [[3, 'c']])
})

test('a source may go on by a column that it does not show', async () => {
  const table = await follow()
  table.source.cursor = 'hidden'
  table.source.rows = () => [[1, 'a']]
  await table.sync('incremental')
  const both = [
    [1, 'a'],
    [2, 'b'],
  ]
  table.source.rows = changed([[2, 'b']], both)
  await table.sync('incremental')
  assert.deepEqual([table.states.at(-1) === null, await table.content()], [false, both])
})

test('a table that lacks values of a column is read whole as soon as somebody uses it', async () => {
  const table = await follow()
  Object.assign(table.source, { columns: ['id'], leavesOut: true, cursor: 'id' })
  table.source.rows = () => [[1, 'a']]
  const first = await table.sync('incremental')
  assert.deepEqual([await table.content(), first.rowsRead, first.rowsWritten], [[[1, null]], 1, 1])
  assert.ok(first.log.includes('public.t: 1 rows came without v, which no product uses'), first.log.join('\n'))
  const both = [
    [1, 'a'],
    [2, 'b'],
  ]
  table.source.rows = changed([[2, 'b']], both)
  table.source.leavesOut = false
  await table.sync('incremental')
  assert.deepEqual(
    [table.states.at(-1) === null, await table.content()],
    [
      false,
      [
        [1, null],
        [2, 'b'],
      ],
    ],
  )
  table.source.columns = null
  await table.sync('incremental')
  assert.equal(table.states.at(-1), null, 'from the beginning')
  table.source.leavesOut = true
  await table.sync('incremental')
  assert.notEqual(table.states.at(-1), null, 'from where it was')
})

for (const mode of ['full', 'incremental'] as const) {
  test(`a ${mode} read of which too many rows cannot be carried leaves the table and its state as they were`, async () => {
    const table = await follow()
    table.source.rows = () => [[1, 'a']]
    table.source.rejects = 100
    await table.sync(mode)
    assert.deepEqual(await table.content(), [[1, 'a']], 'a hundred are borne')
    const state = await table.stored()
    table.source.rows = () => [[1, 'b']]
    table.source.rejects = 101
    await assert.rejects(table.sync(mode), {
      code: 'too_many_rejected',
      message: 'public.t: more than 0.1 % and more than 100 of its rows cannot be carried',
    })
    const place = { tenant: TENANT, connectionId: table.connectionId, tables: ['public.t'] }
    const kept = await listQuarantine(lake.pool, masters, place, { limit: 1_000, after: null })
    assert.equal(kept.items.length, 201, 'of the run that was refused, too')
    assert.deepEqual(await table.content(), [[1, 'a']])
    assert.deepEqual(await table.stored(), state)
  })
}

test('a wave writes of its run as often as products are made, however many stay as they are', async () => {
  const table = await follow()
  const run = { tenant: TENANT, kind: 'ingestion', connectionId: table.connectionId, trigger: 'manual' } as const
  await enqueueRun(lake.pool, { ...run, createdBy: ANN })
  const claimed = await claimRun(lake.pool, { workerId: 'w', leaseMs: 3_600_000 })
  assert.ok(claimed)
  const { lease } = claimed
  await lake.pool.query(`create table written (at serial, result jsonb);
    create function note_written() returns trigger language plpgsql as
      'begin insert into written (result) values (new.result); return new; end';
    create trigger note_written after update of result on runs for each row execute function note_written()`)
  const manifests = { inputs: [], compute: { trigger: 'on_ingestion' } } as unknown as ManifestSet
  const products = Array.from({ length: 30 }, (_, index) => {
    return { product: { id: `prd_${index}`, tenant: TENANT, domain: 'crm', name: `p${index}` } as Product, manifests }
  })
  const told: string[] = []
  const begun: string[] = []
  const deps = {
    pool: lake.pool,
    readersOfProducts: async () => [],
    tellLaterReads: async (tenant: string) => void told.push(tenant),
    requireDue: async () => undefined,
    noteBegun: async (product: Product) => void begun.push(product.name),
    materialize: async ({ product, begun: begins }: MaterializeRequest) => {
      if (product.name !== 'p7') throw inputsUnchanged()
      begins?.()
      throw new SluiceError('INVALID_DATA', 'it is odd', { code: 'quality_blocked' })
    },
  }
  try {
    const about = { lease, signal: AbortSignal.timeout(600_000) }
    const { outcomes } = await makeWave(about, products, { unread: () => null, done: [] }, deps)
    assert.equal(outcomes.length, 30)
    const { rows } = await lake.pool.query('select result from written order by at')
    // That p7 is being made, that it has failed, and the end.
    assert.deepEqual(
      rows.map(({ result }) => [result.products.length, result.progress?.product ?? null]),
      [
        [7, 'crm.p7'],
        [8, null],
        [30, null],
      ],
    )
    assert.deepEqual([told, begun], [[TENANT], ['p7']])
  } finally {
    await lake.pool.query('drop trigger note_written on runs; drop function note_written(); drop table written')
    await finishRun(lake.pool, lease, { state: 'succeeded', result: {} })
  }
})
