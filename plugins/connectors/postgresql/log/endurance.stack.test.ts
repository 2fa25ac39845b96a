import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type LogWorld, NEVER as signal, startLogWorld, stream } from './log-world.fixture.ts'
import { makeTables, proveEqual } from './random-writers.fixture.ts'

const SEEDS = 6
const ROWS = 300_000
let world: LogWorld

before(async () => {
  world = await startLogWorld()
  await makeTables(world)
})
after(() => world?.stop())

test('whatever is written while it is read, and wherever a reading stops, the tables are the source', async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const { committed, stops, told } = await proveEqual(world, { seed, writers: 3, transactions: 120 })
    assert.ok(committed > 100 && stops > 0, JSON.stringify([seed, committed, stops]))
    assert.ok((told.get('rows') ?? 0) > 1000)
  }
  await world.log.release({ capture: 'random', signal })
})

test('one transaction of many rows passes in bounded memory', async () => {
  await world.sql(
    `CREATE TABLE much (id int PRIMARY KEY, v text); ALTER TABLE much OWNER TO ${world.source.settings.user}`,
  )
  const streams = [stream('much', 'id')]
  const { position } = await world.log.prepare({ capture: 'much', streams, signal })
  await world.sql(`INSERT INTO much SELECT i, repeat('some text of row ' || i, 10) FROM generate_series(1, ${ROWS}) i`)
  const before = process.memoryUsage().rss
  let [rows, bytes, peak] = [0, 0, 0]
  for await (const event of world.log.changes({ capture: 'much', after: position, streams, signal })) {
    // Not before the transaction is whole.
    if (event.kind === 'checkpoint') assert.equal(rows, ROWS)
    if (event.kind !== 'rows') continue
    rows += event.rows
    bytes += event.chunk.length
    peak = Math.max(peak, process.memoryUsage().rss - before)
    // A reader that takes its time makes the server wait.
    await new Promise(setImmediate)
  }
  assert.equal(rows, ROWS)
  assert.ok(bytes > 60 << 20)
  assert.ok(peak < 160 << 20, `${peak >> 20} MiB for ${bytes >> 20} MiB of rows`)
  await world.log.release({ capture: 'much', signal })
})
