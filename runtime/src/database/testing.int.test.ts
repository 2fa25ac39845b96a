import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { it } from 'node:test'
import { parseAddress } from './address.ts'
import { startTestPostgres } from './testing.ts'

const MIGRATIONS = [{ name: 'a', migrations: [{ id: '1', sql: 'create table a as select 1 as n' }] }]

it('uses the server that a test run started, which ends with its input and leaves nothing', async () => {
  const script = new URL('./test-server.ts', import.meta.url).pathname
  const server = spawn(process.execPath, [script], { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = once(server, 'exit')
  const [line] = await once(server.stdout, 'data')
  const { url } = JSON.parse(String(line)) as { url: string }
  process.env.SLUICE_TEST_POSTGRES_URL = url
  const postgres = await startTestPostgres()
  assert.equal(postgres.admin.host, parseAddress(url).host)
  assert.equal(await startTestPostgres(), postgres)
  // What is defined after one promise was awaited in two suites would be the first one's, or lost where that has ended.
  assert.notEqual(startTestPostgres(), startTestPostgres())

  const databases = await Promise.all(
    Array.from({ length: 4 }, () => postgres.createDatabase({ migrations: MIGRATIONS })),
  )
  for (const [index, database] of databases.entries()) {
    await database.pool().query('insert into a values ($1)', [index])
    assert.deepEqual((await database.pool().query('select n from a')).rows, [{ n: 1 }, { n: index }])
  }
  await Promise.all(databases.map((database) => database.drop()))

  server.stdin.end()
  assert.deepEqual(await exited, [0, null])
  assert.equal(existsSync(postgres.admin.host), false)
})
