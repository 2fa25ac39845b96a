import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { ChangeEvent, ChangeSource, Clock } from '@sluice/sdk'
import { createConnector } from '../connector.ts'
import { parseSettings } from '../settings.ts'
import { parseCsv, sourceHost } from '../source-host.ts'
import { type LogWorld, NEVER as signal, startLogWorld, stream, take } from './log-world.fixture.ts'

let world: LogWorld
let user: string

before(async () => {
  world = await startLogWorld()
  user = world.source.settings.user
})
after(() => world?.stop())

const shapes = (events: readonly ChangeEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'schema' ? [[event.schema.columns.map(({ name }) => name).join(), event.mustReread === true]] : [],
  )

test('a table that was altered or replaced after the last row of it that came is to be read whole', async () => {
  const streams = [stream('altered', 'id')]
  const columns = 'id int PRIMARY KEY, v int'
  const cases = [
    ['ALTER TABLE altered ADD x int DEFAULT 7', 'id,v,x'],
    ['ALTER TABLE altered DROP v', 'id'],
    ['ALTER TABLE altered ALTER v TYPE text', 'id,v'],
    ['ALTER TABLE altered RENAME v TO w', 'id,w'],
    [`DROP TABLE altered; CREATE TABLE altered (${columns}); ALTER TABLE altered OWNER TO ${user}`, 'id,v'],
  ] as const
  for (const [ddl, after] of cases) {
    await world.make(`CREATE TABLE altered (${columns})`, 'altered')
    const { position } = await world.log.prepare({ capture: 'alters', streams, signal })
    await world.sql('INSERT INTO altered VALUES (1, 2)')
    await world.sql(ddl)
    await world.log.prepare({ capture: 'alters', streams, signal })
    const { events, end } = await world.take('alters', position, streams)
    assert.deepEqual(
      shapes(events),
      [
        ['id,v', false],
        [after, true],
      ],
      ddl,
    )
    assert.equal(events.at(-1)?.kind, 'checkpoint')
    assert.deepEqual(shapes((await world.take('alters', end, streams)).events), [], ddl)
    await world.log.release({ capture: 'alters', signal })
    await world.sql('DROP TABLE altered')
  }
})

test('a partition that was away for a moment has its table read whole, since the log tells nothing of what was done to it then', async () => {
  const streams = [stream('split', 'id', 'part'), stream('still', 'id', 'part')]
  for (const table of ['split', 'still']) {
    await world.sql(`CREATE TABLE ${table} (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
      CREATE TABLE ${table}_1 PARTITION OF ${table} FOR VALUES IN (1, 2) PARTITION BY LIST (part);
      CREATE TABLE ${table}_1_1 PARTITION OF ${table}_1 FOR VALUES IN (1);
      INSERT INTO ${table} SELECT i, 1 FROM generate_series(1, 4) i`)
    for (const part of [table, `${table}_1`, `${table}_1_1`]) await world.sql(`ALTER TABLE ${part} OWNER TO ${user}`)
  }
  const known = async () => {
    const { incarnations } = await world.log.prepare({ capture: 'splits', streams, signal })
    return Object.fromEntries(incarnations?.map(({ table, incarnation }) => [table, incarnation]) ?? [])
  }
  const before = await known()
  for (const one of ['INSERT INTO split VALUES (5, 1)', 'VACUUM FREEZE pg_inherits', 'ANALYZE split'])
    await world.sql(one)
  assert.deepEqual(await known(), before, 'rows and the server’s upkeep make no other table of it')
  const away = (parent: string, part: string, values: string) => `ALTER TABLE ${parent} DETACH PARTITION ${part};
    DELETE FROM ${part} WHERE id % 2 = 0; ALTER TABLE ${parent} ATTACH PARTITION ${part} FOR VALUES IN (${values})`
  const seen = [before]
  for (const moved of [away('split_1', 'split_1_1', '1'), away('split', 'split_1', '1, 2')]) {
    await world.sql(`BEGIN; ${moved}; COMMIT`)
    const now = await known()
    assert.ok(!seen.some(({ split }) => split === now['split']), moved)
    assert.equal(now['still'], before['still'])
    seen.push(now)
  }
  await world.log.release({ capture: 'splits', signal })
})

test('a label that was given another name has its table read whole', async () => {
  await world.make(
    "CREATE TYPE weather AS ENUM ('fair', 'foul'); CREATE TABLE days (id int PRIMARY KEY, w weather)",
    'days',
  )
  const streams = [stream('days', 'id')]
  const { position } = await world.log.prepare({ capture: 'days', streams, signal })
  await world.sql("INSERT INTO days VALUES (1, 'fair')")
  const before = await world.take('days', position, streams)
  assert.deepEqual(shapes(before.events), [['id,w', false]])
  await world.sql("ALTER TYPE weather RENAME VALUE 'fair' TO 'fine'")
  const { events } = await world.take('days', position, streams)
  assert.deepEqual(shapes(events), [
    ['id,w', false],
    ['id,w', true],
  ])
  await world.log.release({ capture: 'days', signal })
})

