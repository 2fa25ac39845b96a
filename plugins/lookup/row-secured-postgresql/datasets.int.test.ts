import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { ensureRegister, registerExists } from './datasets.ts'
import { type PostgresFixture, startPostgres } from './fixture.ts'
import { parseLogin } from './settings.ts'

let fixture: PostgresFixture
let pool: pg.Pool

before(async () => {
  fixture = await startPostgres()
  pool = new pg.Pool(parseLogin('owner', fixture.settings.owner).config)
})

after(async () => {
  await pool?.end()
  await fixture?.stop()
})

async function untilWaiting(pid: number): Promise<void> {
  for (const startedMs = performance.now(); performance.now() - startedMs < 300_000; await sleep(20)) {
    const waiting = await fixture.admin('select from pg_locks where pid = $1 and not granted', [pid])
    if (waiting.length > 0) return
  }
  assert.fail('nobody waits for a lock')
}

const roles = () => ({
  owner: parseLogin('owner', fixture.settings.owner).user,
  reader: parseLogin('reader', fixture.settings.reader).user,
  writer: parseLogin('writer', fixture.settings.writer).user,
})

test('two who make the register at once both find it made', async () => {
  const [first, second] = await Promise.all([pool.connect(), pool.connect()])
  try {
    const pid = (await second.query('select pg_backend_pid() as pid')).rows[0].pid as number
    await Promise.all([first.query('begin'), second.query('begin')])
    assert.equal(await registerExists(second), false)
    await ensureRegister(first, roles())
    const waiting = ensureRegister(second, roles())
    await untilWaiting(pid)
    await first.query('commit')
    await waiting
    await second.query('commit')
    assert.equal(await registerExists(second), true)
  } finally {
    for (const client of [first, second]) {
      // It ends when it comes to it; by then the server may have ended it, which nobody else would hear.
      client.on('error', () => undefined)
      client.release(true)
    }
  }
})
