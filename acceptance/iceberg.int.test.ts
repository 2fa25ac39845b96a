/** The Iceberg REST catalog as a client without a library meets it: whose tables, which history, whose errors. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { Client, type Json, manifests } from './client.ts'
import { type Deployment, openDeployment } from './deployment.ts'

const suffix = randomBytes(4).toString('hex')
const TENANTS = [`ice-${suffix}`, `fire-${suffix}`] as const
const [TENANT, OTHER] = TENANTS
const ROOT = '/iceberg/v1'

let deployment: Deployment
let source: pg.Client
let admin: Client
let developer: Client
let viewer: Client
let nobody: Client
let stranger: Client

async function as(tenant: string, group: string | null, user: string): Promise<Client> {
  const groups = group === null ? [] : ['--group', group]
  return new Client(deployment.url, await deployment.token(['--tenant', tenant, ...groups, '--user', user]))
}

before(async () => {
  deployment = await openDeployment()
  source = new pg.Client(deployment.source)
  await source.connect()
  await source.query(`DROP TABLE IF EXISTS ice_people;
    CREATE TABLE ice_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO ice_people SELECT i, 'a' || i || '@example.org', 'city ' || i FROM generate_series(1, 20) i`)
  admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  developer = await as(TENANT, 'svc-developers', 'dora')
  viewer = await as(TENANT, 'svc-viewers', 'vito')
  nobody = await as(TENANT, null, 'noah')
  stranger = await as(OTHER, 'svc-developers', 'stan')
  for (const slug of TENANTS) {
    await expect(201, admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'standard' }))
  }
  const { host, port, user, password, database } = deployment.source
  const config_encrypted = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  await expect(
    201,
    developer.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted }),
  )
  await register('people', manifests('public.ice_people'))
  await register('hidden', named('hidden', 'confidential'))
  await register('named', named('named', 'restricted'))
  await sync()
})

after(async () => {
  for (const tenant of TENANTS) await admin?.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
  await source?.end()
  await deployment?.stop()
})

async function expect(
  status: number,
  answer: Promise<{ readonly status: number; readonly body: Json }>,
): Promise<Json> {
  const { status: found, body } = await answer
  assert.equal(found, status, JSON.stringify(body))
  return body
}

function named(name: string, classification: string) {
  const files = manifests('public.ice_people')
  return {
    ...files,
    product: `${files.product.replace('name: people', `name: ${name}`)}classification: ${classification}\n`,
  }
}

async function register(name: string, files: Readonly<Record<string, string>>): Promise<void> {
  const request = { name, namespace: 'crm', archetype: 'source_aligned', description: '' }
  await expect(201, developer.post('/api/v1/products', request))
  await deploy(name, files, '1.0.0')
}

async function deploy(name: string, files: Readonly<Record<string, string>>, version: string): Promise<Json> {
  await expect(200, developer.upload(`/api/v1/products/${name}/manifests`, files))
  return expect(201, developer.post(`/api/v1/products/${name}/deploy`, { version, dry_run: false }))
}

async function sync(): Promise<void> {
  const run = await expect(202, developer.post('/api/v1/connections/db/sync'))
  const ended = await developer.untilEnded(run.id)
  assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
}

const at = (path: string, tenant: string = TENANT) => `${ROOT}/${tenant}${path}`
const table = (name: string) => at(`/namespaces/crm/tables/${name}`)

/** By column, of each schema. */
const commentsIn = ({ metadata }: Json): Json[] =>
  metadata.schemas.map(({ fields }: Json) => Object.fromEntries(fields.map(({ name, doc }: Json) => [name, doc])))

async function refusal(client: Client, path: string, init: RequestInit = {}) {
  const { status, body, headers } = await client.send(path, init)
  assert.deepEqual(Object.keys(body), ['error'], JSON.stringify(body))
  assert.equal(body.error.code, status)
  assert.match(headers.get('content-type') ?? '', /^application\/json/)
  return { status, type: body.error.type, reason: body.error.reason, message: body.error.message }
}

const json = (body: unknown, method = 'POST'): RequestInit => ({
  method,
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json' },
})

