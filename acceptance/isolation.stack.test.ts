/**
 * Ten thousand reads of many tenants at once, over every endpoint type, with refused and abandoned ones among them. All
 * tenants have products of the same names with the same keys; each cell says whose it is.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { Agent, request } from 'node:http'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { Client, type Json, manifests } from './client.ts'
import { type Deployment, openDeployment } from './deployment.ts'

const suffix = randomBytes(4).toString('hex')
const TENANTS = Array.from({ length: 6 }, (_, index) => `iso${index}-${suffix}`)
const HISTORIES = [
  '',
  ', history_mode: type_2, tracked_columns: [city]',
  ', history_mode: type_3, tracked_columns: [city]',
]
const KEYS = 40
const CITIES = 4
const READS = 10_000
const AT_ONCE = 32

let deployment: Deployment
let admin: Client
let source: pg.Pool
const tokens = new Map<string, string>()
const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE * 2 })

before(async () => {
  deployment = await openDeployment()
  admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  source = new pg.Pool({ ...deployment.source, max: 4 })
  for (const tenant of TENANTS) tokens.set(tenant, await tokenOf(tenant, 'svc-viewers', 'vito'))
  await Promise.all(TENANTS.map((tenant, index) => onboard(tenant, index)))
})

after(async () => {
  agent.destroy()
  for (const tenant of TENANTS) await admin?.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
  await source?.end()
  await deployment?.stop()
})

function tokenOf(tenant: string, group: string, user: string): Promise<string> {
  return deployment.token(['--tenant', tenant, '--group', group, '--user', user])
}

/** Every second tenant's table has a column more; histories differ. */
async function onboard(tenant: string, index: number): Promise<void> {
  const table = `iso_${index}`
  const extra = index % 2 === 1
  await source.query(`DROP TABLE IF EXISTS ${table};
    CREATE TABLE ${table} AS SELECT i AS id, '${tenant}:mail:' || i AS email, '${tenant}:city:' || i % ${CITIES} AS city,
      '${tenant}:' || i AS note, '2026-01-01T00:00Z'::timestamptz + i * interval '1 hour' AS seen_at
      ${extra ? `, '${tenant}:more' AS more` : ''} FROM generate_series(1, ${KEYS}) i;
    ALTER TABLE ${table} ADD PRIMARY KEY (id)`)
  await admin.post('/api/v1/tenants', { slug: tenant, display_name: tenant, tier: 'standard' })
  const developer = new Client(deployment.url, await tokenOf(tenant, 'svc-developers', 'dora'))
  const { host, port, user, password, database } = deployment.source
  const config = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  await developer.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: config })
  await developer.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'source_aligned' })
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: note, type: string }
  - { name: seen_at, type: timestamptz }
${extra ? '  - { name: more, type: string }\n' : ''}`
  const endpoints = `  - type: lookup
    config: { index_columns: [id, city]${HISTORIES[index % HISTORIES.length]} }
  - type: timeseries
    config: { time_column: seen_at }
  - type: realtime
    config: { key_template: "p:{id}" }
  - type: analytics
