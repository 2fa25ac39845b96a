/** Previews of drafts: what each caller is shown of them, and that nothing comes of it. HTTP only. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { type Answer, Client, type Json, manifests, ok } from './client.ts'
import { gatherPeople } from './people.ts'
import { deployVersion, openWorld, syncNow, type World } from './world.ts'

/** In every address, and in nothing else. */
const PLAIN = '@preview.test'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`

let world: World
let admin: Client
let owner: Client
let author: Client
let colleague: Client
let viewer: Client

before(async () => {
  world = await openWorld()
  const [tenant, other] = world.tenants
  await world.source.query(`
    CREATE TABLE preview_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO preview_people SELECT i, 'p' || i || '${PLAIN}', 'city ' || i % 3 FROM generate_series(1, 30) i;
    CREATE TABLE preview_orders (id integer PRIMARY KEY, total integer);
    INSERT INTO preview_orders SELECT i, i FROM generate_series(1, 12000) i`)
  ;({ owner, colleague, viewer } = await gatherPeople(world, tenant, 'enterprise'))
  await world.createTenant(other)
  admin = world.admin
  author = await world.as(tenant, 'svc-developers', 'ada')
  await ok(owner.post('/api/v1/connections/db/grants', { subject: { user: 'ada' } }))
  await register('people')
  await deployVersion(author, 'crm.people', '1.0.0', draftOf('people'))
  await syncNow(owner)
})

after(() => world?.close())

interface Wanted {
  readonly columns?: string
  readonly transform?: string
  readonly inputs?: string
  readonly checks?: string
  /** Lines of product.yaml. */
  readonly product?: string
  /** Of products, in place of tables. */
  readonly isAggregate?: boolean
}

function draftOf(name: string, wanted: Wanted = {}): Readonly<Record<string, string>> {
  const {
    columns = COLUMNS,
    transform,
    inputs,
    checks = '  - { name: id_unique, unique: [id] }\n',
    product = '',
  } = wanted
  const archetype = wanted.isAggregate ? 'aggregate' : 'source_aligned'
  const files = manifests('public.preview_people', { columns, endpoints: '  - type: lookup\n' })
  return {
    ...files,
    product: `${files.product.replace('name: people', `name: ${name}`).replace('source_aligned', archetype)}${product}`,
    ...(inputs === undefined ? {} : { inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs}` }),
    quality: `apiVersion: svc/v1\nkind: Quality\nchecks:\n${checks}`,
    compute: `${files.compute}${transform === undefined ? '' : `transform: ${JSON.stringify(transform)}\n`}`,
  }
}

const NEW = { namespace: 'crm', archetype: 'source_aligned', description: '' }
const register = (name: string, client = author): Promise<Json> => ok(client.post('/api/v1/products', { ...NEW, name }))

/** Uploads the draft and asks for its preview. */
async function preview(
  client: Client,
  name: string,
  wanted: Wanted = {},
  more: Json = {},
  uploader = client,
): Promise<Answer> {
  const { digest } = (await ok(uploader.upload(`/api/v1/products/crm.${name}/manifests`, draftOf(name, wanted))))
    .manifests
  return client.post(`/api/v1/products/crm.${name}/preview`, { digest, ...more })
}

async function shown(client: Client, name: string, wanted: Wanted = {}, more: Json = {}): Promise<Json> {
  return ok(preview(client, name, wanted, more))
}

async function refused(answer: Promise<Answer>, status: number, code: string): Promise<Json> {
  const { status: got, body } = await answer
  assert.deepEqual([got, body.code], [status, code], JSON.stringify(body))
  for (const hidden of [PLAIN, 'city 1', '"rows"']) assert.ok(!JSON.stringify(body).includes(hidden), 'no row is told')
  return body
}

const clearIn = (body: Json): boolean => JSON.stringify(body).includes(PLAIN)

