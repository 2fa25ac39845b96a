import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { test } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { tenantScratch } from '../lake/tenant-layout.ts'
import { rawTable } from '../materializer/inputs.ts'
import { askBackfill } from '../registry/backfills.ts'
import { captureStreams } from '../registry/captures.ts'
import { lastReads } from '../registry/run-progress.ts'
import { COLUMNS, follow, lake, type Source, scratchDirectory, TENANT, type World } from './log-world.fixture.ts'

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
  assert.deepEqual(await world.quarantined('t'), [[{ id: '1' }, 'odd']])
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
