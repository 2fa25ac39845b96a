/** The REST contract as its users meet it: onboarding, errors, tenancy, masks, pages, repeats. HTTP only. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { until } from '../test/until.ts'
import { Client, manifests } from './client.ts'
import { type Deployment, openDeployment } from './deployment.ts'

const suffix = randomBytes(4).toString('hex')
const TENANTS = [`alpha-${suffix}`, `beta-${suffix}`] as const

let deployment: Deployment
let admin: Client
let developer: Client
let viewer: Client
let other: Client
let nobody: Client
let source: pg.Client

async function as(tenant: string, group: string | null, user: string): Promise<Client> {
  const groups = group === null ? [] : ['--group', group]
  return new Client(deployment.url, await deployment.token(['--tenant', tenant, ...groups, '--user', user]))
}

before(async () => {
  deployment = await openDeployment()
  source = new pg.Client(deployment.source)
  await source.connect()
  await source.query(`DROP TABLE IF EXISTS people_a, people_b;
    CREATE TABLE people_a (id integer PRIMARY KEY, email text, city text);
    CREATE TABLE people_b (id integer PRIMARY KEY, email text, city text, note text);
    INSERT INTO people_a SELECT i, 'a' || i || '@alpha.test', 'city ' || i % 3 FROM generate_series(1, 250) i;
    INSERT INTO people_b SELECT i, 'b' || i || '@beta.test', 'city ' || i % 3, 'secret of beta ' || i FROM generate_series(1, 40) i`)
  admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  developer = await as(TENANTS[0], 'svc-developers', 'dora')
  viewer = await as(TENANTS[0], 'svc-viewers', 'vito')
  other = await as(TENANTS[1], 'svc-developers', 'olga')
  nobody = await as(TENANTS[0], null, 'noah')
})

after(async () => {
  for (const tenant of TENANTS) await admin?.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
  await source?.end()
  await deployment?.stop()
})

async function onboard(client: Client, table: string, extra: Parameters<typeof manifests>[1] = {}): Promise<void> {
  const { host, port, user, password, database } = deployment.source
  const config = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  const connection = await client.post('/api/v1/connections', {
    name: 'db',
    connector_type: 'postgresql',
    config_encrypted: config,
  })
  assert.equal(connection.status, 201)
  assert.equal(connection.body.config.password, '********')
  assert.ok(!JSON.stringify(connection.body).includes(String(password)))
  const product = await client.post('/api/v1/products', {
    name: 'people',
    namespace: 'crm',
    archetype: 'source_aligned',
    description: '',
  })
  assert.equal(product.status, 201)
  const uploaded = await client.upload(`/api/v1/products/${product.body.id}/manifests`, manifests(table, extra))
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const dry = await client.post(`/api/v1/products/${product.body.id}/deploy`, { version: '1.0.0', dry_run: true })
  assert.equal(dry.status, 200, JSON.stringify(dry.body))
  assert.ok(dry.body.plan.stores.length > 0)
  assert.equal(
    (await client.get(`/api/v1/products/${product.body.id}`)).body.status,
    'ready',
    'a dry run deploys nothing',
  )
  const deployed = await client.post(`/api/v1/products/${product.body.id}/deploy`, { version: '1.0.0', dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
  const sync = await client.post('/api/v1/connections/db/sync')
  assert.equal(sync.status, 202)
  const run = await client.untilEnded(sync.body.id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
}

describe('onboarding', () => {
  it('creates tenants with everything they need, once', async () => {
    for (const slug of TENANTS) {
      const created = await admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'standard' })
      assert.equal(created.status, 201, JSON.stringify(created.body))
      assert.equal(created.body.status, 'active')
      assert.equal(created.body.resources.catalog, `lakehouse_${slug}`)
      assert.equal((await admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'free' })).status, 409)
    }
    assert.equal(
      (await developer.post('/api/v1/tenants', { slug: 'gamma', display_name: 'x', tier: 'free' })).status,
      403,
    )
    for (const slug of ['A', 'a--b', 'a-', '../x', 'x'.repeat(60), 'a b']) {
      assert.equal((await admin.post('/api/v1/tenants', { slug, display_name: 'x', tier: 'free' })).status, 400, slug)
    }
  })

  it('walks two tenants with the same names and unequal columns to readable products', async () => {
    await onboard(developer, 'public.people_a')
    const columns = manifests('x')
      .output.replace(/^[\s\S]*schema:\n/, '')
      .replace(/write_mode[\s\S]*/, '')
    await onboard(other, 'public.people_b', { columns: `${columns}  - { name: note, type: string }\n` })
  })
})