describe('who is shown a preview', () => {
  it('is nobody who may not deploy the draft', async () => {
    const { digest } = (await ok(author.upload('/api/v1/products/crm.people/manifests', draftOf('people')))).manifests
    const ask = (client: Client) => client.post('/api/v1/products/crm.people/preview', { digest })
    await refused(ask(viewer), 403, 'developer_required')
    await refused(ask(await world.as(world.tenants[0], null, 'noah')), 403, 'developer_required')
    await refused(ask(colleague), 403, 'raw_table_forbidden')
    await refused(ask(await world.as(world.tenants[1], 'svc-developers', 'olga')), 404, 'product_not_found')
    assert.equal((await ask(new Client(world.deployment.url, null))).status, 401)
    const { token } = await ok(author.post('/api/v1/application-keys', { name: 'app' }))
    assert.equal((await ask(new Client(world.deployment.url, token))).status, 403)
    assert.equal((await ok(ask(author))).rows.length, 10)
  })

  it('is refused as soon as the grant on the table is gone', async () => {
    const lent = await world.as(world.tenants[0], 'svc-developers', 'lena')
    const { id } = await ok(owner.post('/api/v1/connections/db/grants', { subject: { user: 'lena' } }))
    await ok(preview(lent, 'people'))
    await owner.send(`/api/v1/connections/db/grants/${id}`, { method: 'DELETE' })
    await refused(preview(lent, 'people'), 403, 'raw_table_forbidden')
  })

  it('is ended where the right ends while rows are made', async () => {
    const lent = await world.as(world.tenants[0], 'svc-developers', 'lars')
    const { id } = await ok(owner.post('/api/v1/connections/db/grants', { subject: { user: 'lars' } }))
    // It has no end before its time is over.
    const endless = 'SELECT * FROM source WHERE (SELECT count(*) FROM range(1000000000000) r(i) WHERE hash(i) > 1) > 0'
    const asked = preview(lent, 'people', { transform: endless })
    await until('the preview reads', async () => {
      const { data } = await ok(owner.get('/api/v1/audit?limit=20'))
      return data.some(({ actor, action }: Json) => actor.subject === 'lars' && action === 'product.preview')
    })
    await owner.send(`/api/v1/connections/db/grants/${id}`, { method: 'DELETE' })
    await refused(asked, 403, 'right_ended')
  })

  it('takes the draft that was planned, and no other', async () => {
    await register('unplanned')
    const before = await author.post('/api/v1/products/crm.unplanned/preview', { digest: 'none' })
    assert.deepEqual([before.status, before.body.code], [409, 'manifests_missing'])
    await ok(author.upload('/api/v1/products/crm.unplanned/manifests', draftOf('unplanned')))
    await refused(author.post('/api/v1/products/crm.unplanned/preview', { digest: 'none' }), 409, 'plan_changed')
    for (const rows of [0, 101, 1.5, '5']) {
      const { status } = await author.post('/api/v1/products/crm.unplanned/preview', { digest: 'none', rows })
      assert.equal(status, 400, `${rows}`)
    }
    assert.equal((await author.post('/api/v1/products/crm.unplanned/preview', {})).status, 400)
  })

  it('is told of a draft that another uploaded by what it may read itself', async () => {
    await refused(preview(colleague, 'people', {}, {}, author), 403, 'raw_table_forbidden')
    assert.ok(!clearIn(await ok(preview(owner, 'people', {}, {}, author))))
  })

  it('is not whoever could not read the product by it', async () => {
    const confidential = { product: 'classification: confidential\n' }
    await register('closed')
    await refused(preview(author, 'closed', confidential), 403, 'product_forbidden')
    const named = { product: 'classification: confidential\naccess: { users: [ada] }\n' }
    assert.equal((await shown(author, 'closed', named)).row_count, 10)
    const other = { product: 'classification: confidential\naccess: { users: [vito] }\n' }
    await refused(preview(author, 'closed', other), 403, 'grant_not_held')
    const restricted = { product: 'classification: restricted\n' }
    await refused(preview(owner, 'closed', restricted), 403, 'product_forbidden')
    const asAdmin = { 'x-tenant-id': world.tenants[0] }
    const { digest } = await ok(author.get('/api/v1/products/crm.closed/manifests'))
    const { body } = await admin.post('/api/v1/products/crm.closed/preview', { digest }, asAdmin)
    assert.ok(clearIn(body), JSON.stringify(body))
  })
})

