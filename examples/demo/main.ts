/**
 * Everything the product is for, end to end: a source database with real data, a tenant, three data products, and
 * reads through all four kinds of endpoints, as a developer and as a viewer. What is read is compared with what SQL on
 * the source gives. `--keep` leaves it running.
 */
import { strict as assert } from 'node:assert'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { type DemoSource, startSource } from './source.ts'

const keep = process.argv.includes('--keep')
const startedAt = performance.now()
let stepCount = 0

async function step<T>(what: string, run: () => Promise<T>, say: (result: T) => string = () => ''): Promise<T> {
  const start = performance.now()
  const result = await run()
  stepCount += 1
  const seconds = ((performance.now() - start) / 1000).toFixed(2)
  console.log(`${String(stepCount).padStart(2)}. ${what.padEnd(44)} ${seconds.padStart(6)} s  ${say(result)}`)
  return result
}

interface Server {
  readonly url: string
  readonly process: ChildProcess
}

/** The same command as `npm start`, on a folder and a port of its own. */
async function startServer(dataDirectory: string): Promise<Server> {
  const launcher = join(import.meta.dirname, '../../runtime/bin/sluice.js')
  const child = spawn(process.execPath, [launcher, 'start', '--data-dir', dataDirectory, '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, SLUICE_LOG__LEVEL: 'warn' },
  })
  const address = join(dataDirectory, 'runtime.json')
  for (let attempt = 0; attempt < 1200; attempt += 1) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`)
    const text = await readFile(address, 'utf8').catch(() => null)
    if (text) return { url: (JSON.parse(text) as { url: string }).url, process: child }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the server did not start within two minutes')
}

async function stopServer(server: Server): Promise<void> {
  if (server.process.exitCode !== null) return
  const ended = new Promise((resolve) => server.process.once('exit', resolve))
  server.process.kill('SIGTERM')
  await ended
}

// biome-ignore lint/suspicious/noExplicitAny: answers are checked where they are used
type Json = Record<string, any>

class Api {
  readonly #url: string
  readonly #token: string
  readonly #tenant: string | null

  /** `tenant` is for administrators, who have none of their own. */
  constructor(url: string, token: string, tenant: string | null = null) {
    this.#url = url
    this.#token = token
    this.#tenant = tenant
  }

  get(path: string): Promise<Json> {
    return this.#send(path, {})
  }

  post(path: string, body?: unknown): Promise<Json> {
    const json = { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
    return this.#send(path, { method: 'POST', ...(body === undefined ? {} : json) })
  }

  async upload(path: string, folder: string): Promise<Json> {
    const form = new FormData()
    for (const part of ['product', 'inputs', 'output', 'quality', 'serving', 'compute']) {
      form.append(part, new Blob([await readFile(join(folder, `${part}.yaml`), 'utf8')]), `${part}.yaml`)
    }
    return this.#send(path, { method: 'POST', body: form })
  }

  async refused(path: string, status: number): Promise<Json> {
    const response = await fetch(`${this.#url}${path}`, { headers: { authorization: `Bearer ${this.#token}` } })
    assert.equal(response.status, status, `${path} should be refused with ${status}`)
    return (await response.json()) as Json
  }

  async #send(path: string, init: RequestInit): Promise<Json> {
    const tenant = this.#tenant === null ? {} : { 'x-tenant-id': this.#tenant }
    const headers = { ...init.headers, ...tenant, authorization: `Bearer ${this.#token}` }
    const response = await fetch(`${this.#url}${path}`, { ...init, headers })
    const answer = (await response.json()) as Json
    if (!response.ok) throw new Error(`${init.method ?? 'GET'} ${path} → ${response.status} ${JSON.stringify(answer)}`)
    return answer
  }
}