describe('reads', () => {
  it('gives rows by key, with what they are of', async () => {
    const { status, body, headers } = await viewer.get('/api/v1/products/people/latest?filter=id:7')
    assert.equal(status, 200)
    assert.equal(body.data.length, 1)
    assert.equal(body.data[0].city, 'city 1')
    assert.equal(body.meta.epoch, 1)
    const again = await viewer.get('/api/v1/products/people/latest?filter=id:7', {
      'if-none-match': headers.get('etag') as string,
    })
    assert.equal(again.status, 304)
  })

  it('gives every row once, page by page', async () => {
    const seen: number[] = []
    let cursor = ''
    do {
      const { status, body } = await viewer.get(`/api/v1/products/people/latest?filter=city:city%201&limit=20${cursor}`)
      assert.equal(status, 200, JSON.stringify(body))
      seen.push(...body.data.map((row: { id: number }) => row.id))
      cursor = body.next_cursor === null ? '' : `&cursor=${encodeURIComponent(body.next_cursor)}`
    } while (cursor !== '')
    const wanted = Array.from({ length: 250 }, (_, i) => i + 1).filter((i) => i % 3 === 1)
    assert.deepEqual(
      seen.toSorted((a, b) => a - b),
      wanted,
    )
  })

  it('compares by the operator at the column, and by the whole value', async () => {
    const ids = async (...filters: readonly string[]) => {
      const query = filters.map((text) => `filter=${encodeURIComponent(text)}`).join('&')
      const { status, body } = await viewer.get(`/api/v1/products/people/latest?${query}`)
      assert.equal(status, 200, JSON.stringify(body))
      return body.data.map((row: { id: number }) => row.id).toSorted((a: number, b: number) => a - b)
    }
    assert.deepEqual(await ids('id.ge:5', 'id.lt:8'), [5, 6, 7])
    assert.deepEqual(await ids('id.in:3,9'), [3, 9])
    assert.deepEqual(await ids('id:4'), await ids('id.eq:4'))
    assert.deepEqual(await ids('city:in.city 1,city 2'), [])
  })

  it('refuses what cannot be answered, and says why', async () => {
    for (const [path, status, code] of [
      ['people/latest?filter=email:a@b', 403, 'column_masked'],
      ['people/latest?filter=id:x', 400, 'invalid_value'],
      ['people/latest?filter=nope:1', 400, 'unknown_column'],
      ['people/latest?filter=id', 400, 'filter_malformed'],
      ['people/latest?filter=id.like:1', 400, 'filter_malformed'],
      ['people/latest?filter=id:gt.1', 400, 'invalid_value'],
      ['people/latest?limit=0', 400, 'validation_failed'],
      ['people/latest?cursor=abc', 400, 'cursor_invalid'],
      ['people/timeseries', 404, 'endpoint_not_declared'],
      ['missing/latest?filter=id:1', 404, 'product_not_found'],
    ] as const) {
      const answer = await viewer.get(`/api/v1/products/${path}`)
      assert.deepEqual([answer.status, answer.body.code], [status, code], path)
      assert.match(answer.headers.get('content-type') as string, /problem\+json/)
    }
  })
})

