import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { startTestPostgres } from '../database/testing.ts'
import { cautiousNowMs, setForwardMs } from './clock.ts'

const DAYS_MS = 10 * 24 * 3_600_000
const database = await (await startTestPostgres()).createDatabase()
const pool = database.pool({ maxConnections: 1 })
const { now } = Date
after(() => database.drop())

/** The machine's clock and that of a database on it, off by so much. */
async function atClocks<T>(machineMs: number, databaseMs: number, look: () => Promise<T>): Promise<T> {
  await pool.query(`create schema moved; create function moved.clock_timestamp() returns timestamptz language sql as
    $$ select pg_catalog.clock_timestamp() + make_interval(secs => ${databaseMs / 1000}) $$`)
  await pool.query('set search_path = moved, pg_catalog')
  Date.now = () => now() + machineMs
  try {
    return await look()
  } finally {
    Date.now = now
    await pool.query('reset search_path')
    await pool.query('drop schema moved cascade')
  }
}

it('takes nothing for older than it is, whichever clocks were set forward', async () => {
  for (const [machineMs, databaseMs, expectedMs] of [
    [0, 0, 0],
    [DAYS_MS, 0, 0],
    [0, DAYS_MS, 0],
    [DAYS_MS, DAYS_MS, 0],
    [-DAYS_MS, 0, -DAYS_MS],
    [0, -DAYS_MS, -DAYS_MS],
  ] as const) {
    const seen = await atClocks(machineMs, databaseMs, () => cautiousNowMs(pool))
    assert.ok(Math.abs(seen - now() - expectedMs) < DAYS_MS / 2, `${machineMs} ${databaseMs}: ${new Date(seen)}`)
  }
})

it('knows by how much the machine’s clock was set forward', async () => {
  const forwardMs = await atClocks(DAYS_MS, 0, async () => setForwardMs())
  assert.ok(Math.abs(forwardMs - DAYS_MS) < DAYS_MS / 2, String(forwardMs))
  assert.ok(Math.abs(setForwardMs()) < DAYS_MS / 2)
})
