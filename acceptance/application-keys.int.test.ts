/** Keys of applications: what they open, and all that they must not. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { type Answer, Client, type Json, manifests } from './client.ts'
import { onboardPeople, openWorld, syncNow, type World } from './world.ts'

const KEYS = '/api/v1/application-keys'
const LATEST = '/api/v1/products/people/latest'
const ASKED = { sql: 'SELECT id, email FROM crm.people ORDER BY id LIMIT 1' }
const CLEAR = 'k1@k.test'

let world: World
/** Owns the connection and the product. */
let owner: Client
/** Makes keys; a member like any other. */
let maker: Client
let product: Json

before(async () => {
  world = await openWorld()
  const [own, other] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS key_people;
    CREATE TABLE key_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO key_people SELECT i, 'k' || i || '@k.test', 'city' FROM generate_series(1, 5) i`)
  await world.createTenant(own)
  await world.createTenant(other)
  owner = await world.as(own, 'svc-developers', 'dora')
  maker = await world.as(own, 'svc-developers', 'mo')
  product = await onboardPeople(world, owner, manifests('public.key_people'))
})

after(() => world?.close())

interface Made {
  readonly id: string
  readonly token: string
  readonly client: Client
}

async function make(by: Client, wanted: Json = {}): Promise<Made> {
  const { status, body } = await by.post(KEYS, { name: 'app', ...wanted })
  assert.equal(status, 201, JSON.stringify(body))
  return { id: body.id, token: body.token, client: bearing(body.token) }
}

const bearing = (token: string): Client => new Client(world.deployment.url, token)
const verdict = ({ status, body }: Answer) => [status, body.code]
const grants = `/api/v1/products/people/grants`

it('is shown once, listed without its secret, and used as a bearer token', async () => {
  const idempotent = { 'idempotency-key': 'make-one' }
  const first = await maker.post(KEYS, { name: 'shop' }, idempotent)
  assert.match(first.body.token, /^slk_[0-9a-f]{24}_[0-9a-f]{64}$/)
  assert.equal(first.headers.get('cache-control'), 'no-store')
  const again = await maker.post(KEYS, { name: 'shop' }, idempotent)
  assert.deepEqual(again.body, { ...first.body, token: null }, 'a repetition makes no second key and shows no secret')
  const key = bearing(first.body.token)
  const read = await key.get(`${LATEST}?filter=id:1`)
  assert.deepEqual([read.status, read.body.meta.masked_columns], [200, ['email']])
  assert.notEqual(read.body.data[0].email, CLEAR)
  assert.equal((await key.post('/api/v1/query', ASKED)).body.rows[0][1], read.body.data[0].email)
  assert.deepEqual(
    (await key.get('/api/v1/products')).body.data.map(({ name }: Json) => name),
    ['people'],
  )
  assert.equal((await key.get('/api/v1/products/people')).status, 200)
  const { body } = await owner.get(KEYS)
  const { token, ...shown } = first.body
  assert.deepEqual({ ...body.data[0], last_used_at: null }, shown)
  assert.match(body.data[0].last_used_at, /:00\.000Z$/, 'to the minute')
  assert.ok(!JSON.stringify(body).includes(token.slice(-64)))
  const audit = (await owner.get('/api/v1/audit')).body.data.find(
    ({ action }: Json) => action === 'application_key.create',
  )
  assert.deepEqual(
    [audit.object_id ?? audit.object?.id, JSON.stringify(audit).includes(token.slice(-64))],
    [shown.id, false],
  )
})

it('refuses whatever is not a living key, and does not tell one from another', async () => {
  const { token, id } = await make(maker)
  const [, part, secret] = token.split('_') as [string, string, string]
  const other = await make(await world.as(world.tenants[1], 'svc-developers', 'olga'))
  const unknown = await bearing(`slk_${'0'.repeat(24)}_${secret}`).get(LATEST)
  const forged = await bearing(`slk_${part}_${'0'.repeat(64)}`).get(LATEST)
  const mixed = await bearing(`slk_${part}_${other.token.split('_')[2]}`).get(LATEST)
  for (const answer of [unknown, forged, mixed]) {
    assert.deepEqual(verdict(answer), [401, 'token_invalid'])
    assert.equal(answer.body.detail, unknown.body.detail)
  }
  for (const broken of [token.slice(0, -1), `${token}0`, 'slk_', `slk_${part}`, token.toUpperCase(), `x${token}`]) {
    const answer = await bearing(broken).get(LATEST)
    assert.deepEqual(verdict(answer), [401, 'token_malformed'], broken)
    assert.ok(!JSON.stringify(answer.body).includes(secret))
  }
  assert.deepEqual(verdict(await other.client.get(LATEST)), [404, 'product_not_found'])
  const named = { 'x-tenant-id': world.tenants[0] }
  assert.deepEqual(verdict(await other.client.get(LATEST, named)), [403, 'tenant_header_forbidden'])
  const foreign = await world.as(world.tenants[1], 'svc-developers', 'olga')
  assert.deepEqual(verdict(await foreign.send(`${KEYS}/${id}`, { method: 'DELETE' })), [
    404,
    'application_key_not_found',
  ])
  assert.ok(!(await foreign.get(KEYS)).body.data.some((key: Json) => key.id === id))
})

it('is made by developers of the tenant only, and by no key', async () => {
  const viewer = await world.as(world.tenants[0], 'svc-viewers', 'vera')
  for (const method of ['GET', 'POST'] as const) {
    const asked = () => (method === 'GET' ? viewer.get(KEYS) : viewer.post(KEYS, { name: 'x' }))
    assert.deepEqual(verdict(await asked()), [403, 'developer_required'])
  }
  const named = { 'x-tenant-id': world.tenants[0] }
  assert.deepEqual(verdict(await world.admin.post(KEYS, { name: 'x' }, named)), [403, 'key_needs_member'])
  const { client } = await make(maker)
  assert.deepEqual(verdict(await client.post(KEYS, { name: 'x' })), [403, 'key_not_allowed'])
  for (const wanted of [
    { expires_in_days: 366 },
    { expires_in_days: 0 },
    { operations: ['deploy'] },
    { products: [] },
  ]) {
    assert.equal((await maker.post(KEYS, { name: 'x', ...wanted })).status, 400, JSON.stringify(wanted))
  }
  assert.deepEqual(verdict(await maker.post(KEYS, { name: 'x', products: ['none'] })), [404, 'product_not_found'])
})

it('does what it was made for, with the products that it names, and knows of no others', async () => {
  const wanted = { name: 'hidden', namespace: 'crm', archetype: 'source_aligned', description: '' }
  const hidden = (await owner.post('/api/v1/products', wanted)).body
  const twin = (await owner.post('/api/v1/products', { ...wanted, name: 'people', namespace: 'hr' })).body
  const reader = await make(maker, { products: ['crm.people'], operations: ['read'] })
  const asker = await make(maker, { products: [hidden.id], operations: ['query'] })
  const crm = '/api/v1/products/crm.people'
  assert.equal((await reader.client.get(`${crm}/latest?filter=id:1`)).status, 200)
  assert.deepEqual(verdict(await reader.client.post('/api/v1/query', ASKED)), [403, 'key_not_allowed'])
  assert.deepEqual(verdict(await asker.client.get(`${crm}/latest`)), [403, 'key_not_allowed'])
  assert.equal((await asker.client.post('/api/v1/query', ASKED)).body.code, 'table_not_found')
  const missing = (await reader.client.get('/api/v1/products/crm.nothing/latest')).body
  for (const path of ['crm.hidden/latest', `${hidden.id}/latest`, hidden.id, 'crm.hidden', 'people/latest', 'people']) {
    const { body, status } = await reader.client.get(`/api/v1/products/${path}`)
    const same = { ...missing, instance: body.instance, request_id: body.request_id }
    assert.deepEqual([status, body], [404, same], path)
  }
  assert.deepEqual(
    (await reader.client.get('/api/v1/products')).body.data.map(({ id }: Json) => id),
    [product.id],
  )
  for (const { id } of [hidden, twin]) await owner.send(`/api/v1/products/${id}`, { method: 'DELETE' })
  // A key is for the product, not for its name.
  const { body: anew } = await owner.post('/api/v1/products', wanted)
  assert.deepEqual((await asker.client.get('/api/v1/products')).body.data, [])
  assert.equal((await asker.client.get('/api/v1/products/crm.hidden')).status, 404)
  await owner.send(`/api/v1/products/${anew.id}`, { method: 'DELETE' })
})

it('shows in clear what it was made to, as long as its maker sees it so', async () => {
  const masked = await make(maker)
  const clear = await make(maker, { unmask: ['pii.identifier'] })
  const other = await make(maker, { unmask: ['pii.name'] })
  const emailFor = async ({ client }: Made) => (await client.get(`${LATEST}?filter=id:1`)).body.data[0].email
  assert.notEqual(await emailFor(clear), CLEAR, 'its maker holds no grant yet')
  const grant = await owner.post(grants, { subject: { user: 'mo' }, may: 'unmask', classes: ['pii.identifier'] })
  assert.equal(grant.status, 201)
  await world.heard(async () => (await emailFor(clear)) === CLEAR)
  assert.equal((await maker.get(`${LATEST}?filter=id:1`)).body.data[0].email, CLEAR)
  assert.equal(await emailFor(clear), CLEAR)
  assert.equal((await clear.client.post('/api/v1/query', ASKED)).body.rows[0][1], CLEAR)
  for (const key of [masked, other]) assert.notEqual(await emailFor(key), CLEAR)
  await owner.send(`${grants}/${grant.body.id}`, { method: 'DELETE' })
  await world.heard(async () => (await emailFor(clear)) !== CLEAR)
  assert.notEqual(await emailFor(clear), CLEAR, 'gone with the grant')
  const raw = await make(owner, { unmask: ['*'] })
  const answer = await raw.client.post('/api/v1/query', { sql: 'SELECT * FROM raw_db.key_people' })
  assert.equal(answer.body.code, 'table_not_found', 'raw tables are no products, whoever made the key')
})

it('ends what is being fetched with it, within seconds', async () => {
  const { id, client } = await make(maker)
  // Far more than the sockets of two connections hold where nobody reads: of a balancer, too.
  const [rows, wide] = [4_000_000, 'x'.repeat(100)]
  const headers = { 'content-type': 'application/json', accept: 'text/csv' }
  const response = await client.begin('/api/v1/query', headers, new AbortController().signal, {
    method: 'POST',
    body: JSON.stringify({
      sql: `SELECT p.id, r.n, '${wide}' AS wide FROM crm.people p, range(${rows}) r(n) WHERE p.id = 1`,
    }),
  })
  assert.equal(response.status, 200, await (response.ok ? '' : response.text()))
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  await reader.read()
  assert.equal((await maker.send(`${KEYS}/${id}`, { method: 'DELETE' })).status, 204)
  // Nobody reads meanwhile, so that the statement waits; it is ended all the same.
  await new Promise((resolve) => setTimeout(resolve, 5_000))
  const fetched = (async () => {
    while (!(await reader.read()).done);
  })()
  // A client that has waited for minutes gives up by itself, which is no end.
  const isCutOff = ({ cause }: Error) => (cause as { readonly code?: string }).code !== 'UND_ERR_BODY_TIMEOUT'
  await assert.rejects(fetched, isCutOff, 'it is cut off before its end')
})

it('reads restricted products only where it names them, on record', async () => {
  const files = manifests('public.key_people')
  const restricted = { ...files, product: `${files.product}classification: restricted\n` }
  await owner.upload('/api/v1/products/people/manifests', restricted)
  assert.equal((await owner.post('/api/v1/products/people/deploy', { version: '1.1.0', dry_run: false })).status, 201)
  await syncNow(owner)
  await owner.post(grants, { subject: { user: 'mo' }, may: 'read' })
  const [any, named] = [await make(maker), await make(maker, { products: ['people'] })]
  assert.equal((await maker.get(LATEST)).status, 200)
  assert.deepEqual(verdict(await any.client.get(LATEST)), [403, 'product_forbidden'])
  assert.equal((await named.client.get(LATEST)).status, 200)
  const { data } = (await owner.get('/api/v1/audit?limit=20')).body
  assert.ok(
    data.some((record: Json) => record.action === 'read.lookup' && JSON.stringify(record.actor).includes(named.id)),
  )
  const isRecorded = async () =>
    (await owner.get('/api/v1/audit?limit=20')).body.data.some(
      (record: Json) => record.action === 'read.query' && JSON.stringify(record.actor).includes(named.id),
    )
  for (const sql of ["SELECT 'crm.people'", 'SELECT 1 -- crm.people', 'SELECT 1 /* FROM crm.people */']) {
    assert.equal((await named.client.post('/api/v1/query', { sql })).status, 200)
    assert.ok(!(await isRecorded()), `${sql} reads nothing of it`)
  }
  assert.equal((await named.client.post('/api/v1/query', { sql: 'SELECT count(*) FROM crm . "People"' })).status, 200)
  assert.ok(await isRecorded())
})

it('ends when it is revoked, when its maker loses the group or leaves, and with its tenant', async () => {
  const key = await make(maker, { products: ['people'] })
  assert.equal((await key.client.get(LATEST)).status, 200)
  assert.equal((await owner.send(`${KEYS}/${key.id}`, { method: 'DELETE' })).status, 204)
  assert.deepEqual(verdict(await key.client.get(LATEST)), [401, 'token_invalid'])
  assert.equal((await owner.send(`${KEYS}/${key.id}`, { method: 'DELETE' })).status, 404)
  // The token of a member who is one no longer.
  const left = await make(maker, { products: ['people'] })
  const without = await world.as(world.tenants[0], null, 'mo')
  await without.get('/api/v1/products')
  assert.equal((await left.client.get(LATEST)).status, 403)
  assert.deepEqual(verdict(await left.client.get('/api/v1/products')), [403, 'member_required'])
  const gone = await owner.send(`${KEYS}?created_by=mo`, { method: 'DELETE' })
  assert.ok(gone.body.revoked.includes(left.id))
  assert.deepEqual(verdict(await left.client.get(LATEST)), [401, 'token_invalid'])
  const [, doomed] = world.tenants
  const last = await make(await world.as(doomed, 'svc-developers', 'olga'))
  assert.equal((await last.client.get('/api/v1/products')).status, 200)
  await world.admin.send(`/api/v1/tenants/${doomed}?confirm=${doomed}`, { method: 'DELETE' })
  assert.deepEqual(verdict(await last.client.get('/api/v1/products')), [401, 'token_invalid'])
})