async function onboard(admin: Api, developer: Api, source: DemoSource): Promise<void> {
  await step(
    'create the tenant "acme"',
    () => admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme Corp.', tier: 'standard' }),
    (tenant) => `${tenant['status']}: schema, bucket, topics, catalog ${tenant['resources']?.catalog}`,
  )
  const connection = await step('register the connection "warehouse"', () =>
    developer.post('/api/v1/connections', {
      name: 'warehouse',
      connector_type: 'postgresql',
      config_encrypted: JSON.stringify(loginOf(source)),
    }),
  )
  await step(
    'test it',
    () => developer.post(`/api/v1/connections/${connection['id']}/test`),
    (test) => `${test['checks'].map((check: Json) => check['name']).join(', ')}: ok=${test['ok']}`,
  )
  await step(
    'discover its tables',
    () => developer.get('/api/v1/connections/warehouse/discover'),
    (found) => found['tables'].map((table: Json) => table['name']).join(', '),
  )
  for (const [namespace, name] of PRODUCTS) await deployProduct(developer, namespace, name)
  await step(
    'sync the connection',
    () => sync(developer, connection['id']),
    (run) => run['tables'].map((table: Json) => `${table['name']} ${table['rows_written']}`).join(', '),
  )
}

const PRODUCTS = [
  ['crm', 'people'],
  ['market', 'stocks'],
  ['aviation', 'routes'],
] as const

async function deployProduct(developer: Api, namespace: string, name: string): Promise<void> {
  const folder = join(import.meta.dirname, 'products', name)
  const product = await step(`register ${namespace}.${name}, upload six manifests`, async () => {
    const archetype = name === 'routes' ? 'aggregate' : 'source_aligned'
    const created = await developer.post('/api/v1/products', { name, namespace, archetype, description: '' })
    await developer.upload(`/api/v1/products/${created['id']}/manifests`, folder)
    return created
  })
  await step(
    '  deploy 1.0.0, dry run',
    () => developer.post(`/api/v1/products/${product['id']}/deploy`, { version: '1.0.0', dry_run: true }),
    (plan) => `${plan['verdict'] ?? plan['plan']?.verdict ?? 'plan'}`,
  )
  await step('  deploy 1.0.0', () =>
    developer.post(`/api/v1/products/${product['id']}/deploy`, { version: '1.0.0', dry_run: false }),
  )
}