test('what a type takes no more, and keys that cannot be carried, hold up no log', async () => {
  await world.make(
    `CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TABLE moody (id int PRIMARY KEY, moods mood[]);
     CREATE TABLE endless (at date PRIMARY KEY, v text, body text); ALTER TABLE endless ALTER body SET STORAGE EXTERNAL;
     CREATE TABLE stored (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED);
     CREATE TABLE wide (id text PRIMARY KEY, body text)`,
    ...['moody', 'endless', 'stored', 'wide'],
  )
  const streams = [stream('moody', 'id'), stream('endless', 'at'), stream('stored', 'id'), stream('wide', 'id')]
  const { position, refused, incarnations } = await world.log.prepare({ capture: 'odd', streams, signal })
  assert.deepEqual(refused, [])
  const long = 'k'.repeat(300)
  await world.sql(`INSERT INTO moody VALUES (1, '{glad}'), (2, '{sad}'), (3, NULL)`)
  await world.sql("ALTER TYPE mood RENAME VALUE 'glad' TO 'merry'")
  await world.sql(`INSERT INTO endless VALUES ('infinity', 'a', repeat('b', 3000)), ('2024-01-01', 'c', 'd');
    UPDATE endless SET at = '2024-02-02' WHERE at = 'infinity'; UPDATE endless SET at = 'infinity' WHERE at = '2024-01-01';
    DELETE FROM endless WHERE at = 'infinity'; INSERT INTO stored VALUES (4)`)
  await world.sql(`INSERT INTO wide VALUES ('${long}', 'small'); UPDATE wide SET body = repeat('x', 16000000)`)
  const { events } = await world.take('odd', position, streams)
  const rejects = events.flatMap((event) =>
    event.kind === 'reject' ? [[streams[event.stream]?.table, event.column, event.key, event.reason]] : [],
  )
  assert.deepEqual(rejects, [
    ['moody', 'moods', { id: '1' }, 'its type takes this value no more'],
    ['endless', 'at', undefined, 'the date is infinite, or outside the years 1 to 9999'],
    ['endless', 'at', undefined, 'the date is infinite, or outside the years 1 to 9999'],
    ['wide', null, { id: long }, 'the row has more than 15 MiB'],
  ])
  const rows = events.flatMap((event) =>
    event.kind === 'rows'
      ? parseCsv(Buffer.from(event.chunk).toString()).map((row) => [
          streams[event.stream]?.table,
          row[0],
          ...row.slice(3),
        ])
      : [],
  )
  assert.deepEqual(
    rows.map((row) => row.map((cell) => cell?.slice(0, 12) ?? null)),
    [
      ['moody', 'u', null, '2', '["sad"]'],
      ['moody', 'u', null, '3', null],
      ['endless', 'u', null, '2024-01-01', 'c', 'd'],
      ['endless', 'u', null, '2024-02-02', 'a', null],
      ['endless', 'd', null, '2024-01-01', null, null],
      ['stored', 'u', null, '4', '8'],
      ['wide', 'u', null, long.slice(0, 12), 'small'],
    ],
  )
  assert.deepEqual(rereadsOf(events), [0])
  const again = await world.log.prepare({ capture: 'odd', streams, signal })
  const changed = again.incarnations?.filter(
    ({ table, incarnation }) => incarnation !== incarnations?.find((one) => one.table === table)?.incarnation,
  )
  assert.deepEqual(
    changed?.map(({ table }) => table),
    ['moody'],
  )
  await world.log.release({ capture: 'odd', signal })
})

