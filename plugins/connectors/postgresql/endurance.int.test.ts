import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type Connector, isSluiceError, type ReadEvent, type ReadRequest } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings, type Settings } from './settings.ts'
import { type SourceHostOptions, sourceHost } from './source-host.ts'
import { type SourceCluster, startCluster, until } from './source-server.ts'

const ROWS = 1_000_000
let source: SourceCluster

before(async () => {
  source = await startCluster()
  await source.sql(`CREATE TABLE big AS SELECT i::int AS id, 'some text of row ' || i AS v, now() AS updated_at FROM generate_series(1, ${ROWS}) i;
    CREATE VIEW slow AS SELECT pg_sleep(3600)::text AS v`)
  await source.sql(`GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${source.settings.user}`)
})
after(() => source?.stop())

function connect(changes: Partial<Settings> = {}, options: SourceHostOptions = {}): Connector {
  return createConnector(parseSettings({ ...source.settings, ...changes }), sourceHost(options))
}

function read(connector: Connector, table: string, other: Partial<ReadRequest> = {}): AsyncIterator<ReadEvent> {
  const request: ReadRequest = {
    schema: 'public',
    table,
    mode: 'full',
    columns: [],
    primaryKey: [],
    cursorColumn: null,
    state: null,
    signal: new AbortController().signal,
    ...other,
  }
  return connector.read(request)[Symbol.asyncIterator]()
}

async function toFirstRows(events: AsyncIterator<ReadEvent>): Promise<void> {
  for (;;) {
    const { value, done } = await events.next()
    assert.ok(!done)
    if (value.kind === 'csv') return
  }
}

async function drain(events: AsyncIterator<ReadEvent>): Promise<void> {
  while (!(await events.next()).done);
}

async function sessions(): Promise<readonly { pid: number; state: string; wait_event: string | null }[]> {
  const rows = await source.sql(
    `SELECT pid, state, wait_event FROM pg_stat_activity WHERE usename = '${source.settings.user}'`,
  )
  return rows as unknown as readonly { pid: number; state: string; wait_event: string | null }[]
}

const noSession = () => until('the session is gone', async () => (await sessions()).length === 0)

test('an unread million of rows waits at the source', async () => {
  for (const ssl_mode of ['disable', 'require'] as const) {
    const connector = connect({ ssl_mode })
    const events = read(connector, 'big')
    await toFirstRows(events)
    await until('the server waits for us', async () => (await sessions())[0]?.wait_event === 'ClientWrite')
    const before = process.memoryUsage.rss()
    await pause(100)
    assert.ok(process.memoryUsage.rss() - before < 16 << 20)
    await connector.close()
    await noSession()
  }
})

test('a million rows pass in bounded memory', async () => {
  const connector = connect()
  const events = read(connector, 'big')
  let bytes = 0
  let peak = 0
  const before = process.memoryUsage()
  for (let { value, done } = await events.next(); !done; { value, done } = await events.next()) {
    if (value.kind === 'state') assert.equal(value.rows, ROWS)
    if (value.kind !== 'csv') continue
    bytes += value.chunk.length
    const now = process.memoryUsage()
    peak = Math.max(peak, now.rss - before.rss)
    if (bytes % 7 === 0) await new Promise(setImmediate)
  }
  assert.ok(bytes > 60 << 20)
  assert.ok(peak < 160 << 20, `${peak >> 20} MiB for ${bytes >> 20} MiB of rows`)
  await connector.close()
  await noSession()
})

test('an abort ends the read and its session, wherever they are', async () => {
  const flowing = new AbortController()
  const first = connect()
  const events = read(first, 'big', { signal: flowing.signal })
  await toFirstRows(events)
  flowing.abort()
  await assert.rejects(drain(events), { kind: 'TRANSIENT', code: 'aborted' })
  await noSession()

  const working = new AbortController()
  const sleeping = drain(read(first, 'slow', { signal: working.signal }))
  await until('the server sleeps', async () => (await sessions())[0]?.wait_event === 'PgSleep')
  working.abort()
  await assert.rejects(sleeping, { kind: 'TRANSIENT', code: 'aborted' })
  await noSession()

  await assert.rejects(drain(read(first, 'big', { signal: AbortSignal.abort() })), { code: 'aborted' })
  await first.close()
})

