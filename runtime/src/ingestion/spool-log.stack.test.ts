/** Logs that are taken up while the lake cannot be written: the source may forget them, and the lake has each change once. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inTransaction } from '../database/pools.ts'
import { SPOOL_FAULT_POINTS } from '../fault-points.ts'
import { askBackfill } from '../registry/backfills.ts'
import { captureStreams, forgetCapture, forgetStreams } from '../registry/captures.ts'
import { eraseSpooled, spoolLoad, spoolPiece } from '../registry/log-spool.ts'
import type { LogTable } from './commit-log.ts'
import type { PieceReading } from './log-piece.ts'
import {
  COLUMNS,
  follow,
  lake,
  masters,
  scratchDirectory,
  TENANT,
  type World,
  withoutLake,
} from './log-world.fixture.ts'
import { spooledPiece } from './spool-log.ts'
import { partsOf as contentOf } from './spooled-piece.ts'

const FORGOTTEN = { kind: 'TRANSIENT', code: 'log_spooled' } as const

async function begun(): Promise<World> {
  const world = await follow()
  world.source.put('t', 1, 'one')
  world.source.put('u', 1, 'one')
  await world.sync()
  world.reads.length = 0
  return world
}

const spoolOf = async (world: World) => (await world.capture())?.spool
const partsOf = async ({ connection }: World) =>
  (await lake.pool.query('select table_name, sealed from log_parts where connection_id = $1', [connection.id])).rows

async function isEmpty(world: World): Promise<void> {
  assert.deepEqual(await spoolOf(world), { pieces: 0, bytes: 0, since: null, fullAt: null })
  assert.deepEqual(await partsOf(world), [])
}

test('the source forgets what is told while the lake is away, and the lake has it when it is back, without a read', async () => {
  const world = await begun()
  const { source } = world
  source.put('t', 1, 'with a value that nobody is to find')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  assert.deepEqual([source.log.length, source.acked], [0, source.head])
  source.remove('u', 1)
  source.put('t', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  assert.equal(source.log.length, 0)
  const spool = await spoolOf(world)
  assert.deepEqual([spool?.pieces, spool?.fullAt], [2, null])
  assert.ok(spool?.since instanceof Date)
  const parts = await partsOf(world)
  assert.deepEqual(parts.map((one) => one.table_name).toSorted(), ['public.t', 'public.t', 'public.u'])
  assert.equal(
    parts.reduce((sum, { sealed }) => sum + sealed.length, 0),
    spool?.bytes,
  )
  for (const { sealed } of parts) assert.ok(!sealed.includes('nobody'))
  source.put('u', 3, 'three')
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, [])
  assert.equal((await world.capture())?.generation, 1)
  await isEmpty(world)
})

test('an idle log moves on while the lake is away, and nothing is kept of it', async () => {
  const world = await begun()
  const { source } = world
  source.put('t', 2, 'two')
  source.log.length = 0
  source.tables.t.delete(2)
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  assert.equal(source.acked, source.head)
  await isEmpty(world)
  source.put('t', 3, 'three')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  source.put('t', 4, 'four')
  source.log.length = 0
  source.tables.t.delete(4)
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  assert.deepEqual([source.acked, (await spoolOf(world))?.pieces], [source.head, 1])
  await world.sync()
  await world.isAsSource()
  await isEmpty(world)
})

const any = (count: number) => Math.floor(Math.random() * count)

function change({ source }: World): void {
  const table = any(2) === 0 ? 't' : 'u'
  const id = any(5)
  const way = any(12)
  if (way === 0) source.truncate(table)
  else if (way < 4) source.remove(table, id)
  else source.put(table, id, `v${any(99)}`)
}

for (const point of SPOOL_FAULT_POINTS) {
  test(`a run that dies at ${point} loses nothing, and nothing is applied twice`, async () => {
    const world = await begun()
    for (let round = 0; round < 3; round += 1) {
      for (let at = any(4); at >= 0; at -= 1) change(world)
      world.source.put('t', 9, `round ${round}`)
      await withoutLake(async () => {
        await assert.rejects(world.sync(point))
        for (let at = any(3); at > 0; at -= 1) change(world)
        if (any(2) === 0) await assert.rejects(world.sync(), FORGOTTEN)
      })
      change(world)
      if (round > 0) await world.sync(point).catch(() => undefined)
      await world.sync()
      await world.isAsSource()
      await isEmpty(world)
    }
    assert.deepEqual([world.reads, world.lost, (await world.capture())?.generation], [[], [], 1])
  })
}

/** `take` takes the lake, however often it is called; `back` brings it. */
function takenAway() {
  const returned = Promise.withResolvers<void>()
  let away: Promise<void> | null = null
  const take = () =>
    new Promise<void>((taken) => {
      if (away !== null) return taken()
      away = withoutLake(() => {
        taken()
        return returned.promise
      })
    })
  const back = async () => {
    returned.resolve()
    await away
  }
  return { take, back }
}

