import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { ChangeEvent, ChangePosition, ChangeSource, ChangeStream, Connector } from '@sluice/sdk'
import { createConnector } from '../connector.ts'
import { IDLE_MS } from '../kept-session.ts'
import { parseSettings } from '../settings.ts'
import { parseCsv, sourceHost } from '../source-host.ts'
import { type SourceCluster, until } from '../source-server.ts'
import { type LogWorld, NEVER as signal, startLogWorld, stream, Tables, take as takeFrom } from './log-world.fixture.ts'

let world: LogWorld
let source: SourceCluster
let connector: Connector
let log: ChangeSource

before(async () => {
  world = await startLogWorld()
  source = world.source
  connector = world.connector
  log = world.log
  const { user } = source.settings
  await source.sql(`CREATE TABLE item (id int PRIMARY KEY, name text, body text, tags int[], at timestamptz, price numeric, cost money);
    ALTER TABLE item ALTER body SET STORAGE EXTERNAL;
    CREATE TABLE whole (a int, b text NOT NULL, body text, UNIQUE (a, b)); ALTER TABLE whole ALTER a SET NOT NULL;
    ALTER TABLE whole REPLICA IDENTITY FULL; ALTER TABLE whole ALTER body SET STORAGE EXTERNAL;
    CREATE TABLE parted (id int, part int, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
    CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1); CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
    CREATE TABLE keyless (id int); CREATE TABLE nothing (id int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING;
    CREATE TABLE computed (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL);
    CREATE TABLE foreign_owned (id int PRIMARY KEY); GRANT SELECT ON foreign_owned TO ${user}`)
  for (const table of ['item', 'whole', 'parted', 'parted_1', 'parted_2', 'keyless', 'nothing', 'computed']) {
    await source.sql(`ALTER TABLE ${table} OWNER TO ${user}`)
  }
})
after(() => world?.stop())

const STREAMS = [stream('item', 'id'), stream('whole', 'a', 'b'), stream('parted', 'id', 'part')]

const take = (capture: string, after: ChangePosition, streams: readonly ChangeStream[] = STREAMS) =>
  takeFrom(log, capture, after, streams)

test('the first rows and the log after them are the source, values and all', async () => {
  await source.sql(`INSERT INTO item SELECT i, 'n' || i, repeat(i::text, 4000), ARRAY[i, NULL], '2024-01-01', round(i / 3.0, 8), i FROM generate_series(1, 20) i;
    INSERT INTO whole SELECT i, 'b' || i, repeat(i::text, 4000) FROM generate_series(1, 20) i;
    INSERT INTO parted SELECT i, 1 + i % 2, 'v' FROM generate_series(1, 20) i`)
  const { position, refused } = await log.prepare({ capture: 'first', streams: STREAMS, signal })
  assert.deepEqual(refused, [])
  const tables = new Tables(connector, STREAMS)
  await tables.readWhole()
  await source.sql(`BEGIN; UPDATE item SET name = 'a "quoted", text' WHERE id = 3; SAVEPOINT one; DELETE FROM item; ROLLBACK TO one;
    UPDATE item SET id = 100 WHERE id = 4; UPDATE whole SET a = 50 WHERE a = 5; UPDATE whole SET b = 'else' WHERE a = 6;
    UPDATE parted SET part = 2 WHERE id = 2; DELETE FROM parted WHERE id = 7; DELETE FROM item WHERE id = 9;
    UPDATE item SET tags = '{}', cost = 12.5 WHERE id = 10; COMMIT;
    BEGIN; DELETE FROM whole; ROLLBACK; INSERT INTO item (id, name) VALUES (200, '')`)
  const first = await take('first', position)
  tables.apply(first.events)
  const now = new Tables(connector, STREAMS)
  await now.readWhole()
  assert.deepEqual(tables.sorted(), now.sorted())
  const again = await take('first', position)
  tables.apply(again.events)
  assert.deepEqual(tables.sorted(), now.sorted(), 'a log told twice')

  await log.ack({ capture: 'first', position: first.end, signal })
  await log.ack({ capture: 'first', position, signal })
  await assert.rejects(take('first', position), { kind: 'CONFLICT', code: 'position_lost' })
  await source.sql(`TRUNCATE whole, parted; INSERT INTO whole VALUES (1, 'x', 'y'); ALTER TABLE item ADD note int DEFAULT 5;
    UPDATE item SET name = 'later' WHERE id = 1; INSERT INTO item (id, at) VALUES (300, 'infinity')`)
  const second = await take('first', first.end)
  tables.apply(second.events)
  assert.equal(tables.rows[1]?.size, 1)
  assert.equal(tables.rows[2]?.size, 0)
  assert.deepEqual(
    second.events.flatMap((event) => (event.kind === 'reject' ? [[event.column, event.key, event.raw]] : [])),
    [['at', { id: '300' }, 'infinity']],
  )
  const quiet = await take('first', second.end)
  assert.deepEqual(
    quiet.events.map(({ kind }) => kind),
    ['checkpoint'],
  )
  await log.ack({ capture: 'first', position: quiet.end, signal })
  assert.equal((await log.health({ capture: 'first', saved: quiet.end, signal })).state, 'ok')
  assert.equal((await log.health({ capture: 'first', saved: second.end, signal })).state, 'lost')
  await log.release({ capture: 'first', signal })
  await log.release({ capture: 'first', signal })
  assert.deepEqual(await source.sql('SELECT slot_name FROM pg_replication_slots'), [])
  assert.deepEqual(await source.sql('SELECT pubname FROM pg_publication'), [])
  await assert.rejects(take('first', quiet.end), { code: 'position_lost' })
})