describe('what a preview shows', () => {
  it('is masked as a read of the product would be, until a class is granted', async () => {
    const { columns, rows } = await shown(author, 'people', {}, { rows: 100 })
    assert.deepEqual(
      columns.map(({ name, masked }: Json) => [name, masked]),
      [
        ['id', false],
        ['email', true],
        ['city', false],
      ],
    )
    const { rows: read } = await ok(author.post('/api/v1/query', { sql: 'SELECT * FROM crm.people' }))
    const inOrder = (some: Json[]) => some.toSorted((a, b) => a[0] - b[0])
    assert.deepEqual(inOrder(rows), inOrder(read), 'the same rows with the same pseudonyms')
    assert.ok(!clearIn(rows))
    const grant = { subject: { user: 'ada' }, may: 'unmask', classes: ['pii.identifier'] }
    const { id } = await ok(owner.post('/api/v1/products/crm.people/grants', grant))
    assert.ok(clearIn((await shown(author, 'people')).rows))
    await owner.send(`/api/v1/products/crm.people/grants/${id}`, { method: 'DELETE' })
    assert.ok(!clearIn((await shown(author, 'people')).rows))
  })

  it('is nothing where a class is too low, by value or by influence', async () => {
    const open = COLUMNS.replace(', classification: pii.identifier', '')
    const ids = '  - { name: id, type: integer, role: identity, nullable: false }\n'
    const low: readonly Wanted[] = [
      { columns: open },
      { columns: COLUMNS.replace('pii.identifier', 'pii.name') },
      { columns: `${ids}  - { name: n, type: long }\n`, transform: 'SELECT id, length(email) AS n FROM source' },
      { columns: ids, transform: "SELECT id FROM source WHERE email LIKE 'p1%'" },
      {
        columns: ids,
        inputs: `  - { name: source, connection: db, table: public.preview_people, mode: full, where: "email > 'p2'" }\n`,
      },
    ]
    for (const [at, wanted] of low.entries()) {
      const name = at < 2 ? 'people' : 'lowered'
      if (at === 2) await register('lowered')
      await refused(preview(author, name, wanted), 403, 'class_lowering_refused')
    }
    await refused(preview(owner, 'people', { columns: open }), 409, 'class_lowering_unnamed')
    assert.ok(
      clearIn(await shown(owner, 'people', { columns: open }, { lower: ['email'] })),
      'the owner of the source says so',
    )
  })

  it('is what the caller is shown of products that the draft is made of', async () => {
    await register('towns', colleague)
    const inputs = '  - { name: source, product: crm.people }\n'
    const aggregate = { inputs, isAggregate: true }
    const answer = await shown(colleague, 'towns', aggregate, { rows: 100 })
    assert.deepEqual([answer.row_count, clearIn(answer), answer.inputs[0].epoch > 0], [30, false, true])
    assert.equal(answer.inputs[0].product, 'crm.people')
    const low = { ...aggregate, columns: COLUMNS.replace(', classification: pii.identifier', '') }
    const { status, body } = await preview(colleague, 'towns', low)
    assert.deepEqual([status, body.code, clearIn(body)], [403, 'class_lowering_refused', false])
    await register('hidden')
    const closed = draftOf('hidden', { product: 'classification: confidential\n' })
    await deployVersion(author, 'crm.hidden', '1.0.0', closed)
    await refused(
      preview(colleague, 'towns', { ...aggregate, inputs: inputs.replace('people', 'hidden') }),
      422,
      'manifests_invalid',
    )
  })

  it('is of some rows where each stands for itself, and of all where it does not', async () => {
    const some = await shown(author, 'people', {
      transform: 'SELECT id, email, upper(city) AS city FROM source WHERE id > 20',
    })
    assert.deepEqual(some.sample, { whole: false, input_rows: 10_000, rows_given: 10 })
    assert.ok(some.rows.every(([id, , city]: Json) => id > 20 && /^CITY/.test(city)))
    await register('counts')
    const columns = '  - { name: city, type: string, role: identity, nullable: false }\n  - { name: n, type: long }\n'
    const transform = 'SELECT city, count(*) AS n FROM source GROUP BY city ORDER BY city'
    const all = await shown(author, 'counts', { columns, transform, checks: '  - { name: n, unique: [city] }\n' })
    assert.deepEqual(all.sample, { whole: true, input_rows: null, rows_given: 3 })
    assert.deepEqual(all.rows, [
      ['city 0', 10],
      ['city 1', 10],
      ['city 2', 10],
    ])
    const inputs = '  - { name: source, connection: db, table: public.preview_people, mode: full, where: "id <= 4" }\n'
    assert.deepEqual(
      (await shown(author, 'people', { inputs })).rows.map(([id]: Json) => id),
      [1, 2, 3, 4],
    )
    const { rows } = await shown(author, 'counts', {
      columns,
      transform,
      inputs,
      checks: '  - { name: n, unique: [city] }\n',
    })
    assert.deepEqual(
      rows.map(([, n]: Json) => n),
      [1, 2, 1],
    )
  })

  it('says what a run would be refused for, beside the rows', async () => {
    const transform = 'SELECT 1 AS id, email, city FROM source WHERE id < 4'
    const { problems, row_count: count } = await shown(author, 'people', { transform })
    assert.deepEqual([problems.map(({ code }: Json) => code), count], [['duplicate_key', 'quality_blocked'], 3])
  })

  it('passes texts of authors through the guard', async () => {
    for (const transform of ["SELECT * FROM read_csv('/etc/passwd')", 'SELECT id, email, city FROM source; SELECT 1']) {
      const { status } = await preview(author, 'people', { transform })
      assert.equal(status, 422, transform)
    }
  })
})