describe('the catalog', () => {
  it('says what it offers, to the tenant alone', async () => {
    const config = await expect(200, viewer.get(`${ROOT}/config?warehouse=${TENANT}`))
    assert.equal(config.overrides.prefix, TENANT)
    assert.ok(config.endpoints.includes('GET /v1/{prefix}/namespaces/{namespace}/tables/{table}'))
    assert.ok(config.endpoints.includes('POST /v1/{prefix}/transactions/commit'))
    assert.equal((await expect(200, viewer.get(`${ROOT}/config`))).overrides.prefix, TENANT)
    for (const path of [`${ROOT}/config?warehouse=${OTHER}`, at('/namespaces', OTHER), at('/namespaces', 'nobody')]) {
      const { status, reason } = await refusal(viewer, path)
      assert.deepEqual([status, reason], [404, 'catalog_warehouse_not_found'], path)
    }
  })

  it('keeps the platform’s rules for tokens and administrators', async () => {
    assert.equal((await refusal(new Client(deployment.url, null), at('/namespaces'))).type, 'NotAuthorizedException')
    assert.equal((await refusal(new Client(deployment.url, 'x.y.z'), at('/namespaces'))).status, 401)
    assert.equal((await refusal(admin, at('/namespaces'))).reason, 'tenant_required')
    const forTenant = { headers: { 'x-tenant-id': TENANT } }
    assert.equal((await refusal(viewer, at('/namespaces'), forTenant)).reason, 'tenant_header_forbidden')
    const { namespaces } = await expect(200, admin.send(at('/namespaces'), forTenant))
    assert.deepEqual(namespaces, [['crm']])
    assert.equal((await refusal(viewer, `${ROOT}/nothing`)).status, 404)
    assert.equal((await refusal(viewer, at('/namespaces'), { method: 'DELETE' })).status, 405)
    // As Java's client asks for a table's metadata tables: it goes on to the table where this one is not there.
    const nested = await refusal(viewer, at('/namespaces/crm%1Fpeople/tables/files'))
    assert.deepEqual([nested.status, nested.type], [404, 'NoSuchTableException'])
    assert.equal((await refusal(viewer, at('/namespaces/a%1Fb/tables'))).status, 404)
    for (const path of [
      '/namespaces/a%1F/tables',
      '/namespaces/%1Fb',
      '/namespaces/a%1F%1Fb',
      '/namespaces/a/tables/b%1Fc',
    ]) {
      assert.equal((await refusal(viewer, at(path))).status, 400, path)
    }
    const token = await viewer.send(`${ROOT}/oauth/tokens`, { method: 'POST', body: 'grant_type=client_credentials' })
    assert.deepEqual([token.status, token.body.error], [400, 'unsupported_grant_type'])
  })

  it('lists pages of what the caller may load', async () => {
    const listed = await expect(200, viewer.get(at('/namespaces/crm/tables')))
    assert.deepEqual(listed.identifiers, [{ namespace: ['crm'], name: 'people' }])
    const all = { headers: { 'x-tenant-id': TENANT } }
    const names: string[] = []
    let token = ''
    do {
      const page = await expect(200, admin.send(`${at('/namespaces/crm/tables')}?pageSize=1&pageToken=${token}`, all))
      assert.equal(page.identifiers.length, 1)
      names.push(page.identifiers[0].name)
      token = page['next-page-token'] ?? ''
    } while (token !== '')
    assert.deepEqual(names, ['hidden', 'named', 'people'])
    assert.equal((await refusal(viewer, `${at('/namespaces')}?pageToken=zz`)).reason, 'catalog_page_token_invalid')
    assert.equal((await refusal(viewer, `${at('/namespaces')}?pageSize=0`)).status, 400)
    assert.deepEqual((await expect(200, stranger.get(at('/namespaces', OTHER)))).namespaces, [])
  })

  it('knows existence without loading', async () => {
    for (const [path, status] of [
      [table('people'), 204],
      [table('hidden'), 404],
      [table('missing'), 404],
      [at('/namespaces/crm'), 204],
      [at('/namespaces/none'), 404],
    ] as const) {
      assert.equal((await viewer.send(path, { method: 'HEAD' })).status, status, path)
    }
  })
})

