/** A class that is raised for a column of a source reaches whatever was made of that column before. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Answer, type Client, type Json, manifests } from './client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const CLASS = 'pii.identifier'
const PLAIN = 'raised.test'

/** By product: its transform, and which of its columns show something of `email`. */
const MADE: Readonly<
  Record<
    string,
    {
      readonly transform?: string
      readonly columns: readonly string[]
      readonly quality?: string
      readonly where?: string
    }
  >
> = {
  copied: { transform: 'SELECT id, email AS shown, city FROM source', columns: ['shown'] },
  computed: { transform: "SELECT id, upper(email) || '' AS shown, city FROM source", columns: ['shown'] },
  chosen: {
    transform: "SELECT id, city AS shown, city FROM source WHERE email < 'a5'",
    columns: ['id', 'shown', 'city'],
  },
  filtered: {
    transform: 'SELECT id, city AS shown, city FROM source',
    where: "email < 'a5'",
    columns: ['id', 'shown', 'city'],
  },
  joined: {
    transform:
      'SELECT a.id, a.city AS shown, a.city FROM source a JOIN (SELECT max(email) AS most FROM source) b ON a.email < b.most',
    columns: ['id', 'shown', 'city'],
  },
  checked: {
    transform: 'SELECT id, email AS shown, city FROM source',
    quality:
      'checks:\n  - name: known\n    accepted_values: { column: shown, values: [a1@raised.test, a2@raised.test] }\n    on_error: quarantine\n',
    columns: ['id', 'shown', 'city'],
  },
  apart: { transform: 'SELECT id, city AS shown, city FROM source', columns: [] },
}

let world: World
let tenant: string
let owner: Client
let colleague: Client
let viewer: Client
let friend: Client

