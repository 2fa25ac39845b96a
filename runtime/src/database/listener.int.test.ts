import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { until, withLimits } from '../../../test/until.ts'
import { openListener } from './listener.ts'
import { startTestPostgres } from './testing.ts'

const database = await (await startTestPostgres()).createDatabase()
const pool = database.pool()
after(() => database.drop())

it('hears, tells when it cannot, and hears again', async () => {
  const heard: string[] = []
  const told: string[] = []
  const listener = openListener(database.address, {
    applicationName: 'listening',
    channels: { bell: (payload) => heard.push(payload) },
    onReady: () => told.push('ready'),
    onLost: () => told.push('lost'),
    // No answer is late: the connection is lost where it is ended.
    heartbeatMs: 600_000,
  })
  await until('it listens', () => listener.isListening)
  await pool.query(`select pg_notify('bell', 'one')`)
  await pool.query(`select pg_notify('other', 'unheard')`)
  await until('it hears', () => heard.length === 1)
  await pool.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'listening'`)
  await until('it listens again', () => told.length === 3)
  assert.deepEqual(told, ['ready', 'lost', 'ready'])
  await pool.query(`select pg_notify('bell', 'two')`)
  await until('it hears again', () => heard.length === 2)
  assert.deepEqual(heard, ['one', 'two'])
  await listener.close()
  assert.deepEqual(told, ['ready', 'lost', 'ready'])
})

it('takes a server that answers no more for a loss', async () => {
  await withLimits([100, 1_000, 10_000, 60_000], async (heartbeatMs) => {
    const told: string[] = []
    const applicationName = `waiting for ${heartbeatMs}`
    const listener = openListener(database.address, {
      applicationName,
      channels: { bell: () => undefined },
      onReady: () => told.push('ready'),
      onLost: () => told.push('lost'),
      heartbeatMs,
    })
    try {
      await until('it listens', () => listener.isListening)
      const backends = await pool.query<{ pid: number }>(
        'select pid from pg_stat_activity where application_name = $1',
        [applicationName],
      )
      assert.equal(backends.rowCount, 1, 'the server answered in time until it was stopped')
      const pid = backends.rows[0]?.pid ?? 0
      process.kill(pid, 'SIGSTOP')
      try {
        await until('the loss is told', () => told.includes('lost'))
        await until('it listens again', () => told.length >= 3)
      } finally {
        process.kill(pid, 'SIGCONT')
      }
      assert.deepEqual(told, ['ready', 'lost', 'ready'])
    } finally {
      await listener.close()
    }
  })
})