test('a row comes without values that cannot be carried where it may, and says which, also where some are left out as unchanged', async () => {
  await source.sql(`CREATE TABLE odd (id int PRIMARY KEY, at timestamptz, cost numeric, doc json, v text);
    ALTER TABLE odd ALTER doc SET STORAGE EXTERNAL; ALTER TABLE odd OWNER TO ${source.settings.user}`)
  const odd = stream('odd', 'id')
  const { position } = await log.prepare({ capture: 'odd', streams: [odd], signal })
  const half = String.raw`('{"a": "' || repeat('x', 9000) || '\ud800"}')::json`
  await source.sql(`INSERT INTO odd VALUES (1, 'infinity', 'NaN', ${half}, 'a');
    UPDATE odd SET v = 'b'; UPDATE odd SET at = '2024-01-01 00:00+00', cost = 1; UPDATE odd SET id = 2; UPDATE odd SET doc = '{}'`)
  const marked = await take('odd', position, [{ ...odd, marks: true }])
  const told = marked.events.flatMap((event) => {
    if (event.kind === 'reject') return [[event.column, event.carried, event.key]]
    if (event.kind !== 'rows') return []
    return parseCsv(Buffer.from(event.chunk).toString('utf8')).map(([op, , ...cells]) => [op, ...cells])
  })
  const carried = (column: string) => [column, true, { id: '1' }]
  const left = '["doc"]'
  const day = '2024-01-01 00:00:00+00'
  assert.deepEqual(told, [
    ['u', null, null, '1', null, null, null, 'a', '["at","cost","doc"]'],
    ...['at', 'cost', 'doc'].map(carried),
    ['u', left, null, '1', null, null, null, 'b', '["at","cost"]'],
    ...['at', 'cost'].map(carried),
    ['u', left, null, '1', day, '1', null, 'b', null],
    ['d', null, null, '1', null, null, null, null, null],
    ['u', left, '["1"]', '2', day, '1', null, 'b', null],
    ['u', null, null, '2', day, '1', '{}', 'b', null],
  ])
  assert.ok(marked.events.every((event) => event.kind !== 'schema' || event.marks === true))
  const plain = await take('odd', position, [odd])
  assert.deepEqual(
    plain.events.flatMap((event) => (event.kind === 'reject' ? [[event.column, event.carried]] : [])),
    [
      ['at', undefined],
      ['at', undefined],
    ],
  )
  assert.ok(plain.events.every((event) => event.kind !== 'schema' || event.marks === undefined))
  await log.release({ capture: 'odd', signal })
})

