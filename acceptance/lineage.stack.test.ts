/** What products are made of and what is made of them: tables, products and columns, and who is told of it. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Client, type Json, manifests, ok } from './client.ts'
import { runSluice } from './sluice-command.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const HIDDEN = 'pii.identifier'
const ID = '  - { name: id, type: integer, role: identity, nullable: false }\n'

let world: World
let tenant: string
let owner: Client
let cleared: Client
let viewer: Client
let foreigner: Client
const ids = new Map<string, string>()

interface Files {
  readonly inputs: string
  readonly columns: string
  readonly transform?: string
  readonly classification?: string
}

/** Of a product `crm.NAME`. */
function files(name: string, { inputs, columns, transform, classification }: Files) {
  const made = manifests('unused', { columns, endpoints: '  - type: lookup\n' })
  const archetype = inputs.includes('product:') ? 'aggregate' : 'source_aligned'
  const more = classification === undefined ? '' : `classification: ${classification}\n`
  return {
    ...made,
    product: `${made.product.replace('name: people', `name: ${name}`).replace('source_aligned', archetype)}${more}`,
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs}`,
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks:\n  - name: id_unique\n    unique: [id]\n',
    compute: `apiVersion: svc/v1\nkind: Compute\nengine: embedded\ntrigger: on_ingestion\n${transform === undefined ? '' : `transform: ${JSON.stringify(transform)}\n`}`,
  }
}

async function make(client: Client, name: string, content: Files): Promise<void> {
  const product = await ok(client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' }))
  ids.set(name, product.id)
  await deployVersion(client, name, '1.0.0', files(name, content))
}

/** Two tables; `people` of one; `orders` of the other; `spending` of both; `cities` of that; `vips`, which few may read, of that. */
const PRODUCTS: Readonly<Record<string, Files>> = {
  people: {
    inputs: '  - { name: source, connection: db, table: lineage_people, mode: full }\n',
    columns: `${ID}  - { name: email, type: string, classification: ${HIDDEN} }\n  - { name: city, type: string }\n`,
  },
  orders: {
    inputs:
      '  - { name: source, connection: db, table: public.lineage_orders, mode: full, where: "state = \'paid\'" }\n',
    columns: `${ID}  - { name: person, type: integer }\n  - { name: price, type: integer }\n`,
  },
  spending: {
    inputs: '  - { name: p, product: crm.people }\n  - { name: o, product: crm.orders }\n',
    columns: `${ID}  - { name: contact, type: string, classification: ${HIDDEN} }\n  - { name: city, type: string }\n  - { name: cents, type: integer }\n`,
    transform: 'SELECT o.id, p.email AS contact, p.city, o.price * 100 AS cents FROM p JOIN o ON o.person = p.id',
  },
  cities: {
    inputs: '  - { name: s, product: crm.spending }\n',
    columns: `${ID}  - { name: label, type: string }\n`,
    transform: "SELECT id, upper(city) || '!' AS label FROM s WHERE cents > 100",
  },
  vips: {
    inputs: '  - { name: s, product: crm.spending }\n',
    columns: `${ID}  - { name: contact, type: string, classification: ${HIDDEN} }\n`,
    classification: 'restricted',
  },
}

before(async () => {
  world = await openWorld()
  tenant = world.tenants[0]
  await world.source.query(`DROP TABLE IF EXISTS lineage_people, lineage_orders;
    CREATE TABLE lineage_people (id integer PRIMARY KEY, email text, city text);
    CREATE TABLE lineage_orders (id integer PRIMARY KEY, person integer, price integer, state text);
    INSERT INTO lineage_people SELECT i, 'p' || i || '@p.test', 'city' FROM generate_series(1, 5) i;
    INSERT INTO lineage_orders SELECT i, i, i, 'paid' FROM generate_series(1, 5) i`)
  await world.createTenant(tenant)
  await world.createTenant(world.tenants[1])
  owner = await world.as(tenant, 'svc-developers', 'owner')
  cleared = await world.as(tenant, 'svc-viewers', 'clara')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  foreigner = await world.as(world.tenants[1], 'svc-developers', 'olga')
  await connect(world, owner)
  for (const [name, content] of Object.entries(PRODUCTS)) await make(owner, name, content)
  const grant = { subject: { user: 'clara' }, may: 'unmask', classes: [HIDDEN] }
  for (const name of ['people', 'spending']) await ok(owner.post(`/api/v1/products/${name}/grants`, grant))
  await syncNow(owner)
})

after(() => world?.close())

const PEOPLE = 'table:db/public.lineage_people'
const ORDERS = 'table:db/public.lineage_orders'
const node = (name: string) => `product:crm.${name}`

const lineage = (client: Client, name: string, query = '') => ok(client.get(`/api/v1/products/${name}/lineage${query}`))

const stepsOf = ({ nodes }: Json) => Object.fromEntries(nodes.map((one: Json) => [one.node, one.steps]))
const edgesOf = ({ edges }: Json) => edges.map(({ from, to, input }: Json) => `${from} ${input} ${to}`).toSorted()
const columnsOf = ({ nodes }: Json, name: string): Record<string, Json> => {
  const found = nodes.find((one: Json) => one.node === node(name))
  return Object.fromEntries(found.columns.map((column: Json) => [column.name, column]))
}
const places = (found: readonly Json[]) => found.map((one) => `${one.node} ${one.column}`).toSorted()

describe('lineage', () => {
  it('goes from a product to the tables, and to all that is made of it', async () => {
    const found = await lineage(owner, 'spending')
    assert.equal(found.root, node('spending'))
    assert.deepEqual(stepsOf(found), {
      [node('spending')]: 0,
      [node('people')]: -1,
      [node('orders')]: -1,
      [PEOPLE]: -2,
      [ORDERS]: -2,
      [node('cities')]: 1,
      [node('vips')]: 1,
    })
    assert.deepEqual(edgesOf(found), [
      `${node('orders')} o ${node('spending')}`,
      `${node('people')} p ${node('spending')}`,
      `${node('spending')} s ${node('cities')}`,
      `${node('spending')} s ${node('vips')}`,
      `${ORDERS} source ${node('orders')}`,
      `${PEOPLE} source ${node('people')}`,
    ])
    assert.equal(found.truncated, false)
    const { product, kind } = found.nodes.find((one: Json) => one.node === node('vips'))
    assert.equal(kind, 'product')
    assert.deepEqual(product, {
      id: ids.get('vips'),
      namespace: 'crm',
      name: 'vips',
      version: '1.0.0',
      owner: product.owner,
      classification: 'restricted',
    })
    assert.deepEqual(
      found.nodes.find((one: Json) => one.node === PEOPLE),
      { node: PEOPLE, kind: 'table', steps: -2, connection: 'db', table: 'public.lineage_people' },
    )
  })

  it('goes one way, and as deep as is asked', async () => {
    const up = stepsOf(await lineage(owner, 'spending', '?direction=upstream'))
    assert.deepEqual(
      Object.keys(up).toSorted(),
      [node('orders'), node('people'), node('spending'), ORDERS, PEOPLE].toSorted(),
    )
    const down = await lineage(owner, 'people', '?direction=downstream')
    assert.deepEqual(stepsOf(down), {
      [node('people')]: 0,
      [node('spending')]: 1,
      [node('cities')]: 2,
      [node('vips')]: 2,
    })
    const near = await lineage(owner, 'people', '?direction=downstream&depth=1')
    assert.deepEqual(stepsOf(near), { [node('people')]: 0, [node('spending')]: 1 })
    assert.equal(near.truncated, true)
    assert.equal((await lineage(owner, 'people', '?direction=downstream&depth=2')).truncated, false)
    const above = await lineage(owner, 'cities', '?direction=upstream&depth=2')
    assert.equal(above.truncated, true)
    assert.deepEqual(Object.keys(stepsOf(above)).length, 4)
    for (const query of ['?depth=0', '?depth=21', '?direction=sideways', '?unknown=1']) {
      assert.equal((await owner.get(`/api/v1/products/people/lineage${query}`)).status, 400, query)
    }
  })

  it('says what each column is computed from, and what decides about its rows', async () => {
    const found = await lineage(owner, 'spending')
    const { id, contact, cents } = columnsOf(found, 'spending')
    assert.deepEqual(id.from, [{ node: node('orders'), column: 'id', kind: 'copied' }])
    assert.deepEqual(contact.from, [{ node: node('people'), column: 'email', kind: 'copied' }])
    assert.deepEqual(cents.from, [{ node: node('orders'), column: 'price', kind: 'computed' }])
    // Both inputs have an id: a name is taken for each column that it could mean.
    const join = [`${node('orders')} id`, `${node('orders')} person`, `${node('people')} id`]
    assert.deepEqual(places(cents.influenced_by), join)
    const { label } = columnsOf(found, 'cities')
    assert.deepEqual(label.from, [{ node: node('spending'), column: 'city', kind: 'computed' }])
    assert.deepEqual(places(label.influenced_by), [`${node('spending')} cents`])
    const { price } = columnsOf(found, 'orders')
    assert.deepEqual(price.from, [{ node: ORDERS, column: 'price', kind: 'copied' }])
    assert.deepEqual(places(price.influenced_by), [`${ORDERS} state`])
    for (const column of Object.values(columnsOf(found, 'vips'))) assert.equal(column.known, true)
  })

  it('says what is masked for whoever asks, and tells of products that he may not read what their page tells', async () => {
    const seen = async (client: Client, name: string) => {
      const { email, contact } = columnsOf(await lineage(client, name), name)
      return (email ?? contact).masked
    }
    assert.equal(await seen(viewer, 'people'), true)
    assert.equal(await seen(cleared, 'people'), false)
    assert.equal(await seen(viewer, 'vips'), null)
    const page = await ok(viewer.get('/api/v1/products/vips'))
    const { nodes } = await lineage(viewer, 'vips')
    const { product, columns } = nodes[0]
    assert.deepEqual([product.owner, product.version], [page.owner, page.current_version])
    assert.deepEqual(
      columns.map((column: Json) => [column.name, column.type, column.classification]),
      page.schema.map((column: Json) => [column.name, column.type, column.classification]),
    )
  })

  it('is not there for other tenants, nor for who is in no group', async () => {
    assert.equal((await foreigner.get(`/api/v1/products/${ids.get('people')}/lineage`)).status, 404)
    assert.equal((await foreigner.get('/api/v1/products/crm.people/lineage')).status, 404)
    const nobody = await world.as(tenant, null, 'noah')
    assert.equal((await nobody.get('/api/v1/products/crm.people/lineage')).status, 403)
  })

  it('ends for a key of an application where its products end', async () => {
    const asked = { name: 'some', products: ['crm.spending', 'crm.cities'] }
    const { token } = await ok(owner.post('/api/v1/application-keys', asked))
    const application = new Client(world.deployment.url, token)
    const found = await lineage(application, 'spending')
    assert.deepEqual(stepsOf(found), { [node('spending')]: 0, [node('cities')]: 1 })
    assert.ok(!/people|orders|vips/.test(JSON.stringify(found)), JSON.stringify(found))
    const { contact } = columnsOf(found, 'spending')
    assert.deepEqual([contact.known, contact.from, contact.influenced_by], [false, [], []])
    const { label } = columnsOf(found, 'cities')
    assert.deepEqual([label.known, label.from.length, label.influenced_by.length], [true, 1, 1])
    assert.equal((await application.get('/api/v1/products/crm.people/lineage')).status, 404)
    const detail = await ok(application.get('/api/v1/products/spending'))
    assert.doesNotMatch(JSON.stringify([detail.lineage, detail.reads]), /people|orders|vips/)
    assert.ok(JSON.stringify((await ok(owner.get('/api/v1/products/spending'))).lineage).includes('crm.'))
  })

  it('says that it does not know where nothing was kept', async () => {
    await ok(owner.post('/api/v1/products', { name: 'bare', namespace: 'crm', archetype: 'aggregate' }))
    const found = await lineage(owner, 'bare')
    assert.deepEqual(found.nodes.length, 1)
    assert.deepEqual([found.nodes[0].product.version, found.nodes[0].columns], [null, []])
  })
})

const impact = (client: Client, name: string, column: string) =>
  ok(client.get(`/api/v1/products/${name}/lineage/impact?column=${column}`))
const reached = ({ products }: Json) =>
  Object.fromEntries(
    products.map(({ name, columns }: Json) => [
      name,
      Object.fromEntries(columns.map((column: Json) => [column.name, `${column.manner} ${column.steps}`])),
    ]),
  )

describe('the impact of a column', () => {
  it('is all that is made of it, through any number of products, in which manner', async () => {
    const email = await impact(owner, 'people', 'email')
    assert.deepEqual(email.of, { node: node('people'), column: 'email' })
    assert.deepEqual(reached(email), { spending: { contact: 'copied 1' }, vips: { contact: 'copied 2' } })
    const city = await impact(owner, 'people', 'CITY')
    assert.deepEqual(reached(city), { spending: { city: 'copied 1' }, cities: { label: 'computed 2' } })
    const price = await impact(owner, 'orders', 'price')
    assert.deepEqual(reached(price), {
      spending: { cents: 'computed 1' },
      cities: { id: 'influenced 2', label: 'influenced 2' },
    })
    assert.deepEqual(reached(await impact(owner, 'vips', 'contact')), {})
    const { status, body } = await owner.get('/api/v1/products/people/lineage/impact?column=none')
    assert.deepEqual([status, body.code], [400, 'unknown_column'])
  })

  it('begins at a table of a connection, whichever way inputs write it', async () => {
    const of = (table: string, column: string) =>
      ok(owner.get(`/api/v1/connections/db/lineage/impact?table=${table}&column=${column}`))
    const wanted = { people: { email: 'copied 1' }, spending: { contact: 'copied 2' }, vips: { contact: 'copied 3' } }
    assert.deepEqual(reached(await of('public.lineage_people', 'email')), wanted)
    assert.deepEqual(reached(await of('lineage_people', 'Email')), wanted)
    const state = reached(await of('lineage_orders', 'state'))
    assert.deepEqual(state.orders, { id: 'influenced 1', person: 'influenced 1', price: 'influenced 1' })
    assert.equal(state.vips.contact, 'influenced 3')
    assert.deepEqual(reached(await of('lineage_orders', 'none')), {})
    assert.equal((await foreigner.get('/api/v1/connections/db/lineage/impact?table=t&column=c')).status, 404)
  })

  it('names who read it, as far as that is recorded, to those alone who may see the audit log', async () => {
    const grant = { subject: { user: 'clara' }, may: 'read' }
    await ok(owner.post('/api/v1/products/vips/grants', grant))
    for (const name of ['vips', 'spending', 'spending'])
      await ok(cleared.get(`/api/v1/products/${name}/latest?filter=id:1`))
    await ok(cleared.post('/api/v1/query', { sql: 'SELECT count(*) FROM crm.vips' }))
    const { products, readers } = await impact(owner, 'people', 'email')
    const recorded = products.map((product: Json) => [product.name, product.reads_recorded])
    assert.deepEqual(recorded, [
      ['spending', 'administrators'],
      ['vips', 'everybody'],
    ])
    const said = readers.data.map((one: Json) => [one.product_id, one.subject, one.reads, one.actions])
    assert.deepEqual(said, [[ids.get('vips'), 'clara', 2, ['read.lookup', 'read.query']]])
    assert.deepEqual((await impact(owner, 'orders', 'price')).readers.data, [], 'of other products nothing is told')
    assert.equal((await impact(viewer, 'people', 'email')).readers, null)
  })
})

async function sluice(...words: string[]): Promise<string> {
  const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-viewers', '--user', 'vito'])
  const { code, out, err } = await runSluice(words, { url: world.deployment.url, token })
  return code === 0 ? out : err
}

describe('the command', () => {
  it('draws what a product is made of and what is made of it, with columns where asked', async () => {
    assert.equal(
      await sluice('lineage', 'spending'),
      `crm.spending 1.0.0, internal
  ← crm.people 1.0.0, internal
    ← db: public.lineage_people
  ← crm.orders 1.0.0, internal
    ← db: public.lineage_orders
  → crm.cities 1.0.0, internal
  → crm.vips 1.0.0, restricted
`,
    )
    const down = await sluice('lineage', 'crm.spending', '--down', '--columns')
    assert.match(down, /^ {4}contact pii\.identifier, masked {2}= crm\.people\.email$/m)
    assert.match(down, /^ {8}label {2}~ crm\.spending\.city$/m)
    assert.ok(!down.includes('←'))
    assert.match(await sluice('lineage', 'spending', '--up', '--depth', '1'), /crm\.orders.*\nThere is more/)
    assert.match(await sluice('lineage', 'spending', '--up', '--down'), /one of them/)
  })

  it('lists what is made of a column', async () => {
    const said = await sluice('impact', 'crm.people.city')
    assert.match(said, /^crm\.spending +city +public +copied +1$/m)
    assert.match(said, /^crm\.cities +label +public +computed +2$/m)
    assert.match(said, /told to developers/)
    assert.equal(await sluice('impact', 'vips.contact'), 'Nothing is made of it.\n')
    assert.match(await sluice('impact', 'people'), /PRODUCT\.COLUMN/)
  })
})