test('a key that is renamed in mid-log is told or the reading stops before it, and the next one goes on', async () => {
  await world.make(
    'CREATE TABLE rekeyed (id int PRIMARY KEY, a int); CREATE TABLE other (id int PRIMARY KEY)',
    'rekeyed',
    'other',
  )
  const streams = [stream('rekeyed', 'id'), stream('other', 'id')]
  const { position } = await world.log.prepare({ capture: 'rekeys', streams, signal })
  await world.sql('ALTER TABLE rekeyed RENAME id TO key')
  await world.sql('INSERT INTO rekeyed VALUES (2); INSERT INTO other VALUES (2)')
  await assert.rejects(world.take('rekeys', position, streams), { kind: 'TRANSIENT', code: 'source_changed' })
  await world.sql('ALTER TABLE rekeyed RENAME key TO id')
  const { events } = await world.take('rekeys', position, streams)
  assert.deepEqual(
    events.map((event) => [
      event.kind,
      'stream' in event && event.stream,
      event.kind === 'schema' && event.mustReread === true,
    ]),
    [
      ['schema', 1, false],
      ['rows', 1, false],
      ['schema', 0, true],
      ['checkpoint', false, false],
    ],
  )
  await world.sql('ALTER TABLE rekeyed RENAME id TO key')
  const { refused } = await world.log.prepare({ capture: 'rekeys', streams, signal })
  assert.deepEqual(
    refused.map(({ table }) => table),
    ['rekeyed'],
  )
  const rest = await world.take('rekeys', position, [stream('other', 'id')])
  assert.deepEqual(
    rest.events.map(({ kind }) => kind),
    ['schema', 'rows', 'checkpoint'],
  )
  await world.log.release({ capture: 'rekeys', signal })
})

/** Each row has the columns that were told before it, and comes after those that the log has before it. */
function checkRows(events: readonly ChangeEvent[]): void {
  const widths = new Map<number, number>()
  const last = new Map<number, string>()
  for (const event of events) {
    if (event.kind === 'schema') widths.set(event.stream, event.schema.columns.length)
    if (event.kind !== 'rows') continue
    for (const row of parseCsv(Buffer.from(event.chunk).toString())) {
      assert.equal(row.length - 4, widths.get(event.stream))
      const seq = row[1] ?? ''
      assert.ok(seq > (last.get(event.stream) ?? ''))
      last.set(event.stream, seq)
    }
  }
}

const rereadsOf = (events: readonly ChangeEvent[]) =>
  events.flatMap((event) => (event.kind === 'schema' && event.mustReread ? [event.stream] : [])).sort()

test('a table that takes the name of another has its rows in its own shape, in the order of the log', async () => {
  const streams = [stream('front', 'id'), stream('back', 'id')]
  for (const after of ["INSERT INTO front VALUES (2, 'bb', 'cc')", 'INSERT INTO back VALUES (2, 20)']) {
    await world.make(
      'CREATE TABLE front (id int PRIMARY KEY, a int); CREATE TABLE back (id int PRIMARY KEY, b text, c text)',
      'front',
      'back',
    )
    const { position } = await world.log.prepare({ capture: 'swaps', streams, signal })
    await world.sql(`INSERT INTO back VALUES (1, 'b', 'c'); INSERT INTO front VALUES (1, 10)`)
    await world.sql('ALTER TABLE front RENAME TO was; ALTER TABLE back RENAME TO front; ALTER TABLE was RENAME TO back')
    await world.sql(after)
    const { events } = await world.take('swaps', position, streams)
    checkRows(events)
    assert.deepEqual(rereadsOf(events), [0, 1])
    await world.log.release({ capture: 'swaps', signal })
    await world.sql('DROP TABLE front, back')
  }
})

test('rows of before an alteration that come after a checkpoint come in the shape of before', async () => {
  await world.make('CREATE TABLE long (id int PRIMARY KEY, v text)', 'long')
  const streams = [stream('long', 'id')]
  const { position } = await world.log.prepare({ capture: 'longs', streams, signal })
  for (const id of [1, 2]) await world.sql(`INSERT INTO long VALUES (${id}, repeat('x', 1500000))`)
  await world.sql('ALTER TABLE long ADD x int')
  const { events } = await world.take('longs', position, streams)
  assert.ok(events.filter(({ kind }) => kind === 'checkpoint').length > 1)
  checkRows(events)
  assert.deepEqual(rereadsOf(events), [0])
  await world.log.release({ capture: 'longs', signal })
})

test('a reading that hears nothing any more ends', async () => {
  await world.make('CREATE TABLE quiet (id int PRIMARY KEY, t text)', 'quiet')
  const streams = [stream('quiet', 'id')]
  const host = sourceHost()
  const clock: Clock = {
    ...host.clock,
    every(everyMs, run) {
      if (everyMs < 60_000) return () => undefined
      // Twice at once: between them no server says anything.
      const timer = setInterval(() => [run(), run()], 1)
      return () => clearInterval(timer)
    },
  }
  const connector = createConnector(parseSettings(world.source.settings), { ...host, clock })
  const log = connector.changes as ChangeSource
  const { position } = await world.log.prepare({ capture: 'quiet', streams, signal })
  // More than comes in a few turns of the loop, so that the clock has its turn.
  await world.sql("INSERT INTO quiet SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i")
  await assert.rejects(take(log, 'quiet', position, streams), { kind: 'TRANSIENT', code: 'source_timeout' })
  await connector.close()
  await world.log.release({ capture: 'quiet', signal })
})