describe('a load', () => {
  it('gives the twin of the reader’s clearance under the product’s name', async () => {
    const masked = await expect(200, viewer.get(table('people')))
    assert.match(masked.metadata.location, /\/crm\/people__masked$/)
    assert.equal(masked['metadata-location'].startsWith(masked.metadata.location), true)
    const clear = await expect(200, admin.send(table('people'), { headers: { 'x-tenant-id': TENANT } }))
    assert.match(clear.metadata.location, /\/crm\/people$/)
    for (const name of ['people__masked', 'people__quarantine', 'raw_db']) {
      assert.equal((await refusal(viewer, table(name))).type, 'NoSuchTableException', name)
    }
    assert.equal((await refusal(viewer, at('/namespaces/raw_db/tables/ice_people'))).status, 404)
  })

  it('tells of each column its class, and how it is masked for its reader', async () => {
    const platform = { headers: { 'x-tenant-id': TENANT } }
    assert.deepEqual(commentsIn(await expect(200, viewer.get(table('people')))), [
      { id: 'class public', email: 'class pii.identifier; masked for you: hash', city: 'class public' },
    ])
    assert.deepEqual(commentsIn(await expect(200, admin.send(table('people'), platform))), [
      { id: 'class public', email: 'class pii.identifier', city: 'class public' },
    ])
  })

  it('is refused with the reason where the reader has no right to the product', async () => {
    const hidden = await refusal(viewer, table('hidden'))
    assert.deepEqual([hidden.status, hidden.type], [403, 'ForbiddenException'])
    assert.match(hidden.message, /confidential, and neither you nor your teams hold a grant/)
    assert.match((await refusal(viewer, table('named'))).message, /restricted to named individuals/)
    assert.equal((await refusal(nobody, table('people'))).status, 403)
  })

  it('of a restricted product is for named individuals, and recorded', async () => {
    const grant = { subject: { user: 'vito' }, may: 'read', classes: [] }
    await expect(201, developer.post('/api/v1/products/named/grants', grant))
    assert.match((await expect(200, viewer.get(table('named')))).metadata.location, /named__masked$/)
    const { data } = await expect(200, developer.get('/api/v1/audit?limit=1000'))
    assert.ok(data.some((record: Json) => record.action === 'read.iceberg' && record.actor.subject === 'vito'))
  })

  it('shows no snapshot from before a class was raised, nor the way to one', async () => {
    const files = manifests('public.ice_people')
    const output = files.output.replace(
      '{ name: city, type: string }',
      '{ name: city, type: string, classification: pii.name }',
    )
    const endpoints = manifests('x', { endpoints: '  - type: analytics\n' }).serving
    const answer = await deploy('people', { ...files, output, serving: endpoints }, '2.0.0')
    if (answer.run_id) await developer.untilEnded(answer.run_id)
    // What is told is of now, of what was read before as well.
    for (const { city } of commentsIn(await expect(200, viewer.get(table('people'))))) {
      assert.match(city, /^class pii.name; masked for you: /)
    }
    const owner = await expect(200, admin.send(table('people'), { headers: { 'x-tenant-id': TENANT } }))
    for (const { city } of commentsIn(owner)) assert.equal(city, 'class pii.name')
    // A schema of its own, with the columns that were there: engines that read the files are told by it.
    assert.equal(owner.metadata['current-schema-id'], 1)
    const shapes = owner.metadata.schemas.map(({ fields }: Json) => fields.map(({ doc: _, ...field }: Json) => field))
    assert.deepEqual(shapes[1], shapes[0])
    await source.query("UPDATE ice_people SET city = 'moved'")
    await sync()
    const all = await expect(200, admin.send(table('people__masked'), { headers: { 'x-tenant-id': TENANT } })).catch(
      () => null,
    )
    assert.equal(all, null, 'twins have no names of their own')
    const loaded = await expect(200, viewer.get(table('people')))
    const clear = await expect(200, admin.send(table('people'), { headers: { 'x-tenant-id': TENANT } }))
    assert.ok(clear.metadata.snapshots.length > loaded.metadata.snapshots.length)
    assert.ok(loaded.metadata.snapshots.length >= 1)
    for (const snapshot of loaded.metadata.snapshots) assert.equal(snapshot.summary['sluice.version'], '2.0.0')
    assert.equal(loaded['metadata-location'], undefined)
    assert.deepEqual(loaded.metadata['metadata-log'], [])
    const ids = new Set(loaded.metadata.snapshots.map((snapshot: Json) => snapshot['snapshot-id']))
    for (const entry of [...loaded.metadata['snapshot-log'], ...Object.values(loaded.metadata.refs)] as Json[]) {
      assert.ok(ids.has(entry['snapshot-id']))
    }
    const refs = await expect(200, viewer.get(`${table('people')}?snapshots=refs`))
    assert.ok(refs.metadata.snapshots.length <= ids.size)
  })
})