describe('masks', () => {
  it('hides classified columns on every path from everybody without a grant', async () => {
    for (const client of [developer, viewer]) {
      const lookup = await client.get('/api/v1/products/people/latest?filter=id:7')
      assert.deepEqual(lookup.body.meta.masked_columns, ['email'])
      const query = await client.post('/api/v1/query', { sql: 'SELECT email FROM crm.people WHERE id = 7' })
      assert.equal(query.status, 200, JSON.stringify(query.body))
      assert.equal(query.body.columns[0].masked, true)
      assert.equal(query.body.rows[0][0], lookup.body.data[0].email, 'one mask on every path')
      const guess = await client.post('/api/v1/query', {
        sql: "SELECT count(*) FROM crm.people WHERE email LIKE '%alpha%'",
      })
      assert.equal(guess.body.rows[0][0], 0)
      assert.ok(!JSON.stringify([lookup.body, query.body]).includes('@alpha.test'))
    }
  })

  it('shows them to whom the owner of the source has granted it, and lets nobody else grant it', async () => {
    const colleague = await as(TENANTS[0], 'svc-developers', 'dan')
    for (const user of ['dan', 'vito']) {
      const wanted = { subject: { user }, may: 'unmask', classes: ['*'] }
      const refused = await colleague.post('/api/v1/products/people/grants', wanted)
      assert.deepEqual([refused.status, refused.body.code], [403, 'grant_not_held'])
    }
    const granted = await developer.post('/api/v1/products/people/grants', {
      subject: { user: 'vito' },
      may: 'unmask',
      classes: ['pii.identifier'],
    })
    assert.equal(granted.status, 201, JSON.stringify(granted.body))
    assert.equal((await viewer.get('/api/v1/products/people/latest?filter=id:7')).body.data[0].email, 'a7@alpha.test')
    assert.equal(
      (await viewer.get('/api/v1/products/people/latest?filter=email:a7@alpha.test')).body.code,
      'filter_not_indexed',
    )
    await developer.send(`/api/v1/products/people/grants/${granted.body.id}`, { method: 'DELETE' })
    // Of several runtimes the others hear of it a moment later.
    await until('the value is hidden again', async () => {
      const { body } = await viewer.get('/api/v1/products/people/latest?filter=id:7')
      return body.data[0].email !== 'a7@alpha.test'
    })
  })
})

