/** Versions of a product: deployed, looked at, and gone back to. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id], history_mode: type_2, tracked_columns: [city] }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`

let world: World
let developer: Client
let viewer: Client
let product: Json

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS versions_people;
    CREATE TABLE versions_people (id integer PRIMARY KEY, email text, city text, note text);
    INSERT INTO versions_people SELECT i, 'a' || i || '@v.test', 'old', 'n' || i FROM generate_series(1, 20) i`)
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  const first = manifests('public.versions_people', { columns: COLUMNS, endpoints: ENDPOINTS })
  product = await onboardPeople(world, developer, first)
  await world.source.query(
    "UPDATE versions_people SET city = 'new' WHERE id <= 5; DELETE FROM versions_people WHERE id > 18",
  )
  await syncNow(developer)
  const columns = `${COLUMNS}  - { name: note, type: string }\n`
  const second = manifests('public.versions_people', { columns, endpoints: ENDPOINTS })
  const said = 'owner: { team: crm-team, email: crm@v.example }\ntags: [people, gdpr]\nslo: { availability: 99.9 }\n'
  await deployVersion(developer, product.id, '1.1.0', { ...second, product: `${second.product}${said}` })
})

after(() => world?.close())

async function latest(client: Client, id: number): Promise<Json> {
  const { status, body } = await client.get(`/api/v1/products/people/latest?filter=id:${id}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const realtime = (client: Client, id: number) => client.get(`/api/v1/products/people/realtime?key=${id}`)

/** Reads go on meanwhile: each is answered by the old shape or the new one. */
async function whileRead<T>(work: () => Promise<T>): Promise<T> {
  const done = new AbortController()
  const refusals = new Set<string>()
  const readers = [developer, viewer].map(async (client) => {
    while (!done.signal.aborted) {
      const { status, body } = await client.get(`/api/v1/products/people/latest?filter=id:3`)
      if (status !== 200) refusals.add(body.code)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })
  const result = await work().finally(() => done.abort())
  await Promise.all(readers)
  assert.deepEqual([...refusals], [])
  return result
}

async function rollBack(target: Json): Promise<Json> {
  const answer = await developer.post(`/api/v1/products/${product.id}/rollback`, target)
  assert.equal(answer.status, 202, JSON.stringify(answer.body))
  assert.equal(answer.headers.get('location'), `/api/v1/ingestion/${answer.body.run_id}`)
  const run = await developer.untilEnded(answer.body.run_id)
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  return answer.body
}

describe('versions', () => {
  it('lists what was deployed, with the manifests of each', async () => {
    const { body } = await viewer.get(`/api/v1/products/${product.id}`)
    assert.deepEqual([body.current_version, body.status], ['1.1.0', 'deployed'])
    assert.deepEqual(
      body.versions.map((one: Json) => one.version),
      ['1.1.0', '1.0.0'],
    )
    assert.deepEqual(
      [body.owner, body.tags, body.availability],
      [{ team: 'crm-team', email: 'crm@v.example' }, ['people', 'gdpr'], { objective_percent: 99.9 }],
    )
    const first = await viewer.get(`/api/v1/products/${product.id}/manifests/1.0.0`)
    assert.ok(!first.body.manifests.output.includes('note'))
    assert.equal((await viewer.get(`/api/v1/products/${product.id}/manifests/9.9.9`)).status, 404)
    assert.deepEqual((await latest(viewer, 3)).data[0].note, 'n3')
  })

  it('goes back to a version: a new epoch with its content and its columns in every store', async () => {
    const before = (await latest(developer, 3)).meta
    const { deployment } = await whileRead(() => rollBack({ version: '1.0.0' }))
    assert.equal(deployment.kind, 'rollback')
    for (const client of [developer, viewer]) {
      const { data, meta } = await latest(client, 3)
      assert.deepEqual([data[0].city, 'note' in data[0]], ['new', false])
      assert.deepEqual([meta.version, meta.epoch], ['1.0.0', before.epoch + 1])
      assert.deepEqual((await latest(client, 19)).data, [])
      assert.equal((await realtime(client, 3)).body.data[0].city, 'new')
    }
    const query = await viewer.post('/api/v1/query', { sql: 'SELECT count(*), count(DISTINCT email) FROM crm.people' })
    assert.deepEqual(query.body.rows, [[18, 18]])
    assert.ok(!JSON.stringify((await latest(viewer, 3)).data).includes('@v.test'))
    const { body } = await viewer.get(`/api/v1/products/${product.id}`)
    assert.equal(body.current_version, '1.0.0')
    assert.deepEqual(
      [body.owner, body.tags, body.availability],
      [{ team: null, email: null }, [], { objective_percent: null }],
    )
    const deployments = await viewer.get(`/api/v1/products/${product.id}/deployments`)
    assert.deepEqual([deployments.body.data[0].id, deployments.body.data[0].state], [deployment.id, 'succeeded'])
  })

  it('goes back to a snapshot, and tells the history what happened', async () => {
    const { body } = await viewer.get(`/api/v1/products/${product.id}/snapshots`)
    const oldest = body.data.at(-1)
    const { body: before } = await developer.get(`/api/v1/products/people/latest?filter=id:3&history=true`)
    await rollBack({ snapshot_id: oldest.snapshot_id })
    for (const client of [developer, viewer]) {
      assert.equal((await latest(client, 3)).data[0].city, 'old')
      assert.equal((await latest(client, 19)).data.length, 1, 'what had been deleted is back')
      assert.equal((await realtime(client, 19)).status, 200)
    }
    const { body: after } = await developer.get(`/api/v1/products/people/latest?filter=id:3&history=true`)
    assert.equal(after.data.length, before.data.length + 1, 'a rollback is a change like any other')
    const newest = (await viewer.get(`/api/v1/products/${product.id}/snapshots`)).body.data[0]
    assert.deepEqual([newest.kind, newest.rows], ['rollback', oldest.rows])
  })

  it('stays there: syncs go on, and the product waits until it is resumed', async () => {
    const path = `/api/v1/products/${product.id}`
    const held = (await latest(viewer, 3)).meta
    const { body: queued } = await developer.post('/api/v1/connections/db/sync')
    const run = await developer.untilEnded(queued.id)
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    assert.ok(run.tables[0].rows_read > 0, 'the table was read')
    assert.deepEqual(
      run.products.map((one: Json) => [one.id, one.state, one.reason?.code, /resume/.test(one.reason?.remedy)]),
      [[product.id, 'skipped', 'product_paused', true]],
    )
    const { data, meta } = await latest(viewer, 3)
    assert.deepEqual([data[0].city, meta.epoch], ['old', held.epoch])
    const { body: shown } = await viewer.get(path)
    assert.deepEqual([shown.paused?.reason, shown.paused?.version], ['rollback', '1.0.0'])
    const again = await developer.post(`${path}/materialize`)
    assert.deepEqual([again.status, again.body.code], [409, 'product_paused'])
    const plan = await developer.post(`${path}/deploy`, { version: '1.2.0', dry_run: true })
    assert.ok(
      plan.body.plan?.notes.some((note: string) => note.includes('paused')),
      JSON.stringify(plan.body),
    )
    assert.equal((await viewer.post(`${path}/resume`)).status, 403)
  })

  it('goes on when it is resumed: the source as it is, by the old manifests', async () => {
    const path = `/api/v1/products/${product.id}`
    const resumed = await developer.post(`${path}/resume`)
    assert.equal(resumed.status, 202, JSON.stringify(resumed.body))
    assert.equal((await developer.untilEnded(resumed.body.id)).state, 'succeeded')
    assert.equal((await viewer.get(path)).body.paused, null)
    assert.equal((await developer.post(`${path}/resume`)).body.code, 'product_not_paused')
    const { data, meta } = await latest(viewer, 3)
    assert.deepEqual([data[0].city, 'note' in data[0], meta.version], ['new', false, '1.0.0'])
    assert.deepEqual((await latest(viewer, 19)).data, [])
  })

  it('refuses what is no target, and who may not deploy', async () => {
    const path = `/api/v1/products/${product.id}/rollback`
    for (const body of [{}, { version: '1.0.0', snapshot_id: '1' }, { version: 3 }, { snapshot_id: 'x' }]) {
      assert.equal((await developer.post(path, body)).status, 400, JSON.stringify(body))
    }
    assert.equal((await developer.post(path, { version: '7.0.0' })).body.code, 'version_not_found')
    assert.equal((await developer.post(path, { snapshot_id: '12345' })).body.code, 'snapshot_not_found')
    assert.equal((await viewer.post(path, { version: '1.0.0' })).status, 403)
  })

  it('plans a change that breaks readers, and names what stands against it', async () => {
    const without = COLUMNS.replace(/.*name: city.*\n/, '')
    assert.notEqual(without, COLUMNS)
    const path = `/api/v1/products/${product.id}`
    const breaking = manifests('public.versions_people', { columns: without, endpoints: '  - type: analytics\n' })
    assert.equal((await developer.upload(`${path}/manifests`, breaking)).status, 200)
    const wanted = { version: '1.9.0', dry_run: true }
    const { status, body } = await developer.post(`${path}/deploy`, wanted)
    assert.deepEqual([status, body.verdict, body.plan?.verdict], [200, 'breaking', 'breaking'], JSON.stringify(body))
    assert.deepEqual(
      body.plan.problems.map(({ code }: Json) => code),
      ['breaking_change'],
    )
    const refused = await developer.post(`${path}/deploy`, { ...wanted, dry_run: false })
    assert.deepEqual([refused.status, refused.body.code], [409, 'breaking_change'])
    const major = await developer.post(`${path}/deploy`, { version: '2.0.0', dry_run: true })
    assert.deepEqual([major.status, major.body.plan.problems], [200, []])
  })

  it('changes what a product says of itself', async () => {
    const path = `/api/v1/products/${product.id}`
    const change = { method: 'PATCH', headers: { 'content-type': 'application/json' } }
    const changed = await developer.send(path, { ...change, body: JSON.stringify({ description: 'who we know' }) })
    assert.deepEqual([changed.status, changed.body.description], [200, 'who we know'])
    assert.equal((await viewer.get(path)).body.description, 'who we know')
    assert.equal((await developer.send(path, { ...change, body: '{}' })).status, 400)
    assert.equal((await viewer.send(path, { ...change, body: JSON.stringify({ description: 'x' }) })).status, 403)
  })
})

describe('a rollback past a change of partitions', () => {
  const PLACED = `${COLUMNS}  - { name: region, type: string, nullable: true }\n`
  const files = (columns: string, partitioning: string) => {
    const all = manifests('public.versions_places', { columns, endpoints: '  - type: lookup\n  - type: analytics\n' })
    const product = all.product.replace('name: people', 'name: places')
    return { ...all, product, output: `${all.output}partitioning:\n${partitioning}` }
  }

  it('lays out the old rows as their own version has it', async () => {
    await world.source.query(`DROP TABLE IF EXISTS versions_places;
      CREATE TABLE versions_places (id integer PRIMARY KEY, email text, city text, region text);
      INSERT INTO versions_places SELECT i, 'a' || i || '@v.test', 'c' || i % 2, 'r' || i % 3 FROM generate_series(1, 9) i`)
    const wanted = { name: 'places', namespace: 'crm', archetype: 'source_aligned', description: '' }
    const { body: places } = await developer.post('/api/v1/products', wanted)
    await deployVersion(developer, places.id, '1.0.0', files(COLUMNS, '  - { column: city, transform: identity }\n'))
    await syncNow(developer)
    const byRegion = files(PLACED, '  - { column: region, transform: identity }\n')
    await deployVersion(developer, places.id, '1.1.0', byRegion)
    const { status, body } = await developer.post(`/api/v1/products/${places.id}/rollback`, { version: '1.0.0' })
    assert.equal(status, 202, JSON.stringify(body))
    const run = await developer.untilEnded(body.run_id)
    assert.equal(run.state, 'succeeded', JSON.stringify(run.error))
    const [tenant] = world.tenants
    for (const reader of [developer, await world.as(tenant, 'svc-viewers', 'vito')]) {
      const { body: counted } = await reader.post('/api/v1/query', {
        sql: 'SELECT city, count(*) FROM crm.places GROUP BY city ORDER BY city',
      })
      assert.deepEqual(counted.rows, [
        ['c0', 4],
        ['c1', 5],
      ])
    }
    const asAdmin = { 'x-tenant-id': tenant }
    for (const client of [viewer, world.admin]) {
      const table = `/iceberg/v1/${tenant}/namespaces/crm/tables/places`
      const { metadata } = (await client.get(table, client === viewer ? {} : asAdmin)).body
      assert.deepEqual(shapeOf(metadata), { partitioning: ['city'], sorting: ['id'] }, metadata.location)
    }
    const path = `/api/v1/products/${places.id}`
    assert.equal((await developer.get(path)).body.paused?.version, '1.0.0')
    await deployVersion(developer, places.id, '1.2.0', byRegion)
    assert.equal((await developer.get(path)).body.paused, null, 'a deployment ends the pause')
  })
})

describe('casts that lose something', () => {
  const LOSSY = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: price, type: "decimal(9,1)" }
  - { name: seen, type: date }
  - { name: pay, type: integer, classification: pii.financial }
  - { name: exact, type: double }
`
  const files = (allowed: string) => {
    const all = manifests('public.versions_casts', { columns: LOSSY, endpoints: '  - type: analytics\n' })
    return { ...all, product: all.product.replace('name: people', 'name: casts'), output: `${all.output}${allowed}` }
  }

  it('are refused in the plan by column, and counted where they are allowed', async () => {
    await world.source.query(`DROP TABLE IF EXISTS versions_casts;
      CREATE TABLE versions_casts (id integer PRIMARY KEY, price numeric(9,3), seen timestamp, pay numeric(9,2), exact real);
      INSERT INTO versions_casts SELECT i, i + 0.25, '2026-01-01'::timestamp + i % 2 * interval '1 hour', i + 0.5, i
        FROM generate_series(1, 10) i; INSERT INTO versions_casts VALUES (11, 1.5, '2026-01-01', 2, 0.5)`)
    const wanted = { name: 'casts', namespace: 'crm', archetype: 'source_aligned', description: '' }
    const { body: casts } = await developer.post('/api/v1/products', wanted)
    const path = `/api/v1/products/${casts.id}`
    for (const [allowed, refused] of [
      [
        '',
        [
          ['price', 1],
          ['seen', 2],
          ['pay', 3],
        ],
      ],
      ['allow_lossy: [price, pay]\n', [['seen', 2]]],
    ] as const) {
      assert.equal((await developer.upload(`${path}/manifests`, files(allowed))).status, 200)
      for (const dry of [true, false]) {
        const { status, body } = await developer.post(`${path}/deploy`, { version: '1.0.0', dry_run: dry })
        assert.deepEqual([status, body.code], [422, 'lossy_cast'], JSON.stringify(body))
        assert.deepEqual(
          body.errors.map((one: Json) => [
            one.manifest,
            one.path,
            one.line > 4,
            /allow_lossy: \[(\w+)\]/.exec(one.hint)?.[1],
          ]),
          refused.map(([name, at]) => ['output', `schema[${at}].type`, true, name]),
        )
      }
    }
    const unknown = await developer.upload(`${path}/manifests`, files('allow_lossy: [nowhere]\n'))
    assert.deepEqual([unknown.status, unknown.body.errors?.[0]?.path], [422, 'allow_lossy[0]'])
    await deployVersion(developer, casts.id, '1.0.0', files('allow_lossy: [price, seen, pay]\n'))
    const run = await syncNow(developer)
    const told = run.products.find((one: Json) => one.id === casts.id)
    assert.deepEqual(
      [told.name, told.state, told.rows, told.lossy_values],
      ['crm.casts', 'succeeded', 11, { price: 10, seen: 5 }],
      JSON.stringify(run.products),
    )
    assert.ok(!JSON.stringify(run).includes('pay'), 'every member sees the run')
    const lossyOf = async (client: Client, headers = {}) =>
      (await client.get(path, headers)).body.last_materialization?.lossy_values
    assert.deepEqual(await lossyOf(viewer), { price: 10, seen: 5 })
    assert.deepEqual(await lossyOf(world.admin, { 'x-tenant-id': world.tenants[0] }), { pay: 10, price: 10, seen: 5 })
    const { body: snapshots } = await viewer.get(`${path}/snapshots`)
    assert.deepEqual(snapshots.data[0].lossy_values, { price: 10, seen: 5 })
    const { body: kept } = await developer.post('/api/v1/query', {
      sql: 'SELECT price, exact FROM crm.casts WHERE id = 1',
    })
    assert.deepEqual(kept.rows, [['1.3', 1]])
  })
})

/** What the table's default partition spec and sort order go by, in names of its current schema. */
function shapeOf(metadata: Json) {
  const { fields } = metadata.schemas.find((one: Json) => one['schema-id'] === metadata['current-schema-id'])
  const names = (of: Json) =>
    of.fields.map((field: Json) => fields.find((one: Json) => one.id === field['source-id'])?.name ?? null)
  return {
    partitioning: names(
      metadata['partition-specs'].find((one: Json) => one['spec-id'] === metadata['default-spec-id']),
    ),
    sorting: names(metadata['sort-orders'].find((one: Json) => one['order-id'] === metadata['default-sort-order-id'])),
  }
}