describe('a write', () => {
  const create = {
    name: 'mine',
    schema: { type: 'struct', fields: [{ id: 1, name: 'a', required: false, type: 'long' }] },
  }

  it('is for developers, and for the sandbox', async () => {
    for (const client of [viewer, nobody]) {
      for (const [path, init] of [
        [at('/namespaces'), json({ namespace: ['sandbox'] })],
        [at('/namespaces/sandbox/tables'), json(create)],
        [table('people'), json({ requirements: [], updates: [] })],
        [table('people'), { method: 'DELETE' }],
        [
          at('/transactions/commit'),
          json({
            'table-changes': [{ identifier: { namespace: ['crm'], name: 'people' }, requirements: [], updates: [] }],
          }),
        ],
      ] as const) {
        assert.equal((await refusal(client, path, init)).reason, 'developer_required', path)
      }
    }
    await expect(200, developer.send(at('/namespaces'), json({ namespace: ['sandbox'], properties: { a: 'b' } })))
    assert.equal(
      (await refusal(developer, at('/namespaces'), json({ namespace: ['sandbox'] }))).type,
      'AlreadyExistsException',
    )
    for (const [path, init] of [
      [at('/namespaces'), json({ namespace: ['crm2'] })],
      [at('/namespaces/crm/tables'), json(create)],
      [table('people'), json({ requirements: [], updates: [] })],
      [table('people'), { method: 'DELETE' }],
      [at('/namespaces/crm'), { method: 'DELETE' }],
      [
        at('/tables/rename'),
        json({ source: { namespace: ['crm'], name: 'people' }, destination: { namespace: ['sandbox'], name: 'p' } }),
      ],
    ] as const) {
      const { status, type } = await refusal(developer, path, init)
      assert.deepEqual([status, type], [422, 'UnprocessableEntityException'], path)
    }
  })

  it('is bounded and well-formed', async () => {
    const path = at('/namespaces/sandbox/tables')
    const giant = json({ ...create, properties: { x: 'y'.repeat(2_000_000) } })
    assert.equal((await refusal(developer, path, giant)).status, 413)
    assert.equal((await refusal(developer, path, { ...json({}), body: '{' })).status, 400)
    assert.equal((await refusal(developer, path, json({ name: 'x' }))).reason, 'catalog_request_invalid')
    assert.equal((await refusal(developer, path, json({ ...create, name: '../x' }))).reason, 'lake_name_invalid')
    assert.equal(
      (await refusal(developer, path, json({ ...create, properties: { 'format-version': '3' } }))).status,
      422,
    )
    assert.equal((await refusal(stranger, path, json(create))).reason, 'catalog_warehouse_not_found')
  })

  it('keeps integers of 64 bits, and the record of its author', async () => {
    await expect(200, developer.send(at('/namespaces/sandbox/tables'), json(create)))
    const commit = `{"requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 9007199254740993123}], "updates": []}`
    const { type } = await refusal(developer, at('/namespaces/sandbox/tables/mine'), { ...json({}), body: commit })
    assert.equal(type, 'CommitFailedException')
    await expect(
      200,
      developer.send(
        at('/namespaces/sandbox/tables/mine'),
        json({ requirements: [], updates: [{ action: 'set-properties', updates: { a: 'b' } }] }),
      ),
    )
    const { data } = await expect(200, developer.get('/api/v1/audit?limit=1000'))
    const record = data.find(({ action }: Json) => action === 'sandbox.table.commit')
    assert.deepEqual([record?.object.id, record?.actor.subject], ['sandbox.mine', 'dora'])
    assert.deepEqual(
      (await expect(200, developer.post('/api/v1/query', { sql: 'SELECT * FROM sandbox.mine' }))).rows,
      [],
    )
    const denied = await nobody.post('/api/v1/query', { sql: 'SELECT * FROM sandbox.mine' })
    assert.equal(denied.body.code, 'table_not_found')
    const dropped = await developer.send(at('/namespaces/sandbox'), { method: 'DELETE' })
    assert.equal(dropped.body.error.type, 'NamespaceNotEmptyException')
    assert.equal((await developer.send(at('/namespaces/sandbox/tables/mine'), { method: 'DELETE' })).status, 204)
    assert.equal((await developer.send(at('/namespaces/sandbox'), { method: 'DELETE' })).status, 204)
  })
})
