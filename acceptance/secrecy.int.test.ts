/** What readers without clearance must not learn by any path, told by values that can be found in any answer. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { type Answer, Client, type Json, manifests } from './client.ts'
import { type Deployment, openDeployment } from './deployment.ts'

const tenant = `secrecy-${randomBytes(4).toString('hex')}`

let deployment: Deployment
let admin: Client
let developer: Client
let viewer: Client
let source: pg.Client

before(async () => {
  deployment = await openDeployment()
  source = new pg.Client(deployment.source)
  await source.connect()
  await source.query(`DROP TABLE IF EXISTS secrets;
    CREATE TABLE secrets (id integer PRIMARY KEY, secret text, name text, n integer);
    INSERT INTO secrets SELECT i, 'SECRET-' || i, 'NAME-' || i, i FROM generate_series(1, 20) i;
    INSERT INTO secrets VALUES (100, 'SECRET-bad', 'NAME-bad', -5);
    DROP TABLE IF EXISTS later_secrets;
    CREATE TABLE later_secrets (id integer PRIMARY KEY, amount numeric(6,3), n integer, seen timestamptz);
    INSERT INTO later_secrets SELECT i, i + 0.125, i - 2, CASE WHEN i > 4 THEN now() END FROM generate_series(1, 9) i`)
  const token = (...flags: string[]) => deployment.token(flags)
  admin = new Client(deployment.url, await token('--role', 'admin'))
  developer = new Client(deployment.url, await token('--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'))
  viewer = new Client(deployment.url, await token('--tenant', tenant, '--group', 'svc-viewers', '--user', 'vito'))
  await admin.post('/api/v1/tenants', { slug: tenant, display_name: tenant, tier: 'standard' })
  const { host, port, user, password, database } = deployment.source
  const config = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  await developer.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: config })
  await developer.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'source_aligned' })
})

after(async () => {
  await admin?.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
  await source?.end()
  await deployment?.stop()
})

const product = '/api/v1/products/crm.people'
const query = (sql: string): Promise<Answer> => viewer.post('/api/v1/query', { sql })

/** Deploys with that class of the column `secret`, and waits for what the deploy starts. */
async function deploy(version: string, secretClass: string): Promise<void> {
  const files = manifests('public.secrets', {
    columns: `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: secret, type: string, classification: ${secretClass} }
  - { name: name, type: string, classification: pii.name }
  - { name: n, type: integer }
`,
    endpoints: '  - type: lookup\n  - type: analytics\n',
  })
  const quality = `apiVersion: svc/v1\nkind: Quality\nchecks:\n  - name: positive\n    range: { column: n, min: 0 }\n    on_error: quarantine\n`
  const uploaded = await developer.upload(`${product}/manifests`, { ...files, quality })
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const deployed = await developer.post(`${product}/deploy`, { version, dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
  if (deployed.body.run_id !== null) await developer.untilEnded(deployed.body.run_id)
}

async function sync(): Promise<void> {
  const { body } = await developer.post('/api/v1/connections/db/sync')
  assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
}

describe('the key of a tenant’s secrets', () => {
  it('may be changed under connections that are in use', async () => {
    const rotated = await admin.post(`/api/v1/tenants/${tenant}/rotate-key`)
    assert.deepEqual([rotated.status, rotated.body], [200, { tenant_id: tenant, resealed_secrets: 1 }])
    const tested = await developer.post('/api/v1/connections/db/test')
    assert.equal(tested.body.ok, true, JSON.stringify(tested.body))
    const { body } = await developer.get('/api/v1/audit')
    assert.ok(JSON.stringify(body).includes('tenant.rotate_key'))
  })
})

describe('rows that a check put aside', () => {
  it('are masked as the product is, also when its classes were raised after they were put aside', async () => {
    await deploy('1.0.0', 'public')
    await sync()
    const open = await query('SELECT * FROM crm.people__quarantine')
    assert.deepEqual(open.body.rows, [[100, 'SECRET-bad', '[redacted]', -5]])
    await source.query('DELETE FROM secrets WHERE id = 100')
    await sync()
    await deploy('1.1.0', 'pii.identifier')
    const rows = await query('SELECT id FROM crm.people')
    assert.equal(rows.body.row_count, 20, JSON.stringify(rows.body))
    const raised = await query('SELECT * FROM crm.people__quarantine')
    assert.doesNotMatch(JSON.stringify(raised.body), /SECRET-/)
    assert.deepEqual(raised.body.rows, [], `the rows of an earlier epoch are gone: ${JSON.stringify(raised.body)}`)
  })
})

describe('what runs, events and endpoints count', () => {
  const told = '/api/v1/products/crm.told'
  const release = async (name: string, hidden: string) => {
    const path = `/api/v1/products/crm.${name}`
    const column = (name: string, type: string) => `  - { name: ${name}, type: "${type}", classification: ${hidden} }\n`
    const made = manifests('public.later_secrets', {
      columns: `  - { name: id, type: integer, role: identity, nullable: false }\n${column('amount', 'decimal(6,1)')}${column('n', 'integer')}${column('seen', 'timestamptz')}`,
      endpoints:
        hidden === 'internal' ? '  - type: timeseries\n    config: { time_column: seen }\n' : '  - type: analytics\n',
    })
    const quality = `apiVersion: svc/v1\nkind: Quality\nchecks:\n  - name: positive\n    range: { column: n, min: 0 }\n    on_error: quarantine\n  - name: small\n    range: { column: amount, max: 100 }\n    on_error: block\n`
    const files = {
      ...made,
      product: made.product.replace('name: people', `name: ${name}`),
      output: `${made.output}allow_lossy: [amount]\n`,
      ...(hidden === 'internal' ? { quality } : {}),
    }
    await developer.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned' })
    assert.equal((await developer.upload(`${path}/manifests`, files)).status, 200)
    const { status, body } = await developer.post(`${path}/deploy`, { version: '1.0.0', dry_run: false })
    assert.equal(status, 201, JSON.stringify(body))
    if (body.run_id !== null) await developer.untilEnded(body.run_id)
  }
  const eventsOf = async (client: Client, id: string): Promise<Json[]> => {
    const ended = new AbortController()
    const stream = await client.begin('/api/v1/events', { 'last-event-id': '0' }, ended.signal)
    let text = ''
    const events = () =>
      [...text.matchAll(/^data: (.*)\n$/gm)]
        .map(([, data]) => JSON.parse(data as string) as Json)
        .filter(({ subject }) => subject === id)
    for await (const chunk of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      if (events().some(({ type }) => type === 'sluice.quality.checked')) break
    }
    ended.abort()
    return events()
  }
  /** Of the run, the product, and the epoch's events. */
  const counts = async (client: Client, run: string, id: string) => {
    const { body } = await client.get(`/api/v1/ingestion/${run}`)
    const made = body.products.find((one: Json) => one.name === 'crm.told')
    const listed = (await client.get('/api/v1/ingestion')).body.data.find((one: Json) => one.id === run)
    assert.deepEqual(listed.products, body.products)
    const line = body.log.find(({ message }: Json) => message.startsWith('crm.told: epoch'))
    const [endpoint] = (await client.get(told)).body.endpoints
    const events = await eventsOf(client, id)
    const data = Object.assign({}, ...events.map((event) => event.data))
    return {
      lossy: made.lossy_values,
      aside: made.quarantined_rows,
      line: [line.level, line.message.replace(/^.*is published/, '')],
      leftOut: endpoint.rows_left_out,
      event: [data.quarantined, data.score],
    }
  }

  it('is told by the classes of today, whenever it was counted', async () => {
    await release('told', 'internal')
    const { id } = (await developer.get(told)).body
    const { body } = await developer.post('/api/v1/connections/db/sync')
    const run = await developer.untilEnded(body.id)
    const open = await counts(viewer, run.id, id)
    const all = {
      lossy: { amount: 9 },
      aside: 1,
      line: ['warn', '; 1 rows in quarantine; 9 values of amount lost something by the cast to its type'],
      leftOut: 3,
      event: [1, open.event[1]],
    }
    assert.deepEqual(open, all)
    assert.ok(open.event[1] < 100)
    await source.query('UPDATE later_secrets SET amount = 500 WHERE id = 9')
    const again = await developer.post('/api/v1/connections/db/sync')
    assert.equal((await developer.untilEnded(again.body.id)).state, 'failed')
    const failure = async (client: Client) => {
      const { body } = await client.get(`/api/v1/ingestion/${again.body.id}`)
      const { reason } = body.products.find((one: Json) => one.name === 'crm.told')
      const line = body.log.find(({ message }: Json) => message.startsWith('crm.told: '))
      for (const text of [body.error.message, line.message]) assert.ok(text.includes(reason.message), text)
      return reason.message.replace('nothing was published, because ', '')
    }
    assert.equal(await failure(viewer), 'these checks failed: small')
    await release('hider', 'pii.pay')
    assert.deepEqual(await counts(viewer, run.id, id), {
      lossy: {},
      aside: null,
      line: ['info', ''],
      leftOut: null,
      event: [undefined, null],
    })
    assert.equal(await failure(viewer), 'a check of hidden columns failed')
    assert.deepEqual(await counts(developer, run.id, id), all, 'who may read the source')
    assert.equal(await failure(developer), 'these checks failed: small')
  })
})

describe('statements that fail while they run', () => {
  it('are answered with a problem that repeats no value', async () => {
    for (const sql of [
      'SELECT CAST((SELECT secret FROM crm.people LIMIT 1) AS integer)',
      "SELECT CAST(city AS integer) FROM (SELECT 'abc' AS city)",
      'SELECT 9223372036854775807 + n FROM crm.people',
      "SELECT strptime('x', '%Y')",
    ]) {
      const { status, body } = await query(sql)
      assert.equal(status, 400, `${sql}: ${JSON.stringify(body)}`)
      assert.match(body.code, /^sql_/)
      assert.doesNotMatch(JSON.stringify(body), /SECRET-|[0-9a-f]{32}/)
    }
  })
})

describe('settings that only the connector can judge', () => {
  it('are refused when they are sent, without being repeated', async () => {
    const settings = { host: '127.0.0.1:5432', database: 'd', user: 'u', password: 'SECRET-pw', ssl_mode: 'prefer' }
    const text = JSON.stringify(settings)
    const body = { name: 'other', connector_type: 'postgresql', config_encrypted: text }
    for (const answer of [
      await developer.post('/api/v1/connections', body),
      await developer.send('/api/v1/connections/db', {
        method: 'PATCH',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ config_encrypted: text }),
      }),
    ]) {
      assert.equal(answer.status, 400, JSON.stringify(answer.body))
      assert.equal(answer.body.code, 'invalid_connection_config')
      assert.doesNotMatch(JSON.stringify(answer.body), /SECRET-|5432/)
    }
  })
})