test('a new default is to be read again, in the middle of the log', async () => {
  const { position } = await log.prepare({ capture: 'altered', streams: [stream('item', 'id')], signal })
  await source.sql(`INSERT INTO item (id) VALUES (400)`)
  await source.sql(`ALTER TABLE item ADD extra int DEFAULT 7`)
  await source.sql(`INSERT INTO item (id) VALUES (401)`)
  await source.sql(`ALTER TABLE item DROP extra`)
  await source.sql(`INSERT INTO item (id) VALUES (402)`)
  const { events } = await take('altered', position, [stream('item', 'id')])
  assert.deepEqual(
    events.map((event) =>
      event.kind === 'schema' ? [event.schema.columns.at(-1)?.name, event.mustReread] : event.kind,
    ),
    [['note', undefined], 'rows', ['extra', true], 'rows', ['note', undefined], 'rows', 'checkpoint'],
  )
  await log.release({ capture: 'altered', signal })
})

test('what the log cannot tell is refused, and its writers go on', async () => {
  const streams = [
    stream('keyless', 'id'),
    stream('nothing', 'id'),
    stream('computed', 'id'),
    stream('foreign_owned', 'id'),
    stream('absent', 'id'),
    stream('item', 'name'),
    stream('whole', 'a', 'b'),
  ]
  const { refused } = await log.prepare({ capture: 'refuses', streams, signal })
  assert.deepEqual(
    refused.map(({ table, code }) => `${table} ${code}`),
    [
      'keyless changes_no_identity',
      'nothing changes_no_identity',
      'computed changes_generated_columns',
      'foreign_owned changes_not_owner',
      'absent source_table_missing',
      'item changes_no_identity',
    ],
  )
  assert.deepEqual(await source.sql('SELECT tablename FROM pg_publication_tables'), [{ tablename: 'whole' }])
  await source.sql(
    'INSERT INTO keyless VALUES (1); UPDATE keyless SET id = 2; INSERT INTO nothing VALUES (1); UPDATE nothing SET id = 2',
  )
  await log.release({ capture: 'refuses', signal })
})

test('two that prepare at once make one slot; anew is another lineage', async () => {
  const prepare = (anew = false) => log.prepare({ capture: 'raced', streams: STREAMS, anew, signal })
  const [one, other] = await Promise.all([prepare(), prepare()])
  assert.deepEqual(one.position, other.position)
  assert.equal((await source.sql('SELECT slot_name FROM pg_replication_slots')).length, 1)
  const anew = await prepare(true)
  assert.notEqual(anew.position.lineage, one.position.lineage)
  assert.equal((await source.sql('SELECT slot_name FROM pg_replication_slots')).length, 1)
  await assert.rejects(take('raced', one.position), { code: 'position_lost' })
  await log.release({ capture: 'raced', signal })
})

test('what changed between two readings is told by another incarnation', async () => {
  await source.sql(`CREATE TABLE remade (id int PRIMARY KEY); ALTER TABLE remade OWNER TO ${source.settings.user}`)
  const incarnation = async () => {
    const prepared: object = await log.prepare({ capture: 'remade', streams: [stream('remade', 'id')], signal })
    return JSON.stringify('incarnations' in prepared ? prepared.incarnations : null)
  }
  const seen = [await incarnation()]
  assert.equal(await incarnation(), seen[0])
  for (const ddl of [
    'ALTER TABLE remade ADD extra int DEFAULT 7',
    'ALTER TABLE remade ALTER extra TYPE bigint',
    `DROP TABLE remade; CREATE TABLE remade (id int PRIMARY KEY, extra bigint); ALTER TABLE remade OWNER TO ${source.settings.user}`,
  ]) {
    await source.sql(ddl)
    seen.push(await incarnation())
  }
  assert.equal(new Set(seen).size, seen.length)
  await log.release({ capture: 'remade', signal })
})

