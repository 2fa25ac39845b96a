/** PyIceberg and DuckDB as clients of a running catalog: what they read, what they write, and what they are refused. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { Client, type Json, manifests } from '../../acceptance/client.ts'
import { type Deployment, openDeployment } from '../../acceptance/deployment.ts'

const TENANT = `lake-${Date.now().toString(36)}`
const ROWS = 50
const script = new URL('clients.py', import.meta.url).pathname

let deployment: Deployment
let source: pg.Client
let admin: Client
let developer: Client
let tokens: Readonly<Record<'admin' | 'developer' | 'viewer' | 'cleared', string>>

const as = (user: string, group: string) => deployment.token(['--tenant', TENANT, '--group', group, '--user', user])

before(async () => {
  deployment = await openDeployment()
  source = new pg.Client(deployment.source)
  await source.connect()
  await source.query(`CREATE TABLE people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO people SELECT i, 'a' || i || '@example.org', 'city ' || i % 3 FROM generate_series(1, ${ROWS}) i`)
  tokens = {
    admin: await deployment.token(['--role', 'admin']),
    developer: await as('dora', 'svc-developers'),
    viewer: await as('vito', 'svc-viewers'),
    cleared: await as('cleo', 'svc-viewers'),
  }
  admin = new Client(deployment.url, tokens.admin)
  developer = new Client(deployment.url, tokens.developer)
  await expectStatus(201, admin.post('/api/v1/tenants', { slug: TENANT, display_name: TENANT, tier: 'standard' }))
  const { host, port, user, password, database } = deployment.source
  const config_encrypted = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  const connection = { name: 'db', connector_type: 'postgresql', config_encrypted }
  await expectStatus(201, developer.post('/api/v1/connections', connection))
  await deploy('people', manifests('public.people'))
  await granted('cleo')
  const run = await expectStatus(202, developer.post('/api/v1/connections/db/sync'))
  assert.equal((await developer.untilEnded(run.id)).state, 'succeeded')
})

after(async () => {
  await admin?.send(`/api/v1/tenants/${TENANT}?confirm=${TENANT}`, { method: 'DELETE' })
  await source?.end()
  await deployment?.stop()
})

async function expectStatus(status: number, answer: ReturnType<Client['post']>): Promise<Json> {
  const { status: found, body } = await answer
  assert.equal(found, status, JSON.stringify(body))
  return body
}

async function deploy(name: string, files: Readonly<Record<string, string>>): Promise<Json> {
  const request = { name, namespace: 'crm', archetype: 'source_aligned', description: '' }
  const product = await expectStatus(201, developer.post('/api/v1/products', request))
  await expectStatus(200, developer.upload(`/api/v1/products/${product.id}/manifests`, files))
  return expectStatus(
    201,
    developer.post(`/api/v1/products/${product.id}/deploy`, { version: '1.0.0', dry_run: false }),
  )
}

async function granted(user: string): Promise<void> {
  const grant = { subject: { user }, may: 'unmask', classes: ['pii.identifier'] }
  await expectStatus(201, developer.post('/api/v1/products/people/grants', grant))
}

async function python(command: string, settings: Readonly<Record<string, unknown>>): Promise<Json> {
  const child = spawn(process.env['SLUICE_TEST_ICEBERG_PYTHON'] ?? 'python3', [script, command], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(JSON.stringify({ url: deployment.url, warehouse: TENANT, ...settings }))
  const [answer, said] = await Promise.all([text(child.stdout), text(child.stderr)])
  assert.notEqual(answer, '', `${command}: ${said}`)
  return JSON.parse(answer)
}

async function query(sql: string): Promise<Json> {
  return (await expectStatus(200, developer.post('/api/v1/query', { sql }))).rows
}

describe('PyIceberg over REST', () => {
  it('reads the variant of its reader’s clearance, at every snapshot', async () => {
    const masked = await python('read', { token: tokens.viewer })
    assert.deepEqual(Object.keys(masked), ['crm.people'])
    assert.equal(masked['crm.people'].rows.length, ROWS)
    assert.ok(!JSON.stringify(masked).includes('@example.org'))
    const clear = await python('read', { token: tokens.cleared })
    const emails = clear['crm.people'].rows.map((row: Json) => row.email).sort()
    assert.deepEqual(emails, Array.from({ length: ROWS }, (_, at) => `a${at + 1}@example.org`).sort())
    assert.equal(clear['crm.people'].snapshots.length, 1)
    const comments = { id: 'class public', email: 'class pii.identifier', city: 'class public' }
    assert.deepEqual(clear['crm.people'].comments, comments)
    const hidden = `${comments.email}; masked for you: hash`
    assert.deepEqual(masked['crm.people'].comments, { ...comments, email: hidden })
    const named = { token: tokens.admin, headers: { 'X-Tenant-Id': TENANT } }
    assert.equal((await python('read', named))['crm.people'].rows.length, ROWS)
  })

  it('makes, changes, renames and drops tables of the sandbox, which queries then read', async () => {
    const written = await python('write', { token: tokens.developer })
    assert.deepEqual(written.now, [
      { id: 1, title: 'one', score: 10 },
      { id: 3, title: 'n3', score: null },
      { id: 4, title: 'n4', score: null },
      { id: 5, title: 'n5', score: 50 },
    ])
    assert.deepEqual(
      written.before.map((row: Json) => row.id),
      [1, 2, 3, 4],
    )
    assert.deepEqual(written.properties, { color: 'blue' })
    assert.deepEqual(written.tables, ['sandbox.moved', 'sandbox.people', 'sandbox.staged'])
    assert.deepEqual(written.moved, [
      { id: 7, name: 'n7' },
      { id: 8, name: 'n8' },
    ])
    assert.deepEqual(written.staged, [{ id: 9, name: 'n9' }])
    assert.deepEqual(await query('SELECT id, title, score FROM sandbox.people ORDER BY id'), [
      [1, 'one', 10],
      [3, 'n3', null],
      [4, 'n4', null],
      [5, 'n5', 50],
    ])
    assert.deepEqual(await query('SELECT count(*) FROM sandbox.moved'), [[2]])
  })

  it('is refused what is not a writer’s, with the reason', async () => {
    const refused = await python('refused', { token: tokens.developer })
    for (const name of ['commit', 'properties', 'drop', 'rename', 'create', 'namespace']) {
      assert.match(refused[name]?.[1] ?? name, /UnprocessableEntityException.*"sandbox"/, name)
    }
    assert.equal(refused.sandbox, null)
    assert.match(refused.nested?.[1] ?? '', /type that Sluice cannot read/)
    assert.match(refused.location?.[1] ?? '', /chooses where a table lies/)
    assert.equal(refused.missing?.[0], 'NoSuchTableError')
    assert.match(refused.credential?.[1] ?? '', /issues no tokens/)
    assert.match(refused.warehouse?.[1] ?? '', /no such warehouse/)
    const viewer = await python('refused', { token: tokens.viewer })
    for (const name of ['commit', 'drop', 'rename', 'create', 'namespace', 'sandbox']) {
      assert.match(viewer[name]?.[1] ?? name, /svc-developers/, name)
    }
  })

  it('loses nothing of eight writers to one table', async () => {
    const writers = 8
    const commits = 3
    const { failures, ids, snapshots, lost } = await python('race', { token: tokens.developer, writers, commits })
    console.log(`${writers * commits} commits, ${lost} lost races seen by the writers`)
    assert.deepEqual(failures, [])
    const expected = Array.from({ length: writers }, (_, writer) =>
      Array.from({ length: commits }, (_, commit) => writer * 1000 + commit),
    ).flat()
    assert.deepEqual(ids, expected)
    assert.equal(snapshots, writers * commits)
  })
})

describe('DuckDB’s iceberg extension', () => {
  it('reads products, masked', async () => {
    const rows = await python('duck_read', { token: tokens.viewer })
    assert.equal(rows.length, ROWS)
    assert.deepEqual([rows[6][0], rows[6][2]], [7, 'city 1'])
    assert.ok(!JSON.stringify(rows).includes('@example.org'))
  })

  it('makes tables of the sandbox, adds, deletes and updates rows, which queries then read', async () => {
    const { found, refused } = await python('duck_write', { token: tokens.developer })
    assert.match(refused.product?.[1] ?? 'not refused', /sandbox/)
    const kept = Array.from({ length: 100 }, (_, id) => id).filter((id) => id % 10 !== 5)
    const sum = [...kept, 1000, 1001].reduce((total, id) => total + id, 0)
    const left = [...kept, 1000, 1001].length
    assert.deepEqual(found, [[left, sum, 1]])
    assert.deepEqual(
      await query("SELECT count(*), sum(id)::BIGINT, count(*) FILTER (name = 'changed') FROM sandbox.duck"),
      [[left, sum, 1]],
    )
  })
})

describe('a product', () => {
  it('reads a table of the sandbox', async () => {
    const columns = '  - { name: id, type: long, role: identity, nullable: false }\n  - { name: title, type: string }\n'
    const files = manifests('people', { columns, endpoints: '  - type: lookup\n' })
    const answer = await deploy('titles', {
      ...files,
      product: files.product.replace('name: people', 'name: titles'),
      inputs: files.inputs.replace('connection: db', 'connection: sandbox'),
    })
    const run = answer.run_id ?? (await developer.post('/api/v1/products/titles/materialize')).body.id
    assert.equal((await developer.untilEnded(run)).state, 'succeeded')
    assert.deepEqual(await query('SELECT id, title FROM crm.titles ORDER BY id'), [
      [1, 'one'],
      [3, 'n3'],
      [4, 'n4'],
      [5, 'n5'],
    ])
  })
})

describe('PyIceberg’s SQL catalog', () => {
  it('reads plain tables and masked twins with the tenant’s login, and changes nothing', async () => {
    await expectStatus(403, developer.post(`/api/v1/tenants/${TENANT}/catalog-login`))
    const { catalog, uri } = await expectStatus(201, admin.post(`/api/v1/tenants/${TENANT}/catalog-login`))
    const { tables, rows, comments, refused } = await python('sql', { catalog, uri })
    assert.ok(tables.includes('crm.people__masked') && tables.includes('sandbox.people'), tables.join())
    assert.ok(!tables.includes('crm.people') && !tables.some((name: string) => name.startsWith('raw_')), tables.join())
    assert.equal(rows['crm.people__masked'].length, ROWS)
    assert.deepEqual(comments['crm.people__masked'], {
      id: 'class public',
      email: 'class pii.identifier; masked: hash',
      city: 'class public',
    })
    assert.ok(!JSON.stringify(rows).includes('@example.org'))
    assert.match(refused.create?.[1] ?? 'not refused', /read-only|permission/)
    assert.match(refused.drop?.[1] ?? 'not refused', /read-only|permission/)
    await expectStatus(204, admin.send(`/api/v1/tenants/${TENANT}/catalog-login`, { method: 'DELETE' }))
    await assert.rejects(python('sql', { catalog, uri }), /authentication failed/)
  })
})