describe('tenancy', () => {
  it('shows nobody anything of another tenant', async () => {
    const mine = await developer.post('/api/v1/query', { sql: 'SELECT * FROM crm.people' })
    const theirs = await other.post('/api/v1/query', { sql: 'SELECT * FROM crm.people' })
    assert.equal(mine.body.row_count, 250)
    assert.equal(theirs.body.row_count, 40)
    assert.ok(!JSON.stringify(mine.body).includes('secret of beta'))
    const product = (await other.get('/api/v1/products')).body.data[0]
    const connection = (await other.get('/api/v1/connections')).body.data[0]
    const run = (await other.get(`/api/v1/ingestion?tenant_id=${TENANTS[1]}`)).body.data[0]
    for (const path of [
      `products/${product.id}`,
      `connections/${connection.id}`,
      `ingestion/${run.id}`,
      `tenants/${TENANTS[1]}`,
      `ingestion?tenant_id=${TENANTS[1]}`,
    ]) {
      assert.equal((await developer.get(`/api/v1/${path}`)).status, 404, path)
    }
    const header = await developer.get('/api/v1/products', { 'x-tenant-id': TENANTS[1] })
    assert.equal(header.status, 403)
  })

  it('takes the tenant of an administrator from the query, on record, and from one place', async () => {
    const path = (tenant: string) => `/api/v1/ingestion?tenant_id=${tenant}`
    const uses = async () => {
      const { body } = await developer.get('/api/v1/audit?limit=1000')
      const isUse = ({ action, object }: { action: string; object: { id: string } }) =>
        action === 'admin.use' && object.id === 'GET /api/v1/ingestion'
      return body.data.filter(isUse).length
    }
    const before = await uses()
    const named = await admin.get(path(TENANTS[0]))
    assert.deepEqual([named.status, named.body.data.length > 0], [200, true])
    assert.equal(await uses(), before + 1)
    assert.equal((await admin.get(path(TENANTS[0]), { 'x-tenant-id': TENANTS[0] })).status, 200)
    assert.equal(await uses(), before + 2, 'once, where both name it')
    const two = await admin.get(path(TENANTS[0]), { 'x-tenant-id': TENANTS[1] })
    assert.deepEqual([two.status, two.body.code], [400, 'tenant_contradictory'])
    for (const tenant of ['no-such-tenant', 'No Tenant']) {
      const gone = await admin.get(path(encodeURIComponent(tenant)))
      assert.deepEqual([gone.status, gone.body.code], [404, 'tenant_not_found'])
    }
    assert.equal((await admin.get('/api/v1/ingestion')).body.code, 'tenant_required')
    assert.equal(await uses(), before + 2)
  })

  it('keeps interleaved reads of many callers apart', async () => {
    const readers = Array.from({ length: 400 }, async (_, index) => {
      const [client, mark] = index % 2 === 0 ? ([developer, 'a'] as const) : ([other, 'b'] as const)
      if (index % 7 === 0) await client.get('/api/v1/products/people/latest?filter=id:broken')
      const { body } = await client.get(`/api/v1/products/people/latest?filter=id:${1 + (index % 40)}`)
      assert.equal('note' in body.data[0], mark === 'b', 'columns of the own product only')
    })
    await Promise.all(readers)
  })

  it('asks for a token, a role and a group', async () => {
    assert.equal((await new Client(deployment.url, null).get('/api/v1/products')).status, 401)
    assert.equal((await new Client(deployment.url, 'a.b.c').get('/api/v1/products')).status, 401)
    assert.equal((await viewer.post('/api/v1/connections/db/sync')).status, 403)
    assert.equal((await viewer.post('/api/v1/products/people/deploy', { version: '2.0.0', dry_run: true })).status, 403)
    assert.equal((await nobody.get('/api/v1/products/people/latest?filter=id:7')).status, 403)
    assert.equal((await nobody.post('/api/v1/query', { sql: 'SELECT * FROM crm.people' })).body.code, 'table_not_found')
  })
})

describe('SQL', () => {
  it('runs one read-only SELECT and nothing else', async () => {
    for (const sql of [
      'DELETE FROM crm.people',
      'SELECT 1; SELECT 2',
      "SELECT * FROM read_csv('/etc/passwd')",
      "COPY (SELECT 1) TO '/tmp/x'",
      "ATTACH 'x.db'",
      'SELECT * FROM duckdb_settings()',
      'PRAGMA version',
      'SELECT * FROM information_schema.routines',
      "SELECT getenv('HOME')",
      'SELECT',
      'SELECT \u0000',
    ]) {
      const { status, body } = await developer.post('/api/v1/query', { sql })
      assert.equal(status, 400, `${sql} → ${status} ${JSON.stringify(body)}`)
      assert.ok(!JSON.stringify(body).includes('/lake/'))
    }
  })

  it('takes parameters and a limit, and answers CSV and lines', async () => {
    const json = await developer.post('/api/v1/query', {
      sql: 'SELECT id FROM crm.people WHERE id > $1 ORDER BY id',
      params: [10],
      limit: 3,
    })
    assert.deepEqual(json.body.rows, [[11], [12], [13]])
    assert.equal(json.body.truncated, true)
    const csv = await developer.post(
      '/api/v1/query',
      { sql: 'SELECT id FROM crm.people WHERE id < 3 ORDER BY 1' },
      { accept: 'text/csv' },
    )
    assert.deepEqual(csv.body.replaceAll('"', '').trim().split(/\r?\n/), ['id', '1', '2'])
    const lines = await developer.post(
      '/api/v1/query',
      { sql: 'SELECT id FROM crm.people WHERE id < 3 ORDER BY 1' },
      { accept: 'application/x-ndjson' },
    )
    assert.equal(lines.status, 200)
  })
})