describe('checks of a preview', () => {
  const CHECKS = `  - { name: cities, accepted_values: { column: city, values: ["city 0", "city 1"] }, severity: warn }
  - { name: emails, matches: { column: email, pattern: "q.*" }, severity: warn }
  - { name: small, range: { column: id, max: 12 }, severity: error, on_error: quarantine }
  - { name: many, row_count: { min: 1000 } }
  - { name: own, sql: "SELECT id, email FROM {{this}} WHERE id = 3", severity: warn }
`

  it('are counted, and their rows told as masked as the rows are', async () => {
    const answer = await shown(author, 'people', { checks: CHECKS }, { rows: 100 })
    const byName = Object.fromEntries(answer.checks.map((check: Json) => [check.name, check]))
    assert.deepEqual([byName.cities.violations, byName.cities.total, byName.cities.passed], [10, 30, false])
    assert.deepEqual(byName.cities.violating.rows[0], ['2', 'city 2'])
    assert.deepEqual(
      [byName.emails.violations, byName.emails.violating],
      [30, null],
      'who reads the source knows how many',
    )
    assert.deepEqual([byName.own.violations, byName.own.violating], [1, null])
    assert.deepEqual(answer.checks_left_out, ['many'])
    assert.equal(answer.sample.rows_given, 12)
    assert.deepEqual(
      answer.rows.map(([id]: Json) => id),
      Array.from({ length: 12 }, (_, at) => at + 1),
      'without those put aside',
    )
    assert.ok(!clearIn(answer))
  })

  it('of hidden columns are nothing for who does not see these', async () => {
    const inputs = '  - { name: source, product: crm.people }\n'
    const answer = await shown(colleague, 'towns', { inputs, isAggregate: true, checks: CHECKS }, { rows: 100 })
    const names = answer.checks.map(({ name }: Json) => name)
    assert.deepEqual(names, ['cities', 'small'])
    const blocking = CHECKS.replace('"q.*" }, severity: warn', '"q.*" }, severity: error')
    const { problems } = await shown(colleague, 'towns', { inputs, isAggregate: true, checks: blocking })
    assert.match(problems[0].message, /because a check of hidden columns failed$/)
  })
})

