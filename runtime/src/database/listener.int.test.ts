import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openListener } from './listener.ts'
import { startTestPostgres } from './testing.ts'

const database = await (await startTestPostgres()).createDatabase()
const pool = database.pool()
after(() => database.drop())

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(10)
}

it('hears, tells when it cannot, and hears again', { timeout: 60_000 }, async () => {
  const heard: string[] = []
  const told: string[] = []
  const listener = openListener(database.address, {
    applicationName: 'listening',
    channels: { bell: (payload) => heard.push(payload) },
    onReady: () => told.push('ready'),
    onLost: () => told.push('lost'),
  })
  await until(() => listener.isListening)
  await pool.query(`select pg_notify('bell', 'one')`)
  await pool.query(`select pg_notify('other', 'unheard')`)
  await until(() => heard.length === 1)
  await pool.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'listening'`)
  await until(() => told.length === 3)
  assert.deepEqual(told, ['ready', 'lost', 'ready'])
  await pool.query(`select pg_notify('bell', 'two')`)
  await until(() => heard.length === 2)
  assert.deepEqual(heard, ['one', 'two'])
  await listener.close()
  assert.deepEqual(told, ['ready', 'lost', 'ready'])
})

it('takes a server that answers no more for a loss', { timeout: 60_000 }, async () => {
  const told: string[] = []
  const listener = openListener(database.address, {
    applicationName: 'waiting',
    channels: { bell: () => undefined },
    onReady: () => told.push('ready'),
    onLost: () => told.push('lost'),
    heartbeatMs: 100,
  })
  await until(() => listener.isListening)
  const { rows } = await pool.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'waiting'`,
  )
  const pid = rows[0]?.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  try {
    await until(() => told.includes('lost'))
    await until(() => told.length === 3)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  assert.deepEqual(told, ['ready', 'lost', 'ready'])
  await listener.close()
})
