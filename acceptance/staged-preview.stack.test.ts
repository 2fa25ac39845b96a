/** Versions beside the one in service: who reads them, what becomes of them, and what readers see meanwhile. HTTP only. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Answer, Client, type Json, manifests, ok } from './client.ts'
import { deployVersion, onboardPeople, openWorld, type World } from './world.ts'

const PEOPLE = '/api/v1/products/crm.people'
const PREVIEW = `${PEOPLE}@preview`
/** In every address, and in nothing else. */
const PLAIN = '@staged.test'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: seen, type: date }
`
const ENDPOINTS = `  - { type: lookup, config: { index_columns: [id, city] } }
  - { type: realtime, config: { key_template: "{id}" } }
  - { type: timeseries, config: { time_column: seen } }
`

let world: World
let admin: Client
let owner: Client
let colleague: Client
let viewer: Client
let stranger: Client
let app: Client

before(async () => {
  world = await openWorld()
  const [tenant, other] = world.tenants
  await world.source.query(`
    CREATE TABLE people (id integer PRIMARY KEY, email text, city text, seen date);
    INSERT INTO people SELECT i, 'p' || i || '${PLAIN}', 'city ' || i % 3, date '2026-01-01' + i FROM generate_series(1, 30) i`)
  await world.createTenant(tenant)
  await world.createTenant(other)
  admin = new Client(world.deployment.url, await world.deployment.token(['--role', 'admin']))
  owner = await world.as(tenant, 'svc-developers', 'dora')
  colleague = await world.as(tenant, 'svc-developers', 'carl')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  stranger = await world.as(other, 'svc-developers', 'olga')
  await onboardPeople(world, owner, saying('city'))
  const { token } = await ok(owner.post('/api/v1/application-keys', { name: 'app' }))
  app = new Client(world.deployment.url, token)
})

after(() => world?.close())

/** Manifests whose column `city` is that expression. */
function saying(city: string, checks = '  - { name: id_unique, unique: [id] }\n'): Readonly<Record<string, string>> {
  const files = manifests('public.people', { columns: COLUMNS, endpoints: ENDPOINTS })
  const transform = `SELECT id, email, ${city} AS city, seen FROM source`
  return {
    ...files,
    quality: `apiVersion: svc/v1\nkind: Quality\nchecks:\n${checks}`,
    compute: `${files.compute}transform: ${JSON.stringify(transform)}\n`,
  }
}

async function stage(version: string, files: Readonly<Record<string, string>>): Promise<Answer> {
  await ok(owner.upload(`${PEOPLE}/manifests`, files))
  return owner.post(`${PEOPLE}/deploy`, { version, dry_run: false, stage: 'preview' })
}

/** Its run has ended well. */
async function staged(version: string, files: Readonly<Record<string, string>>): Promise<Json> {
  const made = await ok(stage(version, files))
  const run = await owner.untilEnded(made.run_id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  return made
}

const sql = (client: Client, name: string): Promise<Answer> =>
  client.post('/api/v1/query', { sql: `SELECT city, email FROM crm."${name}" WHERE id = 1` })

/** Every door by which rows are read. */
const DOORS: Readonly<Record<string, (client: Client, product: string) => Promise<Answer>>> = {
  lookup: (client, product) => client.get(`/api/v1/products/${product}/latest?filter=id:1`),
  realtime: (client, product) => client.get(`/api/v1/products/${product}/realtime?key=1`),
  timeseries: (client, product) => client.get(`/api/v1/products/${product}/timeseries?from=2026-01-02&to=2026-01-02`),
  keys: (client, product) => client.post('/api/v1/read', { items: [{ product, store: 'lookup', keys: [1] }] }),
  query: (client, product) => sql(client, product.split('.')[1] ?? product),
  changes: (client, product) => client.get(`/api/v1/products/${product}/changes`),
  export: (client, product) =>
    client.post('/api/v1/exports', { sql: `SELECT * FROM crm."${product.split('.')[1] ?? product}"`, format: 'csv' }),
  document: (client, product) => client.get(`/api/v1/products/${product}/openapi.json`),
  quality: (client, product) => client.get(`/api/v1/products/${product}/quality`),
  snapshots: (client, product) => client.get(`/api/v1/products/${product}/snapshots`),
  page: (client, product) => client.get(`/api/v1/products/${product}`),
  iceberg: (client, product) =>
    client.get(
      `/iceberg/v1/lakehouse_${world.tenants[0].replaceAll('-', '_')}/namespaces/crm/tables/${product.split('.')[1] ?? product}`,
    ),
}

const cityOf = async (client: Client, product: string): Promise<string> =>
  (await ok(client.get(`/api/v1/products/${product}/latest?filter=id:1`))).data[0].city

async function refused(answer: Promise<Answer>, status: number, code: string): Promise<void> {
  const { status: got, body } = await answer
  assert.deepEqual([got, body.code], [status, code], JSON.stringify(body))
}

const preview = async (): Promise<Json> => (await ok(owner.get(PEOPLE))).preview
const untilGone = (): Promise<void> => until('the preview is gone', async () => (await preview()) === null)

/** Reads without a pause while `work` is done, and until `isNew`; no read fails, and each is of what it may be of. */
async function readThroughout(may: readonly string[], last: string, work: () => Promise<unknown>): Promise<void> {
  const seen = new Set<string>()
  let isDone = false
  const reading = (async () => {
    while (!isDone || !seen.has(last)) {
      const { status, body } = await viewer.get(`${PEOPLE}/latest?filter=id:1`)
      assert.equal(status, 200, JSON.stringify(body))
      seen.add(body.data[0].city)
    }
  })()
  await Promise.all([work().finally(() => (isDone = true)), reading])
  assert.deepEqual(
    [...seen].filter((city) => !may.includes(city)),
    [],
  )
  assert.equal([...seen].at(-1), last)
}

describe('a preview', () => {
  it('is read beside the version in service by developers, masked as it would be, by every way', async () => {
    await readThroughout(['city 1'], 'city 1', () => staged('1.1.0', saying("upper(city) || '!'")))
    assert.equal(await cityOf(owner, 'crm.people@preview'), 'CITY 1!')
    assert.equal(await cityOf(colleague, 'people@preview'), 'CITY 1!')
    assert.equal(await cityOf(owner, 'crm.people'), 'city 1')
    const look = await ok(owner.get(`${PREVIEW}/latest?filter=id:1`))
    assert.deepEqual(look.meta.masked_columns, ['email'])
    assert.equal(look.meta.version, '1.1.0')
    const cached = await ok(owner.get(`${PREVIEW}/realtime?key=1`))
    assert.equal(JSON.stringify(cached).includes('CITY 1!'), true)
    const over = await ok(owner.get(`${PREVIEW}/timeseries?from=2026-01-02&to=2026-01-02`))
    assert.equal(over.data[0].city, 'CITY 1!')
    const asked = await ok(sql(owner, 'people@preview'))
    assert.equal(asked.rows[0][0], 'CITY 1!')
    const both = 'SELECT a.city, b.city FROM crm.people a JOIN crm."people@preview" b USING (id) WHERE id = 1'
    assert.deepEqual((await ok(owner.post('/api/v1/query', { sql: both }))).rows, [['city 1', 'CITY 1!']])
    for (const answer of [look, cached, over, asked]) assert.ok(!JSON.stringify(answer).includes(PLAIN))
    const shown = await preview()
    assert.deepEqual(
      [shown.product, shown.version, shown.state, shown.made_by],
      ['crm.people@preview', '1.1.0', 'served', 'dora'],
    )
    const days = (Date.parse(shown.ends_at) - Date.now()) / 86_400_000
    assert.ok(days > 6 && days < 8, shown.ends_at)
  })

  it('is not there for viewers, strangers and applications, by name, by id, or in any list', async () => {
    const { product_id: id } = (await ok(admin.get(`${PEOPLE}/deployments`, { 'x-tenant-id': world.tenants[0] })))
      .data[0]
    assert.ok(id)
    const run = (await ok(owner.get('/api/v1/ingestion'))).data.find(
      (one: Json) => one.products?.[0]?.name === 'crm.people@preview',
    )
    assert.ok(run, 'its developers are told of its run')
    const previewId = run.products[0].id
    for (const [door, open] of Object.entries(DOORS)) {
      for (const product of ['crm.people@preview', 'people@preview', previewId]) {
        if (product === previewId && ['query', 'export', 'iceberg'].includes(door)) continue
        for (const [who, client] of Object.entries({ viewer, stranger, app })) {
          const { status, body } = await open(client, product)
          const text = JSON.stringify(body)
          const isNone =
            status === 404 ||
            status === 403 ||
            text.includes('_not_found') ||
            (door === 'query' && status === 422) ||
            door === 'export'
          assert.ok(isNone, `${who} by ${door} of ${product}: ${status} ${text}`)
          for (const row of ['CITY', PLAIN, '1.1.0']) assert.ok(!text.includes(row), `${who} by ${door}: ${text}`)
        }
      }
    }
    for (const client of [viewer, app]) {
      for (const path of ['/api/v1/products', '/api/v1/ingestion', `${PEOPLE}`, `/api/v1/ingestion/${run.id}`]) {
        const { body } = await client.get(path)
        assert.ok(!JSON.stringify(body).includes('@preview'), `${path}: ${JSON.stringify(body)}`)
      }
      const names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'crm'"
      const { body } = await client.post('/api/v1/query', { sql: names })
      assert.ok(!JSON.stringify(body).includes('@preview'), JSON.stringify(body))
    }
    const listed = (await ok(owner.get('/api/v1/products'))).data.map((one: Json) => one.name)
    assert.deepEqual(listed, ['people'])
  })

  it('is changed by its product alone', async () => {
    for (const work of [
      owner.post(`${PREVIEW}/materialize`),
      owner.post(`${PREVIEW}/deploy`, { version: '1.2.0' }),
      owner.upload(`${PREVIEW}/manifests`, saying('city')),
      owner.post(`${PREVIEW}/grants`, { subject: { user: 'vito' }, may: 'read' }),
      owner.post(`${PREVIEW}/rollback`, { version: '1.1.0' }),
      owner.send(PREVIEW, { method: 'DELETE' }),
      owner.send(PREVIEW, {
        method: 'PATCH',
        headers: { 'content-type': 'application/json' },
        body: '{"description":"x"}',
      }),
    ]) {
      await refused(work, 404, 'product_not_found')
    }
    await refused(stage('1.2.0', saying("'other'")), 409, 'preview_exists')
    await refused(owner.send(PEOPLE, { method: 'DELETE' }), 409, 'preview_exists')
    for (const [method, path] of [
      ['POST', 'promote'],
      ['DELETE', 'preview'],
    ] as const) {
      const headers = { 'content-type': 'application/json' }
      const act = (client: Client) =>
        client.send(`${PEOPLE}/${path}`, { method, ...(method === 'POST' ? { headers, body: '{}' } : {}) })
      assert.equal((await act(viewer)).status, 403)
      assert.equal((await act(app)).status, 403)
      assert.equal((await act(stranger)).status, 404)
    }
    const usage = (await ok(admin.get(`/api/v1/tenants/${world.tenants[0]}`))).usage
    assert.equal(usage.products, 2, JSON.stringify(usage))
  })

  it('follows no sync, and a version that is deployed meanwhile leaves it as it is', async () => {
    await world.source.query("UPDATE people SET city = 'town' WHERE id = 1")
    const { id } = await ok(owner.post('/api/v1/connections/db/sync'))
    const run = await owner.untilEnded(id)
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    assert.deepEqual(
      run.products.map((one: Json) => one.name),
      ['crm.people'],
    )
    assert.equal(await cityOf(viewer, 'crm.people'), 'town')
    assert.equal(await cityOf(owner, 'crm.people@preview'), 'CITY 1!')
  })

  it('is promoted by who reviewed it, judged anew, while readers go on reading', async () => {
    await refused(colleague.post(`${PEOPLE}/promote`, {}), 409, 'draft_of_another')
    await refused(owner.post(`${PEOPLE}/promote`, { digest: 'of another' }), 409, 'plan_changed')
    const { digest } = await preview()
    // Whoever may not read the sources does not put in service what another one has previewed.
    await refused(colleague.post(`${PEOPLE}/promote`, { digest }), 403, 'raw_table_forbidden')
    await readThroughout(['town', 'TOWN!'], 'TOWN!', async () => {
      const made = await ok(owner.post(`${PEOPLE}/promote`, { digest }))
      assert.equal(made.deployment.version, '1.1.0')
      await refused(owner.get(`${PREVIEW}/latest?filter=id:1`), 404, 'product_not_found')
      const run = await owner.untilEnded(made.run_id)
      assert.equal(run.state, 'succeeded', JSON.stringify(run))
    })
    assert.equal((await ok(viewer.get(PEOPLE))).current_version, '1.1.0')
    await untilGone()
    await refused(owner.post(`${PEOPLE}/promote`, {}), 404, 'preview_not_found')
    assert.equal((await ok(admin.get(`/api/v1/tenants/${world.tenants[0]}`))).usage.products, 1)
  })

  it('is not promoted over a version that came into service meanwhile, whichever comes first', async () => {
    await staged('2.0.0', saying("'two'"))
    await ok(owner.upload(`${PEOPLE}/manifests`, saying("'three'")))
    const [promoted, deployed] = await Promise.all([
      owner.post(`${PEOPLE}/promote`, {}),
      owner.post(`${PEOPLE}/deploy`, { version: '3.0.0', dry_run: false }),
    ])
    // Each is judged against the version in service: where the other has taken its place meanwhile, it is refused.
    for (const { status, body } of [promoted, deployed]) {
      assert.ok(status === 201 || (status === 409 && body.code === 'plan_changed'), JSON.stringify(body))
    }
    for (const { body } of [promoted, deployed]) if (body.run_id) await owner.untilEnded(body.run_id)
    const { current_version: version } = await ok(owner.get(PEOPLE))
    assert.ok(version === '2.0.0' || version === '3.0.0', `one of them is in service, and not ${version}`)
    const inService = version === '3.0.0' ? deployed : promoted
    assert.equal(inService.status, 201, 'what was refused is not in service')
    const city = version === '3.0.0' ? 'three' : 'two'
    await until(`rows of ${version} are read`, async () => (await cityOf(viewer, 'crm.people')) === city)
    if (promoted.status !== 201) await ok(owner.send(`${PEOPLE}/preview`, { method: 'DELETE' }))
    await untilGone()
  })

  it('has failing checks of its own, which keep nobody from reading the version in service', async () => {
    const made = await ok(
      stage('4.0.0', saying("'four'", '  - { name: of_five, accepted_values: { column: city, values: [five] } }\n')),
    )
    const run = await owner.untilEnded(made.run_id)
    assert.equal(run.state, 'failed', JSON.stringify(run))
    await refused(owner.get(`${PREVIEW}/latest?filter=id:1`), 409, 'not_materialized')
    assert.ok(['two', 'three'].includes(await cityOf(viewer, 'crm.people')))
    await ok(owner.send(`${PEOPLE}/preview`, { method: 'DELETE' }))
    await refused(owner.get(`${PREVIEW}/latest?filter=id:1`), 404, 'product_not_found')
    await untilGone()
  })
})

/** Waits until the runtime has ended at its fault point, and starts one without any. */
async function killedAt(point: string, startAgain: () => Promise<unknown>): Promise<void> {
  await until(`it is killed at ${point}`, () =>
    owner.get('/healthz').then(
      () => false,
      () => true,
    ),
  )
  delete process.env['SLUICE_FAULT']
  await startAgain()
}

describe('a runtime that dies', () => {
  const POINTS = [
    'preview.writers-stopped',
    'preview.copies-dropped',
    'preview.tables-dropped',
    'preview.files-removed',
  ]

  it('while it removes a preview has it removed by the next, and another preview begins empty', async (t) => {
    const { crash } = world.deployment
    if (crash === null) return t.skip('the deployment was not started here')
    const before = await cityOf(viewer, 'crm.people')
    for (const [at, point] of POINTS.entries()) {
      process.env['SLUICE_FAULT'] = `${point}@1`
      await crash()
      await staged(`5.${at}.0`, saying(`'five ${at}'`))
      assert.equal(await cityOf(owner, 'crm.people@preview'), `five ${at}`)
      await ok(owner.send(`${PEOPLE}/preview`, { method: 'DELETE' }))
      await killedAt(point, crash)
      await refused(owner.get(`${PREVIEW}/latest?filter=id:1`), 404, 'product_not_found')
      await untilGone()
      assert.equal(await cityOf(viewer, 'crm.people'), before)
    }
    assert.equal((await ok(admin.get(`/api/v1/tenants/${world.tenants[0]}`))).usage.products, 1)
  })

  it('while it promotes one leaves either the old version in service or the new', async (t) => {
    const { crash } = world.deployment
    if (crash === null) return t.skip('the deployment was not started here')
    for (const [at, point] of ['materializer.before-commit@2', 'materializer.after-commit@2'].entries()) {
      const old = await cityOf(viewer, 'crm.people')
      process.env['SLUICE_FAULT'] = point
      await crash()
      await staged(`6.${at}.0`, saying(`'six ${at}'`))
      await ok(owner.post(`${PEOPLE}/promote`, {}))
      await killedAt(point, crash)
      await readThroughout([old, `six ${at}`], `six ${at}`, async () => undefined)
      await untilGone()
    }
    await deployVersion(owner, 'crm.people', '7.0.0', saying('city'))
  })
})