test('a lake that goes away in the middle of a run is as one that was away before', async () => {
  for (const point of ['log.prepared', 'log.spooled', 'log.unpacked']) {
    const world = await begun()
    const { source } = world
    source.put('t', 2, 'two')
    if (point === 'log.unpacked') await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
    source.put('t', 3, 'three')
    const { take, back } = takenAway()
    await assert.rejects(world.sync(point, take), FORGOTTEN)
    await back()
    assert.equal(source.log.length, 0, point)
    await world.sync()
    await world.isAsSource()
    await isEmpty(world)
  }
})

test('what a run has committed before the lake goes away is not read again', async () => {
  const world = await begun()
  const { source } = world
  // More than one piece.
  for (let id = 2; id <= 9; id += 1) source.put('t', id, 'x'.repeat(9 * 1024 * 1024))
  source.put('t', 10, 'of the second')
  const { take, back } = takenAway()
  await assert.rejects(world.sync('log.acknowledged', take), FORGOTTEN)
  await back()
  assert.deepEqual([source.log.length, world.lost], [0, []])
  source.put('t', 9, 'short')
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, [])
  await isEmpty(world)
})

test('without room the source keeps its log, which is said, and is read on when there is room', async () => {
  for (const spool of [
    { bytes: 400, allBytes: 1e9 },
    { bytes: 1e9, allBytes: (await spoolLoad(lake.pool)).bytes + 400 },
  ]) {
    const world = await begun()
    const { source } = world
    world.spool = spool
    const noise = Array.from({ length: 40 }, () => Math.random().toString(36)).join('')
    source.put('t', 2, 'small')
    await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
    const kept = source.acked
    source.put('t', 3, noise)
    await withoutLake(async () => {
      await assert.rejects(world.sync(), { code: 'log_spool_full' })
      await assert.rejects(world.sync(), { code: 'log_spool_full' })
    })
    assert.deepEqual([source.acked, source.log.length], [kept, 1])
    const full = await spoolOf(world)
    assert.ok(full?.fullAt instanceof Date)
    assert.equal(full.pieces, 1)
    assert.ok((await spoolLoad(lake.pool)).full > 0)
    await world.sync()
    await world.isAsSource()
    await isEmpty(world)
  }
})

/** What happens while pieces wait, and which tables have to be read whole for it. */
const MEANWHILE: Readonly<
  Record<string, { readonly whole: readonly string[]; readonly happens: (world: World) => unknown }>
> = {
  nothing: { whole: [], happens: () => undefined },
  'other tables of those names': { whole: ['t', 'u'], happens: ({ source }) => source.rewrite('t', 1, 'now') },
  'another key': { whole: ['t'], happens: ({ source }) => (source.key = ['id', 'v']) },
  'a backfill': {
    whole: ['t'],
    happens: ({ connection }) => inTransaction(lake.pool, (tx) => askBackfill(tx, connection.id, ['public.t'])),
  },
  'a row that is erased': {
    whole: ['t'],
    happens: ({ connection }) =>
      inTransaction(lake.pool, async (tx) => {
        assert.equal(await eraseSpooled(tx, connection.id, 'public.t'), true)
        await forgetStreams(tx, connection.id, ['public.t'])
        assert.equal(await eraseSpooled(tx, connection.id, 'public.t'), false)
      }),
  },
  'a word that it is to be read whole': {
    whole: ['t'],
    happens(world) {
      world.source.mustReread = true
      world.source.put('t', 7, 'told')
      return withoutLake(() => assert.rejects(world.sync(), FORGOTTEN)).finally(() => (world.source.mustReread = false))
    },
  },
}