describe('a preview', () => {
  it('says what was never ingested, and what brings it', async () => {
    await register('orders')
    const inputs = '  - { name: source, connection: db, table: public.preview_orders, mode: full }\n'
    const columns = '  - { name: id, type: integer, role: identity, nullable: false }\n'
    const body = await refused(preview(author, 'orders', { inputs, columns }), 409, 'input_not_ingested')
    assert.match(body.detail, /no product in service reads public\.preview_orders of "db"/)
    assert.match(body.remedy, /^Deploy the version, then sync the connection "db"/)
    await deployVersion(author, 'crm.orders', '1.0.0', draftOf('orders', { inputs, columns }))
    const again = await refused(preview(author, 'orders', { inputs, columns }), 409, 'input_not_ingested')
    assert.equal(again.remedy, 'Sync the connection "db".')
    await syncNow(owner)
    const { rows, sample, checks } = await shown(author, 'orders', { inputs, columns }, { rows: 2 })
    assert.deepEqual(rows, [[1], [2]])
    assert.deepEqual(sample, { whole: false, input_rows: 10_000, rows_given: 10_000 })
    assert.equal(checks[0].total, 10_000)
    const late = inputs.replace('mode: full', 'mode: full, where: "id > 11000"')
    assert.equal(
      (await shown(author, 'orders', { inputs: late, columns })).sample.rows_given,
      1_000,
      'where comes first',
    )
  })

  it('leaves everything as it was but the draft, and is on record', async () => {
    const told = async () => {
      const { body: page } = await author.get('/api/v1/products/crm.people')
      const { freshness: _, ...rest } = page
      const { body: runs } = await author.get('/api/v1/ingestion')
      const { body: tables } = await author.get(`/iceberg/v1/${world.tenants[0]}/namespaces/crm/tables`)
      const { body: snapshots } = await author.get('/api/v1/products/crm.people/snapshots')
      const { body: deployments } = await author.get('/api/v1/products/crm.people/deployments')
      return { rest, runs, tables, snapshots, deployments }
    }
    const before = await told()
    await shown(author, 'people', { transform: 'SELECT id, email, lower(city) AS city FROM source' })
    assert.deepEqual(await told(), before)
    const { data } = await ok(owner.get('/api/v1/audit?limit=3'))
    const actions = data.map(({ actor, action }: Json) => `${actor.subject} ${action}`)
    assert.deepEqual(actions, ['ada product.preview', 'ada read.raw', 'ada product.manifests'])
  })

  it('of a restricted product as an input is read on record', async () => {
    const { id } = await register('sealed')
    await deployVersion(author, 'crm.sealed', '1.0.0', draftOf('sealed', { product: 'classification: restricted\n' }))
    await ok(owner.post('/api/v1/products/crm.sealed/grants', { subject: { user: 'colleague' }, may: 'read' }))
    await syncNow(owner)
    await register('kept', colleague)
    const inputs = '  - { name: source, product: crm.sealed }\n'
    const product = 'classification: restricted\naccess: { users: [colleague] }\n'
    const { row_count: count } = await shown(colleague, 'kept', { inputs, product, isAggregate: true })
    assert.equal(count, 10)
    const { data } = await ok(owner.get('/api/v1/audit?limit=3'))
    const records = data.map(({ actor, action, object }: Json) => [actor.subject, action, object.id === id])
    assert.deepEqual(records.slice(0, 2), [
      ['colleague', 'product.preview', false],
      ['colleague', 'read.preview', true],
    ])
  })
})
