/** Two runtimes behind one address: whichever answers, the answer is the same, and either may end at any time. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Answer, type Client, type Json, manifests } from '../../acceptance/client.ts'
import { until } from '../../test/until.ts'
import { connectionTo, Fleet, serversFromEnvironment } from './fleet.ts'

const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, city] }
  - type: realtime
    config: { key_template: 'person:{id}', ttl: 24h }
  - type: analytics
`

let folder: string
let fleet: Fleet
let source: pg.Client
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-fleet-'))
  fleet = await Fleet.start(folder, serversFromEnvironment(process.env), 2)
  source = new pg.Client({ connectionString: fleet.source })
  await source.connect()
  await source.query('create table people (id integer primary key, email text, city text)')
  await source.query(
    `insert into people select n, 'p' || n || '@example.com', 'city' || n % 7 from generate_series(1, 500) n`,
  )
  await onboard()
})

after(async () => {
  await source?.end()
  await fleet?.close()
  await rm(folder, { recursive: true, force: true })
})

async function onboard(): Promise<void> {
  const admin = await fleet.client(['--role', 'admin'])
  const tenant = await admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'standard' })
  assert.equal(tenant.status, 201, JSON.stringify(tenant.body))
  developer = await fleet.client(['--tenant', 'acme', '--group', 'svc-developers', '--user', 'dora'])
  const connection = await developer.post('/api/v1/connections', connectionTo(fleet.source))
  assert.equal(connection.status, 201, JSON.stringify(connection.body))
  const wanted = { name: 'people', namespace: 'crm', archetype: 'source_aligned', description: '' }
  const { body: product } = await developer.post('/api/v1/products', wanted)
  const uploaded = await developer.upload(
    `/api/v1/products/${product.id}/manifests`,
    manifests('public.people', { endpoints: ENDPOINTS }),
  )
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const { status, body } = await developer.post(`/api/v1/products/${product.id}/deploy`, {
    version: '1.0.0',
    dry_run: false,
  })
  assert.equal(status, 201, JSON.stringify(body))
  await sync()
}

async function sync(): Promise<Json> {
  const { status, body } = await developer.post('/api/v1/connections/db/sync')
  assert.equal(status, 202, JSON.stringify(body))
  const ended = await developer.untilEnded(body.id)
  assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
  return ended
}

const READS = [
  '/api/v1/products/people/latest?filter=id:7',
  '/api/v1/products/people/realtime?key=person:7',
  '/api/v1/products',
] as const

describe('two runtimes', { timeout: 600_000 }, () => {
  it('answer alike, each its share', async () => {
    for (const path of READS) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => developer.get(path)))
      for (const { status, body } of answers) {
        assert.equal(status, 200, JSON.stringify(body))
        assert.ok(body.data.length > 0, path)
        assert.deepEqual(body.data, answers[0]?.body.data)
      }
    }
    const sql = 'select city, count(*) as people from crm.people group by city order by city'
    const queries = await Promise.all([1, 2, 3, 4].map(() => developer.post('/api/v1/query', { sql })))
    for (const { status, body } of queries) {
      assert.equal(status, 200, JSON.stringify(body))
      assert.deepEqual(body.rows, queries[0]?.body.rows)
    }
    assert.equal(fleet.front.answered.size, 2, 'both are asked')
  })

  it('serve an epoch that the other has written, as soon as its run has ended', async () => {
    const sql = 'select count(*) from crm.people where city = $1'
    for (const city of ['moved', 'moved on', 'moved back']) {
      await source.query('update people set city = $1 where id = 7', [city])
      await sync()
      const answers = await Promise.all([
        ...Array.from({ length: 4 }, () => developer.get(READS[0])),
        ...Array.from({ length: 4 }, () => developer.get(READS[1])),
      ])
      for (const { status, body } of answers) {
        assert.equal(status, 200, JSON.stringify(body))
        assert.equal(body.data[0].city, city)
      }
      // Both keep the product as these met it; the lake does not tell by itself that it went on, as the stores do.
      const queries = await Promise.all(
        [1, 2, 3, 4].map(() => developer.post('/api/v1/query', { sql, params: [city] })),
      )
      for (const { body } of queries) assert.deepEqual(body.rows, [[1]], JSON.stringify(body))
    }
  })

  it('lose no request and no run while they are restarted one after the other', async () => {
    const load = startLoad()
    const { answers, runs } = load
    const more = async () => {
      const [asked, begun] = [answers.length, runs.length]
      await until('the load goes on', () => answers.length > asked + 16 && runs.length > begun)
    }
    for (const runtime of fleet.runtimes) {
      await more()
      await runtime.stop()
      await runtime.start()
    }
    await more()
    await load.stop()
    const failed = answers.filter((answer) => !/^[234]/.test(answer))
    assert.deepEqual(failed.slice(0, 10), [], `${failed.length} of ${answers.length} requests failed`)
    assert.ok(answers.length > 50 && runs.length > 2, `${answers.length} requests, ${runs.length} runs`)
    for (const id of runs) {
      const run = await developer.untilEnded(id)
      assert.equal(run.state, 'succeeded', JSON.stringify(run))
    }
  })

  it('take up the run of one that was killed', async () => {
    await source.query(`insert into people select n, 'p' || n, 'late' from generate_series(1000, 1500) n`)
    const { body } = await developer.post('/api/v1/connections/db/sync')
    await fleet.runtimes[0]?.stop('SIGKILL')
    assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
    const found = await developer.get('/api/v1/products/people/realtime?key=person:1500')
    assert.equal(found.status, 200, JSON.stringify(found.body))
    await fleet.runtimes[0]?.start()
  })
})

/** A 503 that names a time has taken nothing on: as any client, this one asks again then. */
async function accepted(ask: () => Promise<Answer>): Promise<Answer> {
  for (let attempt = 0; ; attempt += 1) {
    const answer = await ask()
    const retryAfter = answer.headers.get('retry-after')
    if (answer.status !== 503 || retryAfter === null || attempt === 60) return answer
    await sleep(Number(retryAfter) * 1000)
  }
}

/** Readers and one who syncs, until it is stopped. */
function startLoad() {
  const answers: string[] = []
  const runs: string[] = []
  let isStopped = false
  const repeat = async (act: () => Promise<void>) => {
    while (!isStopped) await act()
  }
  const reader = (path: string) =>
    repeat(async () => {
      const { status, body } = await accepted(() => developer.get(path))
      answers.push(`${status} ${body.code ?? ''} ${path} ${status < 500 ? '' : body.detail}`)
    })
  const syncing = repeat(async () => {
    const { status, body } = await accepted(() => developer.post('/api/v1/connections/db/sync'))
    answers.push(`${status} ${body.code ?? ''} sync`)
    if (status === 202) runs.push(body.id)
    await sleep(300)
  })
  const working = Promise.all([...READS.map(reader), syncing])
  return {
    answers,
    runs,
    async stop() {
      isStopped = true
      await working
    },
  }
}