for (const [what, { whole, happens }] of Object.entries(MEANWHILE)) {
  for (const isAgain of [false, true]) {
    test(`pieces that wait are right whatever happens meanwhile: ${what}${isAgain ? ', and more is taken up' : ''}`, async () => {
      const world = await begun()
      const { source } = world
      source.put('t', 2, 'two')
      source.put('u', 2, 'two')
      await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
      await happens(world)
      if (isAgain) {
        source.put('t', 5, 'five')
        source.remove('u', 1)
        // Where all is to be read whole, the log tells nothing that the lake is asked for.
        await withoutLake(() => assert.rejects(world.sync(), whole.length === 2 ? () => true : FORGOTTEN))
        assert.equal(source.log.length, 0)
      }
      source.put('u', 3, 'three')
      await world.sync()
      await world.isAsSource()
      assert.deepEqual(world.reads, whole)
      await isEmpty(world)
      source.put('t', 4, 'later')
      source.remove('u', 2)
      await world.sync()
      await world.isAsSource()
      assert.deepEqual([world.reads, world.lost], [whole, []])
    })
  }
}

test('columns that change between two pieces come in their order, and rows that cannot be carried are put aside', async () => {
  const world = await begun()
  const { source } = world
  source.put('t', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  source.columns = [...COLUMNS, { name: 'w', type: 'string', nullable: true }]
  source.reject('t', 1)
  source.tables.t.delete(1)
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  await world.sync()
  assert.deepEqual([await world.rows('t'), world.reads], [[[2, 'two', null]], []])
  assert.deepEqual(await world.quarantined('t'), [[{ id: '1' }, 'odd']])
})

test('a table that was another for a while is read whole, though it is again what it was', async () => {
  const world = await begun()
  const { source } = world
  source.put('u', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  source.key = ['id', 'v']
  source.put('t', 2, 'untold')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  source.key = ['id']
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, ['t'])
})

/** What waits of `t`, for a table that is used so. */
async function asUsed(world: World, used: Pick<LogTable, 'marks'> & { readonly primaryKey?: readonly string[] }) {
  const own = await mkdtemp(join(tmpdir(), 'sluice-spooled-'))
  const checkStorage = async () => ({ bytes: 1e9, exceeded: () => new Error('too much') })
  const deps = { pool: lake.pool, masters, scratchDirectory: own, checkStorage, faultPoint: async () => undefined }
  const run = { connection: world.connection, signal: AbortSignal.timeout(60_000) }
  const { marks, primaryKey = ['id'] } = used
  const table = { table: { name: 'public.t' }, mode: { primaryKey }, marks } as unknown as LogTable
  const piece = await spooledPiece({ run, deps } as unknown as PieceReading, [table])
  await rm(own, { recursive: true })
  return piece?.tables[0]?.spooled
}

test('rows that did not come for a column, and would come by now with marks, have their table read whole', async () => {
  const world = await begun()
  const { source } = world
  world.isStrict = true
  source.reject('t', 1)
  source.put('u', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  assert.equal((await asUsed(world, { marks: false }))?.mustReread, false)
  world.isStrict = false
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, ['t'])
  await isEmpty(world)
})

test('rows that say what they lack have their table read whole where nobody heeds it any more', async () => {
  const world = await begun()
  const file = join(scratchDirectory, 'lacking.csv')
  await writeFile(file, '')
  const [segment, kinds] = [
    { file, columns: COLUMNS, marks: true },
    { isPlain: true, hasGone: false },
  ]
  const none = { rows: 0, bytes: 0, isTruncated: false, mustReread: false, rejected: 0, reasons: [], refused: [] }
  const withoutValue = new Map([['v', 1]])
  const spooled = { ...none, segments: [segment], kinds, withoutValue, rejectedFor: new Set<string>() }
  const told = contentOf([{ name: 'public.t', primaryKey: ['id'], spooled }])
  const position = { lineage: String(world.source.lineage), order: world.source.head }
  const place = { tenant: TENANT, connectionId: world.connection.id }
  const piece = { position, sourceTime: null, readAt: new Date() }
  await inTransaction(lake.pool, (tx) => spoolPiece(tx, masters, place, piece, told, world.spool))
  assert.equal((await asUsed(world, { marks: true }))?.mustReread, false)
  assert.equal((await asUsed(world, { marks: false }))?.mustReread, true)
})

test('no run is kept from renewing its lease while what it has read is compressed', async () => {
  const world = await begun()
  const { source, connection } = world
  source.put('t', 2, 'two')
  const client = await lake.pool.connect()
  let done: Promise<unknown> = Promise.resolve()
  let isOver = false
  const holdRun = async () => {
    await client.query('begin')
    await client.query(`select from runs where connection_id = $1 and state = 'running' for update`, [connection.id])
    done = (async () => {
      const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%no key update%'`
      while (!isOver && (await lake.pool.query(waits)).rowCount === 0) await sleep(20)
      // The transaction is begun, and needs nothing of them any more.
      for (const name of await readdir(scratchDirectory, { recursive: true }))
        if (name.endsWith('.csv')) await rm(join(scratchDirectory, name))
    })().finally(() => client.query('commit'))
  }
  try {
    await withoutLake(() => assert.rejects(world.sync('log.spooled', holdRun), FORGOTTEN))
  } finally {
    isOver = true
    await done
    client.release()
  }
  await world.sync()
  await world.isAsSource()
  await isEmpty(world)
})

test('rows that wait by another key than the table is read by now have it read whole', async () => {
  const world = await begun()
  world.source.put('t', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  for (const primaryKey of [['id'], ['id', 'v']]) {
    const spooled = await asUsed(world, { marks: false, primaryKey })
    assert.deepEqual([spooled?.mustReread, spooled?.rows], [primaryKey.length > 1, 1])
  }
})

test('a table that its source refuses keeps no run from being tried again for the others', async () => {
  const world = await begun()
  const { source } = world
  source.refused = ['t']
  source.put('u', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  assert.equal(source.log.length, 0)
  source.refused = []
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, ['t'])
})

test('a log that is lost while pieces wait is begun anew, and they go', async () => {
  const world = await begun()
  const { source } = world
  source.put('t', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  source.put('t', 3, 'unseen')
  source.acked = source.head
  source.log.length = 0
  await world.sync()
  await world.isAsSource()
  assert.equal(world.lost.length, 1)
  await isEmpty(world)
})

test('pieces that a release which knows nothing of them has passed count no more', async () => {
  const world = await begun()
  const { source } = world
  source.put('t', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  // It has found the log lost, read all whole and gone on.
  source.put('t', 2, 'newer')
  source.log.length = 0
  await lake.pool.query('update captures set generation = generation + 1, position = $2 where connection_id = $1', [
    world.connection.id,
    source.head,
  ])
  await lake.pool.query('delete from capture_streams where connection_id = $1', [world.connection.id])
  source.acked = source.head
  assert.notDeepEqual(await partsOf(world), [])
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.lost, [])
  await isEmpty(world)
  const counted = 'select from captures where connection_id = $1 and spooled_pieces > 0'
  assert.equal((await lake.pool.query(counted, [world.connection.id])).rowCount, 0)
  source.put('t', 4, 'four')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  assert.equal((await spoolOf(world))?.pieces, 1)
  await world.sync()
  await world.isAsSource()
  await isEmpty(world)
})

test('of two workers on one run the one that lost it takes no piece', async () => {
  const world = await begun()
  const { source } = world
  source.put('t', 1, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  const end = 'update runs set lease_until = now() where connection_id = $1 and state = $2'
  const late = world.sync('log.applied', async () => {
    await lake.pool.query(end, [world.connection.id, 'running'])
    await world.sync()
    source.put('t', 1, 'three')
  })
  await assert.rejects(late, { kind: 'FENCED' })
  await world.sync()
  await world.isAsSource()
  await isEmpty(world)
})

test('with its connection all that waits goes', async () => {
  const world = await begun()
  world.source.put('t', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync(), FORGOTTEN))
  await forgetCapture(lake.pool, world.connection.id)
  assert.deepEqual(await partsOf(world), [])
})

test('the log moves on before tables were ever read, which are read whole when the lake is back', async () => {
  const world = await follow()
  const { source } = world
  await withoutLake(() => assert.rejects(world.sync()))
  source.put('t', 2, 'two')
  await withoutLake(() => assert.rejects(world.sync()))
  assert.equal(source.acked, source.head)
  await isEmpty(world)
  assert.deepEqual(await captureStreams(lake.pool, world.connection.id), [])
  world.reads.length = 0
  await world.sync()
  await world.isAsSource()
  assert.deepEqual(world.reads, ['t', 'u'])
})