`
  await developer.upload('/api/v1/products/people/manifests', manifests(`public.${table}`, { columns, endpoints }))
  const deployed = await developer.post('/api/v1/products/people/deploy', { version: '1.0.0', dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
  const { body } = await developer.post('/api/v1/connections/db/sync')
  assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
}

interface Read {
  readonly path: string
  readonly status: number
  readonly body?: string
  /** How many rows a good answer has. */
  readonly rows?: number
}

const latest = (query: string) => `/api/v1/products/people/latest?${query}`

/** Every kind of read, by its number; the same for all tenants. */
function readOf(turn: number): Read {
  const id = 1 + (turn % KEYS)
  if (turn % 500 === 0) return queryOf(`SELECT * FROM crm.people WHERE id = ${id}`, 200, 1)
  if (turn % 500 === 250) return queryOf('SELECT CAST(note AS integer) FROM crm.people', 400)
  if (turn % 20 === 10) return manyOf(id)
  switch (turn % 10) {
    case 0:
    case 1:
    case 2:
      return { path: latest(`filter=id:${id}`), status: 200, rows: 1 }
    case 3:
      return { path: latest('limit=7&order=id'), status: 200, rows: 7 }
    case 4:
    case 5:
      return { path: `/api/v1/products/people/realtime?key=p:${id}`, status: 200, rows: 1 }
    case 6:
      return { path: '/api/v1/products/people/timeseries?from=2026-01-01&to=2026-01-01', status: 200, rows: 23 }
    case 7:
      return { path: latest('filter=email:nobody'), status: 403 }
    case 8:
      return { path: '/api/v1/products/people/realtime?key=p:0', status: 404 }
    default:
      return { path: latest(`filter=id:${'9'.repeat(30)}`), status: 400 }
  }
}

/** By keys of both stores, some of which are not there. */
function manyOf(id: number): Read {
  const [lookup, realtime] = [
    [id, 0, 1 + (id % KEYS)],
    [`p:${id}`, 'p:0'],
  ]
  const items = Object.entries({ lookup, realtime }).map(([store, keys]) => ({ product: 'crm.people', store, keys }))
  return { path: '/api/v1/read', status: 200, body: JSON.stringify({ items }), rows: 3 }
}

function queryOf(sql: string, status: number, rows?: number): Read {
  return { path: '/api/v1/query', status, body: JSON.stringify({ sql }), ...(rows === undefined ? {} : { rows }) }
}

interface Taken {
  readonly status: number
  readonly text: string
}

/** Null where the read was abandoned, a little after it was sent. */
function send(tenant: string, read: Read, abandonAfterMs: number | null): Promise<Taken | null> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${tokens.get(tenant)}`,
      ...(read.body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    const method = read.body === undefined ? 'GET' : 'POST'
    const outgoing = request(`${deployment.url}${read.path}`, { agent, method, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', (error) => (abandonAfterMs === null ? reject(error) : resolve(null)))
    })
    outgoing.on('error', (error) => (abandonAfterMs === null ? reject(error) : resolve(null)))
    if (abandonAfterMs !== null) setTimeout(() => outgoing.destroy(), abandonAfterMs)
    outgoing.end(read.body)
  })
}

function rowsOf(body: Json): readonly Json[] {
  if (body.data?.[0]?.rows) return body.data.flatMap(({ rows }: Json) => rows.filter((row: Json) => row !== null))
  if (body.rows === undefined) return body.data
  const names: readonly string[] = body.columns.map((column: Json) => column.name)
  return body.rows.map((row: Json) => Object.fromEntries(names.map((name, index) => [name, row[index]])))
}

function checkRows(tenant: string, index: number, read: Read, text: string): void {
  const rows = rowsOf(JSON.parse(text))
  assert.equal(rows.length, read.rows, `${tenant} ${read.path}`)
  for (const row of rows) {
    assert.equal(row.note, `${tenant}:${row.id}`)
    assert.equal(row.city, `${tenant}:city:${row.id % CITIES}`)
    assert.match(row.email, /^[0-9a-f]{32}$/)
    assert.equal(row.more, index % 2 === 1 ? `${tenant}:more` : undefined)
  }
}

it('gives each tenant its own rows and nothing of another in 10,000 interleaved reads', async () => {
  const seen = { good: 0, refused: 0, abandoned: 0 }
  let turn = 0
  const reader = async (): Promise<void> => {
    while (turn < READS) {
      const now = turn
      turn += 1
      const index = (now * 7 + Math.floor(now / 11)) % TENANTS.length
      const tenant = TENANTS[index] as string
      const read = readOf(now)
      const taken = await send(tenant, read, now % 37 === 0 ? now % 5 : null)
      if (taken === null) {
        seen.abandoned += 1
        continue
      }
      assert.equal(taken.status, read.status, `${tenant} ${read.path}: ${taken.text}`)
      for (const other of TENANTS)
        if (other !== tenant) assert.ok(!taken.text.includes(other), `${tenant} saw ${other}`)
      if (taken.status === 200) checkRows(tenant, index, read, taken.text)
      seen[taken.status === 200 ? 'good' : 'refused'] += 1
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, reader))
  assert.ok(seen.good > READS / 2, JSON.stringify(seen))
  assert.ok(seen.refused > READS / 5, JSON.stringify(seen))
  assert.ok(seen.abandoned > 0, JSON.stringify(seen))
})