test('what the log does not tell of rows is told by another incarnation: values written anew, partitions that come and go', async () => {
  const { user } = source.settings
  const streams = [stream('rewritten', 'id'), stream('strewn', 'id', 'part')]
  await source.sql(`CREATE TYPE pair AS (one int, two int); CREATE TABLE rewritten (id int PRIMARY KEY, n int, p pair, ps pair[]);
    INSERT INTO rewritten VALUES (1, 10); CREATE TABLE strewn (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
    CREATE TABLE strewn_1 PARTITION OF strewn FOR VALUES IN (1); CREATE TABLE strewn_2 PARTITION OF strewn FOR VALUES IN (2);
    INSERT INTO strewn SELECT i, 1 + i % 2 FROM generate_series(1, 10) i`)
  for (const table of ['rewritten', 'strewn', 'strewn_1', 'strewn_2'])
    await source.sql(`ALTER TABLE ${table} OWNER TO ${user}`)
  const prepare = () => log.prepare({ capture: 'untold', streams, signal })
  let { position, incarnations } = await prepare()
  for (const [table, ddl] of [
    ['rewritten', 'ALTER TABLE rewritten ALTER n TYPE int USING n * 2'],
    ['rewritten', 'ALTER TYPE pair RENAME ATTRIBUTE two TO second'],
    ['strewn', 'TRUNCATE strewn_1'],
    ['strewn', 'ALTER TABLE strewn DETACH PARTITION strewn_2'],
    ['strewn', 'ALTER TABLE strewn ATTACH PARTITION strewn_2 FOR VALUES IN (2)'],
    ['strewn', 'DROP TABLE strewn_2'],
  ] as const) {
    await source.sql(ddl)
    const { events, end } = await take('untold', position, streams)
    assert.deepEqual(
      events.map(({ kind }) => kind),
      ['checkpoint'],
      `${ddl}: the log tells nothing of it`,
    )
    const before = incarnations
    ;({ incarnations } = await prepare())
    const others = incarnations?.filter((one, at) => one.incarnation !== before?.[at]?.incarnation)
    assert.deepEqual(
      others?.map((one) => one.table),
      [table],
      ddl,
    )
    position = end
  }
  await source.sql('INSERT INTO strewn VALUES (20, 1); UPDATE rewritten SET n = 3')
  assert.deepEqual((await prepare()).incarnations, incarnations, 'rows change nothing of it')
  await log.release({ capture: 'untold', signal })
})

test('a reader that leaves after a checkpoint goes on from there', async () => {
  const { position } = await log.prepare({ capture: 'leaves', streams: STREAMS, signal })
  for (let round = 0; round < 3; round += 1) {
    await source.sql(`INSERT INTO whole SELECT i, 'r${round}', repeat('x', 2000) FROM generate_series(1, 1000) i`)
  }
  const seen: string[] = []
  let after = position
  let calls = 0
  for (let isEnd = false; !isEnd; calls += 1) {
    const events: ChangeEvent[] = []
    for await (const event of log.changes({ capture: 'leaves', after, streams: STREAMS, signal })) {
      events.push(event)
      if (event.kind === 'checkpoint') break
    }
    const last = events.at(-1)
    assert.ok(last?.kind === 'checkpoint')
    after = last.position
    await log.ack({ capture: 'leaves', position: after, signal })
    for (const event of events) {
      if (event.kind === 'rows') {
        for (const row of parseCsv(Buffer.from(event.chunk).toString('utf8'))) seen.push(`${row[4]} ${row[5]}`)
      }
    }
    isEnd = events.length === 1
  }
  assert.ok(calls > 2)
  assert.equal(seen.length, 3000)
  assert.equal(new Set(seen).size, 3000)
  await log.release({ capture: 'leaves', signal })
})

/** One statement or transaction by chance, such as the log must tell rightly. */
function chance(random: () => number): string {
  const id = () => 1 + Math.floor(random() * 30)
  const body = () => `repeat('${Math.floor(random() * 1e6)}', 1500)`
  const one = () =>
    [
      `INSERT INTO item (id, name, body, tags) VALUES (${id()}, 'i', ${body()}, '{1,2}') ON CONFLICT (id) DO UPDATE SET name = 'c'`,
      `UPDATE item SET name = 'n${random()}' WHERE id = ${id()}`,
      `UPDATE item SET body = ${body()} WHERE id = ${id()}`,
      `UPDATE item SET id = ${id()} + 1000 * (1 + floor(random() * 1000))::int WHERE id = ${id()}`,
      `DELETE FROM item WHERE id = ${id()}`,
      `INSERT INTO whole VALUES (${id()}, 'w', ${body()}) ON CONFLICT (a, b) DO UPDATE SET b = 'x' || random()`,
      `UPDATE whole SET b = 'b' || random() WHERE a = ${id()}`,
      `INSERT INTO parted VALUES (${id()}, 1, 'p') ON CONFLICT (id, part) DO NOTHING`,
      `DELETE FROM parted WHERE id = ${id()}`,
      `UPDATE parted SET v = 'v' || random() WHERE id = ${id()}`,
    ][Math.floor(random() * 10)]
  const kind = random()
  if (kind < 0.4) return `${one()}`
  if (kind < 0.6) return `BEGIN; ${one()}; SAVEPOINT s; ${one()}; ${one()}; ROLLBACK TO s; ${one()}; COMMIT`
  if (kind < 0.8) return `BEGIN; ${one()}; SAVEPOINT s; ${one()}; RELEASE s; ${one()}; COMMIT`
  if (kind < 0.95) return `BEGIN; ${one()}; ${one()}; ROLLBACK`
  return random() < 0.5 ? 'TRUNCATE parted' : 'TRUNCATE whole'
}

