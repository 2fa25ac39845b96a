/**
 * The clock of a runtime's machine, set forward and back by hours while it works: what is under way ends as it would have,
 * leases and turns go on, and the times of commits in the lake never go back.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, registerProduct, servedAt, uploadAndDeploy } from './first-steps.ts'
import { until } from './until.ts'

const JUMP_MS = 10 * 3_600_000
const TTL_S = 24 * 3600
const ENDPOINTS = '  - type: lookup\n    config: { index_columns: [id] }\n  - type: analytics\n'
const COLUMNS = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: city, type: string }\n'

let folder: string
let data: string
let clock: string
let server: EmbeddedServer
let source: pg.Client
let runtime: RuntimeProcess
let url: string
let developer: Client
let changes = 0

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-clock-'))
  data = join(folder, 'data')
  clock = join(folder, 'clock')
  await writeFile(clock, '0')
  server = await startCopiedServer(join(folder, 'source'))
  source = new pg.Client({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE people AS SELECT i AS id, 'first' AS city FROM generate_series(1, 20) i;
    ALTER TABLE people ADD PRIMARY KEY (id)`)
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, undefined, join(import.meta.dirname, 'moved-clock.ts'), {
    TEST_CLOCK_FILE: clock,
  })
  const address = await servedAt(runtime)
  url = address
  const admin = await adminOf({ url, data })
  await makeTenant(admin)
  // Issued half a day ago, so that it is good at all times that come here.
  const ann = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' } as const
  developer = new Client(url, await issueToken(data, ann, { ttlS: TTL_S, nowMs: Date.now() - JUMP_MS - 3_600_000 }))
  await connectSource(developer, server.tcpAddress)
  await registerProduct(developer, 'people')
  const files = manifests('public.people', { endpoints: ENDPOINTS, columns: COLUMNS })
  await uploadAndDeploy(developer, 'people', files)
  await change()
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

const query = (sql: string) => developer.post('/api/v1/query', { sql })

/** Another value at the source is served, in store and lake. */
async function change(): Promise<void> {
  changes += 1
  const city = `city ${changes}`
  await source.query('UPDATE people SET city = $1', [city])
  const run = await developer.untilEnded((await ok(developer.post('/api/v1/connections/db/sync'))).id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  await until('it is read', async () => {
    const { body } = await developer.get('/api/v1/products/people/latest?filter=id:7')
    return body.data?.[0]?.city === city
  })
  assert.deepEqual((await ok(query('SELECT min(city), max(city) FROM crm.people'))).rows, [[city, city]])
}

describe('a clock that is set', () => {
  for (const [way, offsetMs] of [
    ['forward', JUMP_MS],
    ['back', -JUMP_MS],
    ['right again', 0],
  ] as const) {
    it(`${way}: what is under way ends well, and what comes goes on`, async () => {
      const over = new AbortController()
      const stream = await developer.begin('/api/v1/events', { accept: 'text/event-stream' }, over.signal)
      assert.equal(stream.status, 200)
      const reader = stream.body?.getReader()
      const slow = query(
        'SELECT count(*) FROM range(3000000) a(i) JOIN range(3000000) b(j) ON a.i % 1000003 = b.j % 1000003',
      )
      const sync = ok(developer.post('/api/v1/connections/db/sync'))
      await writeFile(clock, String(offsetMs))
      const answer = await slow
      assert.equal(answer.status, 200, JSON.stringify(answer.body))
      const run = await developer.untilEnded((await sync).id)
      assert.equal(run.state, 'succeeded', JSON.stringify(run))
      await change()
      assert.equal((await reader?.read())?.done, false, 'the stream of events goes on')
      over.abort()
      const { data: past } = await ok(developer.get('/api/v1/products/people/snapshots'))
      const times = past.map((one: Json) => Date.parse(one.committed_at))
      assert.deepEqual(
        times,
        times.toSorted((a: number, b: number) => b - a),
      )
      const { freshness } = await ok(developer.get('/api/v1/products/people'))
      assert.ok(freshness.age_s >= 0, JSON.stringify(freshness))
      // Nothing is old enough to be removed, whatever that clock says.
      for (const task of ['expire', 'clean']) await ok(developer.post(`/api/v1/lake/${task}`, {}))
      assert.deepEqual((await ok(developer.post('/api/v1/lake/check', {}))).tables, [])
      assert.equal((await ok(developer.get('/api/v1/products/people/snapshots'))).data.length, past.length)
      assert.equal((await fetch(`${url}/readyz`)).status, 200)
    })
  }
})