test('a reader that stops early, or a connector that is closed, leaves no session', async () => {
  const connector = connect()
  const events = read(connector, 'big')
  await toFirstRows(events)
  await events.return?.()
  await noSession()
  const sleeping = drain(read(connector, 'slow'))
  await until('the server sleeps', async () => (await sessions())[0]?.wait_event === 'PgSleep')
  await Promise.all([connector.close(), connector.close(), assert.rejects(sleeping, { code: 'connector_closed' })])
  await noSession()
  await assert.rejects(drain(read(connector, 'big')), { code: 'connector_closed' })
})

test('a source that goes away in mid-read is a fault that may be tried again', async () => {
  const transient = (error: unknown) => {
    assert.ok(isSluiceError(error, 'TRANSIENT'), String(error))
    assert.ok(error.remedy)
    return true
  }
  const connector = connect()
  const events = read(connector, 'big')
  await toFirstRows(events)
  const [victim] = await sessions()
  await source.sql(`SELECT pg_terminate_backend(${victim?.pid})`)
  await assert.rejects(drain(events), transient)
  const stopped = read(connector, 'big')
  await toFirstRows(stopped)
  await Promise.all([source.restart(), assert.rejects(drain(stopped), transient)])
  const again = read(connector, 'big')
  await toFirstRows(again)
  await again.return?.()
  await connector.close()
})

test('a cancelled or overlong statement is told as such', async () => {
  // It is also how long the session may rest between statements, for which it may be too short.
  let code: unknown
  for (const statement_timeout_s of [1, 10, 60]) {
    if (code === 'source_timeout') break
    const connector = connect({ statement_timeout_s })
    await assert.rejects(drain(read(connector, 'slow')), (error: unknown) => {
      assert.ok(isSluiceError(error, 'TRANSIENT'), String(error))
      code = error.code
      return true
    })
    await connector.close()
    await noSession()
  }
  assert.equal(code, 'source_timeout')
})

test('a lock does not hold a read for ever', async () => {
  const locker = await source.session()
  await locker.query('BEGIN; LOCK TABLE big IN ACCESS EXCLUSIVE MODE')
  const connector = connect({ statement_timeout_s: 1 })
  await assert.rejects(drain(read(connector, 'big')), (error: unknown) => isSluiceError(error, 'TRANSIENT'))
  await locker.query('ROLLBACK')
  await connector.close()
})

test('an ALTER that comes first is seen whole, one that comes later waits', async () => {
  await source.sql(
    `CREATE TABLE altered AS SELECT i AS id FROM generate_series(1, 3) i; GRANT SELECT ON altered TO ${source.settings.user}`,
  )
  const connector = connect()
  const altering = await source.session()
  await altering.query('BEGIN; ALTER TABLE altered ADD extra int DEFAULT 1; UPDATE altered SET extra = 2')
  const events = read(connector, 'altered')
  const schema = events.next()
  await until('the read waits', async () => (await sessions())[0]?.wait_event === 'relation')
  await altering.query('COMMIT')
  const { value } = await schema
  assert.deepEqual(value.kind === 'schema' && value.schema.columns.map(({ name }: { name: string }) => name), [
    'id',
    'extra',
  ])
  const dropping = source.sql('ALTER TABLE altered DROP extra')
  let csv = ''
  for (let event = await events.next(); !event.done; event = await events.next()) {
    if (event.value.kind === 'csv') csv += Buffer.from(event.value.chunk).toString()
  }
  assert.equal(csv, '"1","2"\n"2","2"\n"3","2"\n')
  await dropping
  await connector.close()
})

test('reads of one connector do not stand in each other’s way', async () => {
  const connector = connect()
  const results = await Promise.allSettled(
    ['altered', 'absent', 'altered'].map((table) => drain(read(connector, table))),
  )
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  await connector.close()
})

test('an end at any step leaves no session', async () => {
  for (const point of ['postgresql.after-snapshot', 'postgresql.before-state']) {
    let reached = 0
    const faultPoint = async (name: string) => {
      if (name !== point) return
      reached += 1
      throw new Error('the end')
    }
    const connector = connect({}, { faultPoint })
    await assert.rejects(drain(read(connector, 'altered')), /the end/)
    assert.equal(reached, 1)
    await noSession()
  }
})