test('whatever writers do and wherever a reading is cut off, the first rows and the log are the source', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  let state = seed
  const random = () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return state / 0x7fffffff
  }
  const writer = await source.session()
  const { position } = await log.prepare({ capture: 'chance', streams: STREAMS, signal })
  const tables = new Tables(connector, STREAMS)
  const write = async (count: number) => {
    for (let nth = 0; nth < count; nth += 1) await writer.query(chance(random)).catch(() => writer.query('ROLLBACK'))
  }
  const early = write(60)
  await tables.readWhole()
  let after = position
  let writing = early
  for (let round = 0; round < 6; round += 1) {
    const cut = Math.floor(random() * 6)
    const before: ChangeEvent[] = []
    for await (const event of log.changes({ capture: 'chance', after, streams: STREAMS, signal })) {
      before.push(event)
      if (before.length > cut) break
    }
    // What a reader that was cut off had taken is thrown away, or applied and then told again.
    const last = before.at(-1)
    if (last?.kind === 'checkpoint') {
      tables.apply(before)
      await tables.readWhole(tables.mustReread)
      // Committed and acknowledged, or told again.
      if (random() < 0.6) {
        after = last.position
        if (random() < 0.5) await log.ack({ capture: 'chance', position: after, signal })
      }
    }
    await writing
    writing = write(40)
  }
  await writing
  const slot = await take('chance', after).catch(() => null)
  assert.ok(slot, `seed ${seed}: the position is there`)
  tables.apply(slot.events)
  await tables.readWhole(tables.mustReread)
  const now = new Tables(connector, STREAMS)
  await now.readWhole()
  assert.deepEqual(tables.sorted(), now.sorted(), `seed ${seed}`)
  await log.release({ capture: 'chance', signal })
})

test('a log that the server has let go of is told, foretold, and begun anew', async () => {
  const { position } = await log.prepare({ capture: 'lost', streams: STREAMS, signal })
  await source.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'")
  await source.sql('SELECT pg_reload_conf()')
  const states = new Set<string>()
  for (let round = 0; round < 12; round += 1) {
    await source.sql("SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000)) FROM generate_series(1, 10)")
    await source.sql('SELECT pg_switch_wal()')
    await source.sql('CHECKPOINT')
    const health = await log.health({ capture: 'lost', saved: position, signal })
    assert.equal(health.limitBytes, 64 << 20)
    states.add(health.state)
  }
  assert.deepEqual([...states], ['ok', 'at_risk', 'lost'])
  await assert.rejects(take('lost', position), { kind: 'CONFLICT', code: 'position_lost' })
  const anew = await log.prepare({ capture: 'lost', streams: STREAMS, anew: true, signal })
  assert.notEqual(anew.position.lineage, position.lineage)
  assert.equal((await take('lost', anew.position)).events.length, 1)
  await log.release({ capture: 'lost', signal })
  await source.sql('ALTER SYSTEM RESET max_slot_wal_keep_size')
  await source.sql('SELECT pg_reload_conf()')
})