describe('changes', () => {
  it('answers a repeated request as the first, and refuses the key for another', async () => {
    const headers = { 'idempotency-key': `key-${suffix}` }
    const body = { name: 'once', namespace: 'crm', archetype: 'aggregate' }
    const first = await developer.post('/api/v1/products', body, headers)
    const second = await developer.post('/api/v1/products', body, headers)
    assert.equal(first.status, 201)
    assert.deepEqual([second.status, second.body.id], [201, first.body.id])
    assert.equal((await developer.post('/api/v1/products', { ...body, name: 'twice' }, headers)).status, 422)
  })

  it('takes the same manifests once, however they are parted, and refuses the key for others', async () => {
    const path = '/api/v1/products/once/manifests'
    const headers = { 'idempotency-key': `manifests-${suffix}` }
    const files = manifests('public.people_a')
    const first = { ...files, product: files.product.replace('name: people', 'name: once') }
    const second = { ...first, serving: files.serving.replace('[id, city]', '[id]') }
    const before = await developer.upload(path, first, headers)
    assert.equal(before.status, 200, JSON.stringify(before.body))
    assert.equal((await developer.upload(path, second)).status, 200)
    // Each form has a boundary of its own.
    assert.deepEqual((await developer.upload(path, first, headers)).body, before.body)
    assert.equal((await developer.get(path)).body.manifests.serving, second.serving)
    const other = await developer.upload(path, second, headers)
    assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused'])
    const refused = { 'idempotency-key': `refused-${suffix}` }
    const broken = { ...first, serving: 'kind: Serving\n' }
    const [once, again] = [await developer.upload(path, broken, refused), await developer.upload(path, broken, refused)]
    assert.deepEqual([once.status, again.status, again.body], [422, 422, once.body])
    assert.equal((await viewer.upload(path, first, headers)).status, 403)
  })

  it('names every problem of manifests with file, line and column', async () => {
    const files = manifests('public.people_a')
    const broken = {
      ...files,
      output: files.output.replace('type: integer', 'type: integr'),
      serving: `${files.serving}  - type: lookup2\n`,
    }
    const { status, body } = await developer.upload('/api/v1/products/people/manifests', broken)
    assert.equal(status, 422)
    assert.deepEqual(
      new Set(body.errors.map((error: { manifest: string }) => error.manifest)),
      new Set(['output', 'serving']),
    )
    for (const error of body.errors) assert.ok(error.line >= 1 && error.column >= 1)
  })

  it('names the place of SQL that cannot run', async () => {
    const files = manifests('public.people_a')
    const places = async (changed: Partial<typeof files>) => {
      assert.equal((await developer.upload('/api/v1/products/people/manifests', { ...files, ...changed })).status, 200)
      const request = { version: '1.1.0', dry_run: true }
      const { status, body } = await developer.post('/api/v1/products/people/deploy', request)
      assert.deepEqual([status, body.code], [422, 'transform_invalid'], JSON.stringify(body))
      return body.errors.map(({ manifest, path, line, column }: Record<string, unknown>) => [
        manifest,
        path,
        line,
        column,
      ])
    }
    const compute = `${files.compute}transform: SELECT nothing AS id FROM source\n`
    assert.deepEqual(await places({ compute }), [['compute', 'transform', 5, 12]])
    const inputs = files.inputs.replace('mode: full', 'mode: full, where: nothing = 1')
    const column = inputs.split('\n')[3]?.indexOf('nothing = 1') ?? 0
    assert.deepEqual(await places({ inputs }), [['inputs', 'inputs[0].where', 4, column + 1]])
  })

  it('deploys what asks for dashboards that nobody serves, and warns', async () => {
    const files = manifests('public.people_a')
    const serving = `${files.serving}visualization: { enabled: true, dashboard_template: no_such }\n`
    const uploaded = await developer.upload('/api/v1/products/people/manifests', { ...files, serving })
    const isNamed = ({ path }: { path: string }) => path === 'visualization.enabled'
    assert.deepEqual([uploaded.status, uploaded.body.warnings.filter(isNamed).length], [200, 1])
    const deployed = await developer.post('/api/v1/products/people/deploy', { version: '1.0.1', dry_run: false })
    assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
    assert.equal(deployed.body.plan.warnings.filter(isNamed).length, 1)
    if (deployed.body.run_id) assert.equal((await developer.untilEnded(deployed.body.run_id)).state, 'succeeded')
    assert.equal((await developer.get('/api/v1/products/people')).body.dashboards, null)
  })

  it('brings changed rows to every copy, and lets the past be asked for', async () => {
    const before = (await developer.get('/api/v1/products/people/snapshots')).body.data[0]
    await source.query("UPDATE people_a SET city = 'moved' WHERE id = 7; DELETE FROM people_a WHERE id = 8")
    const sync = await developer.post('/api/v1/connections/db/sync')
    const run = await developer.untilEnded(sync.body.id)
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    assert.equal((await viewer.get('/api/v1/products/people/latest?filter=id:7')).body.data[0].city, 'moved')
    assert.deepEqual((await viewer.get('/api/v1/products/people/latest?filter=id:8')).body.data, [])
    const past = { sql: 'SELECT city FROM crm.people WHERE id IN (7, 8) ORDER BY id', as_of: before.committed_at }
    assert.deepEqual((await viewer.post('/api/v1/query', past)).body.rows, [['city 1'], ['city 2']])
    for (const moment of [before.snapshot_id, before.committed_at]) {
      const sql = `SELECT past.city, now.city FROM crm."people@${moment}" AS past LEFT JOIN crm.people AS now USING (id)
        WHERE id IN (7, 8) ORDER BY id`
      const compared = await viewer.post('/api/v1/query', { sql })
      assert.deepEqual(compared.body.rows, [
        ['city 1', 'moved'],
        ['city 2', null],
      ])
    }
    const tagged = { sql: 'SELECT city FROM crm.people WHERE id = 7', as_of: `v${before.version}` }
    assert.deepEqual((await viewer.post('/api/v1/query', tagged)).body.rows, [['moved']])
    const unknown = await viewer.post('/api/v1/query', { ...tagged, as_of: 'v99.0.0' })
    assert.equal(unknown.body.code, 'snapshot_not_found')
  })

  it('sees to the lake by command, and finds it well', async () => {
    for (const task of ['compact', 'expire', 'clean', 'check']) {
      const { status, body } = await developer.post(`/api/v1/lake/${task}`)
      assert.equal(status, 200, JSON.stringify(body))
      assert.equal(body.next, null)
      assert.ok(body.tables_seen > 0)
      assert.ok(body.tables.every((table: { error?: unknown }) => table.error === undefined))
      if (task === 'check') assert.deepEqual(body.tables, [])
    }
    assert.equal((await viewer.post('/api/v1/lake/check')).status, 403)
    assert.equal(
      (await developer.post('/api/v1/lake/check', { table: 'crm.nothing' })).body.code,
      'lake_table_not_found',
    )
  })

  it('keeps what was done in the audit log, and tells it as events', async () => {
    const audit = await developer.get('/api/v1/audit?limit=1000')
    const actions = audit.body.data.map((record: { action: string }) => record.action)
    for (const action of ['product.deploy', 'connection.create', 'grant.create'])
      assert.ok(actions.includes(action), action)
    assert.equal((await viewer.get('/api/v1/audit')).status, 403)
  })
})