async function sync(developer: Api, connectionId: string): Promise<Json> {
  const started = await developer.post(`/api/v1/connections/${connectionId}/sync`)
  for (;;) {
    const run = await developer.get(`/api/v1/ingestion/${started['id']}`)
    if (run['state'] === 'succeeded') return run
    if (run['state'] !== 'queued' && run['state'] !== 'running')
      throw new Error(`the sync failed: ${JSON.stringify(run)}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const PII_COLUMNS = ['email', 'full_name'] as const

async function readEverything(who: string, reader: Api, source: DemoSource, cleared: boolean): Promise<void> {
  const person = (await source.client.query('SELECT * FROM people WHERE person_no = 42')).rows[0]
  await step(
    `${who}: lookup, person 42`,
    () => reader.get('/api/v1/products/people/latest?filter=person_no:42'),
    (answer) => {
      const row = answer['data'][0]
      assert.equal(row.city, person.city)
      for (const name of PII_COLUMNS) assert.equal(row[name] === person[name], cleared, `${name} is seen as cleared`)
      assert.deepEqual([...answer['meta'].masked_columns].sort(), cleared ? [] : PII_COLUMNS)
      const { full_name: fullName, email, city, plan } = row
      return JSON.stringify({ full_name: fullName, email, city, plan })
    },
  )
  await step(
    `${who}: realtime, key person:42`,
    () => reader.get('/api/v1/products/people/realtime?key=person:42'),
    (answer) => {
      const [row] = answer['data']
      assert.equal(row.full_name === person.full_name, cleared, 'the name is seen as cleared')
      return `${JSON.stringify(row)}, ${answer['meta'].ttl_remaining_s} s left`
    },
  )
  await readStocks(who, reader, source)
  await readRoutes(who, reader, source)
}

async function readStocks(who: string, reader: Api, source: DemoSource): Promise<void> {
  const truth = await source.client.query(
    "SELECT count(*)::int AS n, sum(price)::text AS total FROM stocks WHERE day >= '2008-01-01' AND day < '2009-01-01'",
  )
  await step(
    `${who}: timeseries, stocks of 2008`,
    () => reader.get('/api/v1/products/stocks/timeseries?from=2008-01-01&to=2008-12-31'),
    (answer) => {
      assert.equal(answer['data'].length, truth.rows[0].n)
      const cents = answer['data'].reduce((sum: number, row: Json) => sum + Math.round(Number(row['price']) * 100), 0)
      assert.equal((cents / 100).toFixed(2), truth.rows[0].total)
      return `${answer['data'].length} prices, total ${truth.rows[0].total}, as in the source`
    },
  )
}

async function readRoutes(who: string, reader: Api, source: DemoSource): Promise<void> {
  const truth = await source.client.query(
    'SELECT origin, count(*)::int AS n FROM flights GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3',
  )
  const sql = 'SELECT origin, sum(flights) AS n FROM aviation.routes GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3'
  await step(
    `${who}: analytics, busiest airports by SQL`,
    () => reader.post('/api/v1/query', { sql }),
    (answer) => {
      const rows = answer['rows'].map(([origin, n]: [string, unknown]) => ({ origin, n: Number(n) }))
      assert.deepEqual(rows, truth.rows)
      return rows.map((row: Json) => `${row['origin']} ${row['n']}`).join(', ')
    },
  )
}

/** What somebody needs who looks around, in a form that can be copied into another terminal. */
function whereItIs(
  server: Server,
  source: DemoSource,
  tokens: { readonly developer: string; readonly viewer: string },
) {
  return `
Server     ${server.url}
Reference  ${server.url}/docs
Source     ${JSON.stringify(loginOf(source))}
Developer  ${tokens.developer}
Viewer     ${tokens.viewer}

In another terminal, in this folder, as the developer:
  export SLUICE_URL=${server.url} SLUICE_TOKEN=${tokens.developer}
  npx sluice product list
  npx sluice query 'SELECT plan, count(*) AS people FROM crm.people GROUP BY 1'
Ctrl-C ends it.`
}

/** Of the source, as connections take it. */
function loginOf({ server, password }: DemoSource): Json {
  const { host, port, database } = server.tcpAddress
  return { host, port, database, user: 'reader', password, ssl_mode: 'disable' }
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-demo-'))
  const dataDirectory = join(folder, 'data')
  const [source, server] = await step(
    'start a source database and the server',
    () =>
      Promise.all([startSource(join(folder, 'source'), randomBytes(12).toString('hex')), startServer(dataDirectory)]),
    ([, started]) => started.url,
  )
  const token = (group: string, user: string) =>
    issueToken(dataDirectory, { tenant: 'acme', groups: [group], user }, { ttlS: 3600 })
  const tokens = {
    admin: await issueToken(dataDirectory, { role: 'admin' }, { ttlS: 3600 }),
    developer: await token('svc-developers', 'dora'),
    viewer: await token('svc-viewers', 'vito'),
  }
  try {
    const developer = new Api(server.url, tokens.developer)
    const viewer = new Api(server.url, tokens.viewer)
    await onboard(new Api(server.url, tokens.admin), developer, source)
    await readEverything('viewer', viewer, source, false)
    const clearance = { subject: { user: 'dora' }, may: 'unmask', classes: ['*'] }
    await step('an administrator clears the developer', () =>
      new Api(server.url, tokens.admin, 'acme').post('/api/v1/products/people/grants', clearance),
    )
    await readEverything('developer', developer, source, true)
    await step('viewer: may not deploy or create', async () => {
      const refused = await viewer.post('/api/v1/products', { name: 'x', namespace: 'y', archetype: 'aggregate' }).then(
        () => assert.fail('a viewer must not create products'),
        (error: Error) => error,
      )
      assert.match(refused.message, /403/)
      await viewer.refused('/api/v1/products/people/latest?filter=email:a@example.com', 403)
    })
    console.log(
      `\nAll of it in ${((performance.now() - startedAt) / 1000).toFixed(1)} s; every value agrees with the source.`,
    )
    if (keep) {
      console.log(whereItIs(server, source, tokens))
      await new Promise((resolve) => {
        // Whoever closes the terminal ends it, too: server and source must not stay behind.
        for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, resolve)
      })
    }
  } finally {
    await stopServer(server)
    await source.close()
    await rm(folder, { recursive: true, force: true })
  }
}

await main()