test('who waits hears of a change, of nothing else, and where the log has moved on to', async () => {
  const streams = [stream('nothing_yet', 'id')]
  await world.make('CREATE TABLE nothing_yet (id int PRIMARY KEY)', 'nothing_yet')
  const { position } = await log.prepare({ capture: 'waiting', streams, signal })
  const wait = (after: ChangePosition, waitMs: number) =>
    log.awaitChanges?.({ capture: 'waiting', after, streams, waitMs, signal })
  // Others' rows are in the log, too.
  await source.sql('CREATE TABLE of_others AS SELECT generate_series(1, 1000) i')
  const quiet = await wait(position, 100)
  assert.ok(quiet?.kind === 'quiet' && quiet.position.order > position.order, JSON.stringify(quiet))
  await log.ack({ capture: 'waiting', position: quiet.position, signal })
  const waiting = wait(quiet.position, 600_000)
  await source.sql('INSERT INTO nothing_yet VALUES (1)')
  assert.deepEqual(await waiting, { kind: 'changed' })
  // What came is still there for whoever reads it, and ends every wait until then.
  assert.deepEqual(await wait(quiet.position, 600_000), { kind: 'changed' })
  const { end, events } = await take('waiting', quiet.position, streams)
  assert.ok(events.some(({ kind }) => kind === 'rows'))
  assert.equal((await wait(end, 100))?.kind, 'quiet')
  await assert.rejects(Promise.resolve(wait(position, 100)), { code: 'position_lost' })
  const ended = new AbortController()
  const left = log.awaitChanges?.({ capture: 'waiting', after: end, streams, waitMs: 600_000, signal: ended.signal })
  ended.abort()
  await assert.rejects(Promise.resolve(left))
  await log.release({ capture: 'waiting', signal })
})

test('calls one after the other go on with one session, and nothing of a call is left in it', async () => {
  const host = sourceHost()
  // However slow the machine is, no session is idle for too long.
  const every: typeof host.clock.every = (ms, run) => (ms === IDLE_MS ? () => undefined : host.clock.every(ms, run))
  const own = createConnector(parseSettings(source.settings), { ...host, clock: { ...host.clock, every } })
  const { changes } = own
  assert.ok(changes)
  const [capture, streams] = ['one_session', [stream('item', 'id')]]
  const sessions = async () => {
    const rows = await source.sql(`SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice connector'`)
    return rows.map(({ pid }) => Number(pid))
  }
  const others = await sessions()
  const ours = async () => (await sessions()).filter((pid) => !others.includes(pid))
  try {
    const { position } = await changes.prepare({ capture, streams, signal })
    const [first] = await ours()
    assert.ok(first)
    const calls = [
      () => own.discover({ after: null, limit: 10 }, signal),
      () => changes.health({ capture, saved: position, signal }),
      () => changes.prepare({ capture, streams, signal }),
      () => takeFrom(changes, capture, position, streams),
      () => changes.ack({ capture, position, signal }),
    ]
    for (const call of calls) {
      await call()
      assert.deepEqual(await ours(), [first])
      const locks: string = `SELECT FROM pg_locks WHERE pid = ${first} AND locktype IN ('advisory', 'relation', 'transactionid')`
      assert.deepEqual(await source.sql(locks), [])
    }
    await changes.release({ capture, signal })
  } finally {
    await own.close()
  }
  assert.deepEqual(await ours(), [], 'a connector that is closed leaves no session')
})

test('of calls at once one leaves its session to the next, and that ends when it was idle for too long', async () => {
  const host = sourceHost()
  const idle: (() => unknown)[] = []
  const every: typeof host.clock.every = (ms, run) => {
    if (ms !== IDLE_MS) return host.clock.every(ms, run)
    idle.push(run)
    return () => idle.splice(idle.indexOf(run), 1)
  }
  const own = createConnector(parseSettings(source.settings), { ...host, clock: { ...host.clock, every } })
  const pids = async () =>
    (await source.sql(`SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice connector'`)).map(
      ({ pid }) => pid,
    )
  // Those of connectors before end when their time is over.
  const others = new Set(await pids())
  const sessions = async () => (await pids()).filter((pid) => !others.has(pid)).length
  try {
    for (let turn = 0; turn < 5; turn += 1) {
      await Promise.all(Array.from({ length: 6 }, () => own.discover({ after: null, limit: 10 }, signal)))
      assert.equal(idle.length, 1)
      await until('the others have ended', async () => (await sessions()) === 1)
    }
    for (const run of [...idle]) run()
    await until('none is left', async () => (await sessions()) === 0)
  } finally {
    await own.close()
  }
})
