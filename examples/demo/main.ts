/**
 * Everything the product is for, end to end: a source database with real data, a tenant, three data products, and
 * reads through all four kinds of endpoints, as a developer and as a viewer. What is read is compared with what SQL on
 * the source gives. `--keep` leaves it running. `--live` shows another thing: rows that change all the time, see live.ts.
 */
import { strict as assert } from 'node:assert'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { Api, deploy, type Json, sync, upload } from './api.ts'
import { endProcess, freePort, type Server, startServer } from './server.ts'
import { type DemoSource, startSource } from './source.ts'
import { step } from './step.ts'

const startedAt = performance.now()

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
  const archetype = name === 'routes' ? 'aggregate' : 'source_aligned'
  const id = await step(`register ${namespace}.${name}, upload six manifests`, () =>
    upload(developer, namespace, name, archetype),
  )
  await step(
    '  deploy 1.0.0, dry run',
    () => deploy(developer, id, true),
    (plan) => `${plan['verdict'] ?? plan['plan']?.verdict ?? 'plan'}`,
  )
  await step('  deploy 1.0.0', () => deploy(developer, id, false))
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
  { server, wirePort, source }: { readonly server: Server; readonly wirePort: number; readonly source: DemoSource },
  tokens: { readonly developer: string; readonly viewer: string },
) {
  return `
Server     ${server.url}
Reference  ${server.url}/docs
Source     ${JSON.stringify(loginOf(source))}

In another terminal, in this folder:
  export SLUICE_URL=${server.url}
  export VIEWER=${tokens.viewer}
  export DEVELOPER=${tokens.developer}
  export SLUICE_TOKEN=$DEVELOPER
  export PGHOST=127.0.0.1 PGPORT=${wirePort} PGDATABASE=acme PGUSER=me
  npx sluice product list
  npx sluice query 'SELECT plan, count(*) AS people FROM crm.people GROUP BY 1'
Ctrl-C ends it.`
}

/** Of the source, as connections take it. */
function loginOf({ server, password }: DemoSource): Json {
  const { host, port, database } = server.tcpAddress
  return { host, port, database, user: 'reader', password, ssl_mode: 'disable' }
}

async function walkThrough(keep: boolean): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-demo-'))
  const dataDirectory = join(folder, 'data')
  const wirePort = await freePort()
  const [source, server] = await step(
    'start a source database and the server',
    () =>
      Promise.all([
        startSource(join(folder, 'source'), randomBytes(12).toString('hex')),
        startServer(dataDirectory, { env: { SLUICE_WIRE__PORT: String(wirePort) } }),
      ]),
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
      console.log(whereItIs({ server, wirePort, source }, tokens))
      await new Promise((resolve) => {
        // Whoever closes the terminal ends it, too: server and source must not stay behind.
        for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, resolve)
      })
    }
  } finally {
    await endProcess(server.process, 'SIGTERM')
    await source.close()
    await rm(folder, { recursive: true, force: true })
  }
}

const USAGE = 'npm run demo -- [--keep] [--live [--seconds N]]'

function asked() {
  try {
    const { values } = parseArgs({
      options: { keep: { type: 'boolean' }, live: { type: 'boolean' }, seconds: { type: 'string', default: '60' } },
    })
    const seconds = Number(values.seconds)
    if (!(seconds >= 5 && seconds <= 86_400)) throw new Error('--seconds is a number from 5 to 86400')
    return { keep: values.keep ?? false, live: values.live ?? false, seconds }
  } catch (error) {
    console.error(`${(error as Error).message}
${USAGE}`)
    return null
  }
}

const options = asked()
if (options === null) process.exitCode = 2
else if (!options.live) await walkThrough(options.keep)
else process.exitCode = await (await import('./live.ts')).showLive(options)