function files(
  name: string,
  { transform, quality, where }: { readonly transform?: string; readonly quality?: string; readonly where?: string },
  shownClass?: string,
) {
  const classed = shownClass === undefined ? '' : `, classification: ${shownClass}`
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: shown, type: string${classed} }\n  - { name: city, type: string }\n`
  const made = manifests('public.raised_people', { columns, endpoints: '  - type: lookup\n  - type: analytics\n' })
  const compute = transform === undefined ? made.compute : `${made.compute}transform: |\n  ${transform}\n`
  return {
    ...made,
    product: made.product.replace('name: people', `name: ${name}`),
    inputs: where === undefined ? made.inputs : made.inputs.replace('mode: full', `mode: full, where: "${where}"`),
    compute,
    ...(quality === undefined ? {} : { quality: `apiVersion: svc/v1\nkind: Quality\n${quality}` }),
  }
}

/** As `people`, whose columns are those of the source. */
const classed = (name: string, classification: string | null, table = 'public.raised_people') => {
  const email = `  - { name: email, type: string${classification === null ? '' : `, classification: ${classification}`} }\n`
  const made = manifests(table, {
    columns: `  - { name: id, type: integer, role: identity, nullable: false }\n${email}  - { name: city, type: string }\n`,
    endpoints: '  - type: analytics\n',
  })
  return { ...made, product: made.product.replace('name: people', `name: ${name}`) }
}

async function registered(client: Client, name: string): Promise<void> {
  const { status, body } = await client.post('/api/v1/products', {
    name,
    namespace: 'crm',
    archetype: 'source_aligned',
  })
  assert.equal(status, 201, JSON.stringify(body))
}

async function made(client: Client, name: string, content: Readonly<Record<string, string>>): Promise<void> {
  await registered(client, name)
  await deployVersion(client, name, '1.0.0', content)
}

before(async () => {
  world = await openWorld()
  tenant = world.tenants[0]
  await world.source.query(`DROP TABLE IF EXISTS raised_people;
    CREATE TABLE raised_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO raised_people SELECT i, 'a' || i || '@${PLAIN}', 'city' FROM generate_series(1, 9) i`)
  await world.createTenant(tenant)
  owner = await world.as(tenant, 'svc-developers', 'owner')
  colleague = await world.as(tenant, 'svc-developers', 'colleague')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  friend = await world.as(tenant, 'svc-viewers', 'friend')
  await onboardPeople(world, owner, classed('people', null))
  assert.equal((await owner.post('/api/v1/connections/db/grants', { subject: { user: 'colleague' } })).status, 201)
  for (const [name, one] of Object.entries(MADE)) await made(colleague, name, files(name, one))
  await syncNow(owner)
})

after(() => world?.close())

/** What a reader is answered of a product by every door. */
async function doors(client: Client, name: string): Promise<Readonly<Record<string, Answer>>> {
  return {
    query: await client.post('/api/v1/query', { sql: `SELECT * FROM crm.${name}` }),
    past: await client.post('/api/v1/query', { sql: `SELECT * FROM crm.${name}`, as_of: 'v1.0.0' }),
    csv: await client.post('/api/v1/query', { sql: `SELECT * FROM crm.${name}` }, { accept: 'text/csv' }),
    ...(name === 'checked'
      ? { aside: await client.post('/api/v1/query', { sql: 'SELECT * FROM crm.checked__quarantine' }) }
      : {}),
    lookup: await client.get(`/api/v1/products/${name}/latest?limit=2`),
    keys: await byKeys(client, name),
    iceberg: await client.get(`/iceberg/v1/${tenant}/namespaces/crm/tables/${name}`),
  }
}

/** Of a request for many keys, what its one item is answered. */
async function byKeys(client: Client, name: string): Promise<Answer> {
  const items = [{ product: `crm.${name}`, store: 'lookup', keys: [1, 2] }]
  const answer = await client.post('/api/v1/read', { items })
  const [item] = answer.body.data
  return { ...answer, status: item.error?.status ?? answer.status, body: item }
}

const statuses = (answers: Readonly<Record<string, Answer>>) =>
  Object.fromEntries(Object.entries(answers).map(([door, { status }]) => [door, status]))

describe('a class that somebody raises', () => {
  it('is told where they do not own the source, and hides nothing of others', async () => {
    const open = await doors(viewer, 'copied')
    const { body: page } = await viewer.get('/api/v1/products/copied/latest?limit=2')
    assert.ok(page.next_cursor, JSON.stringify(page))
    await made(colleague, 'gentle', classed('gentle', CLASS))
    assert.deepEqual(statuses(await doors(viewer, 'copied')), statuses(open))
    const { body } = await colleague.get('/api/v1/products/copied')
    assert.deepEqual(
      body.notices.map((one: Json) => [one.kind, one.columns, one.blocked]),
      [['class_raised', ['shown'], false]],
    )
  })

  it('hides all that was made of the column before, by all doors, where its owner raises it', async () => {
    const cursor = (await viewer.get('/api/v1/products/copied/latest?limit=2')).body.next_cursor
    await owner.upload('/api/v1/products/people/manifests', classed('people', CLASS))
    const request = { version: '1.1.0', dry_run: true }
    const { body: planned } = await owner.post('/api/v1/products/people/deploy', request)
    const reached = Object.fromEntries(planned.plan.reaches.map((one: Json) => [one.product, one]))
    for (const [name, { columns }] of Object.entries(MADE)) {
      const named = reached[name]?.columns.map((one: Json) => one.name) ?? []
      assert.deepEqual([...named].sort(), [...columns].sort(), name)
      if (columns.length > 0) assert.deepEqual([reached[name].blocked, reached[name].in_service], [true, true], name)
    }
    assert.match(
      planned.plan.notes.join('\n'),
      /crm\.copied was made of what this version hides: shown \(pii\.identifier\)/,
    )
    assert.equal(
      (await viewer.post('/api/v1/query', { sql: 'SELECT * FROM crm.copied' })).status,
      200,
      'a plan raises nothing',
    )
    const deployed = await owner.post('/api/v1/products/people/deploy', { ...request, dry_run: false })
    assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
    for (const [name, { columns }] of Object.entries(MADE)) {
      const answers = await doors(viewer, name)
      const isHidden = columns.length > 0
      for (const [door, { status, body }] of Object.entries(answers)) {
        if (isHidden) assert.doesNotMatch(JSON.stringify(body), new RegExp(PLAIN, 'i'), `${name} ${door}`)
        assert.equal(status, isHidden ? 409 : 200, `${name} ${door}: ${JSON.stringify(body).slice(0, 300)}`)
      }
    }
    assert.ok(
      (await viewer.get(`/api/v1/products/copied/latest?limit=2&cursor=${cursor}`)).status >= 400,
      'a cursor of before',
    )
    const { body: events } = await owner.get('/api/v1/products?limit=200')
    const listed = Object.fromEntries(events.data.map((one: Json) => [one.name, one.notices]))
    assert.deepEqual([listed.copied, listed.apart, listed.people], [['class_raised'], [], []])
  })

  it('hides what a next epoch makes, too', async () => {
    await syncNow(owner)
    assert.equal((await viewer.post('/api/v1/query', { sql: 'SELECT * FROM crm.copied' })).status, 409)
  })

  it('keeps nobody out who may see that class', async () => {
    const grant = { subject: { user: 'friend' }, may: 'unmask', classes: [CLASS] }
    assert.equal((await owner.post('/api/v1/products/copied/grants', grant)).status, 201)
    const { status, body } = await friend.post('/api/v1/query', { sql: 'SELECT * FROM crm.copied' })
    assert.equal(status, 200, JSON.stringify(body))
    assert.match(JSON.stringify(body), new RegExp(PLAIN))
  })

  it('is settled by a deployment that has the class, and by no other of who does not own the source', async () => {
    const attempt = async (
      name: string,
      version: string,
      content: Readonly<Record<string, string>>,
      lower: string[] = [],
    ) => {
      await colleague.upload(`/api/v1/products/${name}/manifests`, content)
      const { status, body } = await colleague.post(`/api/v1/products/${name}/deploy`, {
        version,
        dry_run: false,
        lower,
      })
      if (body.run_id) assert.equal((await colleague.untilEnded(body.run_id)).state, 'succeeded')
      return body.code ?? status
    }
    const copied = MADE['copied'] as (typeof MADE)[string]
    assert.equal(await attempt('copied', '1.0.0', files('copied', copied)), 'class_lowering_refused')
    assert.equal(
      await attempt('copied', '1.1.0', files('copied', { transform: 'SELECT id, city AS shown, city FROM source' })),
      'class_lowering_refused',
    )
    assert.equal(await attempt('copied', '2.0.0', files('copied', copied, CLASS)), 201)
    const { status, body } = await viewer.post('/api/v1/query', { sql: 'SELECT * FROM crm.copied' })
    assert.deepEqual([status, body.rows?.length], [200, 9], JSON.stringify(body))
    assert.doesNotMatch(JSON.stringify(body), new RegExp(PLAIN))
    assert.deepEqual((await viewer.get('/api/v1/products/copied')).body.notices, [])
    const past = await viewer.post('/api/v1/query', { sql: 'SELECT * FROM crm.copied', as_of: 'v1.0.0' })
    assert.doesNotMatch(JSON.stringify(past.body), new RegExp(PLAIN))
    const other = files('computed', { transform: 'SELECT id, city AS other, city FROM source' })
    const renamed = { ...other, output: other.output.replace('name: shown', 'name: other') }
    assert.equal(await attempt('computed', '2.0.0', renamed), 201)
    const gone = await viewer.post('/api/v1/query', { sql: 'SELECT * FROM crm.computed' })
    assert.equal(gone.status, 200, JSON.stringify(gone.body))
    const before = await viewer.post('/api/v1/query', { sql: 'SELECT * FROM crm.computed', as_of: 'v1.0.0' })
    assert.equal(before.status, 409, 'what was made then stays hidden')
  })

  it('is settled by the owner of the source, who names the columns', async () => {
    const content = files('chosen', MADE['chosen'] as (typeof MADE)[string])
    await deployVersion(owner, 'chosen', '2.0.0', content, ['id', 'shown', 'city'])
    assert.deepEqual(statuses(await doors(viewer, 'chosen')), {
      query: 200,
      past: 200,
      csv: 200,
      lookup: 200,
      keys: 200,
      iceberg: 200,
    })
  })
  it('outlasts the product that gave it, until the owner of the source names the column', async () => {
    const table = 'public.raised_more'
    await world.source.query('CREATE TABLE raised_more (id integer PRIMARY KEY, email text, city text)')
    await made(owner, 'giver', classed('giver', CLASS, table))
    const attempt = async (client: Client, name: string, lower: readonly string[] = []) => {
      await client.upload(`/api/v1/products/${name}/manifests`, classed(name, null, table))
      const { status, body } = await client.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', lower })
      return body.code ?? status
    }
    for (const name of ['opened', 'later']) await registered(colleague, name)
    const without = classed('giver', null, table)
    const output = without.output.replace(/.*name: email.*\n/, '')
    await deployVersion(colleague, 'giver', '2.0.0', { ...without, output })
    assert.equal(await attempt(colleague, 'opened', ['email']), 'class_lowering_refused', 'it gives the class no more')
    const { status } = await colleague.send('/api/v1/products/giver', { method: 'DELETE' })
    assert.equal(status, 204)
    assert.equal(await attempt(colleague, 'opened', ['email']), 'class_lowering_refused', 'it is gone')
    assert.equal(await attempt(owner, 'opened'), 'class_lowering_unnamed')
    assert.equal(await attempt(owner, 'opened', ['email']), 201)
    assert.equal(await attempt(colleague, 'later'), 201)
  })
})
