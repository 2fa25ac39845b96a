/** Histories of a lookup endpoint over versions that change what their rows are: columns of another type, another key. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

let world: World
let developer: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS histories_people;
    CREATE TABLE histories_people (id integer PRIMARY KEY, code text, region text, city text);
    INSERT INTO histories_people VALUES (1, 'one', 'n', 'a'), (2, '2', 'n', 'a'), (3, '3', 's', 'a')`)
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, developer)
})

// A sync makes every product of its source anew: those of the tests before would be made in each.
afterEach(async () => {
  await moveTo('a')
  const { body } = await developer.get('/api/v1/products')
  for (const { id } of body.data) {
    const deleted = await developer.send(`/api/v1/products/${id}`, { method: 'DELETE' })
    assert.ok(deleted.status < 300, JSON.stringify(deleted.body))
  }
})

after(() => world?.close())

interface Shape {
  readonly columns: string
  readonly transform: string
}

const column = (name: string, type: string, more = '') => `  - { name: ${name}, type: ${type}${more} }\n`
const KEY = ', role: identity, nullable: false'
const ID = column('id', 'integer', KEY)
const CITY = column('city', 'string')
const PLAIN: Shape = { columns: ID + CITY, transform: 'SELECT id, city FROM source' }

/** What the second version cannot tell of the rows of the first. */
const CUTS: readonly (readonly [what: string, name: string, first: Shape, second: Shape])[] = [
  [
    'a type that does not hold the former values',
    'retyped',
    { columns: ID + CITY + column('code', 'string'), transform: 'SELECT id, city, code FROM source' },
    {
      columns: ID + CITY + column('code', 'integer'),
      transform: 'SELECT id, city, try_cast(code AS integer) AS code FROM source',
    },
  ],
  [
    'a key of another type',
    'rekeyed',
    { columns: column('id', 'string', KEY) + CITY, transform: "SELECT 'k' || id AS id, city FROM source" },
    PLAIN,
  ],
  [
    'a column more in the key',
    'widened',
    PLAIN,
    { columns: ID + column('region', 'string', KEY) + CITY, transform: 'SELECT id, region, city FROM source' },
  ],
  [
    'a column less in the key',
    'narrowed',
    {
      columns: ID + column('side', 'string', KEY) + CITY,
      transform: "SELECT id, side, city FROM source, (VALUES ('left'), ('right')) AS sides (side)",
    },
    PLAIN,
  ],
]

function filesOf(name: string, { columns, transform }: Shape, mode: string): Readonly<Record<string, string>> {
  const endpoints = `  - type: lookup\n    config: { history_mode: ${mode}, tracked_columns: [city] }\n`
  const all = manifests('public.histories_people', { columns, endpoints })
  return {
    ...all,
    product: all.product.replace('name: people', `name: ${name}`),
    quality: all.quality.replace(/checks:[\s\S]*/, 'checks: []\n'),
    compute: `${all.compute}transform: ${JSON.stringify(transform)}\n`,
  }
}

async function moveTo(city: string): Promise<void> {
  await world.source.query('UPDATE histories_people SET city = $1 WHERE id = 2', [city])
  await syncNow(developer)
}

/** City `a`, then `b`, under the first version; the second one begins with `b`. */
async function deployBoth(name: string, first: Shape, second: Shape, mode: string): Promise<Json> {
  const wanted = { name, namespace: 'crm', archetype: 'source_aligned', description: '' }
  const { body: product } = await developer.post('/api/v1/products', wanted)
  await deployVersion(developer, product.id, '1.0.0', filesOf(name, first, mode))
  await syncNow(developer)
  await moveTo('b')
  return deployVersion(developer, product.id, '2.0.0', filesOf(name, second, mode))
}

async function check(name: string): Promise<Json> {
  const { body } = await developer.get(`/api/v1/products/${name}`)
  assert.deepEqual([body.status, body.endpoints[0].behind], ['deployed', false], JSON.stringify(body.endpoints))
  return body
}

/** Of the row with the key 2, oldest first. */
async function historyOf(name: string): Promise<readonly Json[]> {
  const { status, body } = await developer.get(`/api/v1/products/${name}/latest?filter=id:2&history=true`)
  assert.equal(status, 200, JSON.stringify(body))
  return body.data.toSorted((a: Json, b: Json) => (a.valid_from < b.valid_from ? -1 : 1))
}

const citiesOf = async (name: string) => (await historyOf(name)).map((row) => row.city)

describe('a history', () => {
  for (const [what, name, first, second] of CUTS) {
    it(`begins anew with ${what}, and the plan says so`, async () => {
      const { plan } = await deployBoth(name, first, second, 'type_2')
      const told = plan.changes.filter(({ subject }: Json) => subject === 'serving.lookup.history_mode')
      assert.deepEqual(
        told.map(({ verdict, reason }: Json) => [verdict, /begins anew/.test(reason)]),
        [['breaking', true]],
        JSON.stringify(plan.changes),
      )
      await moveTo('c')
      await check(name)
      const rows = await historyOf(name)
      assert.deepEqual(
        rows.map((row) => [row.city, row.is_current]),
        [
          ['b', false],
          ['c', true],
        ],
      )
      const snapshots = (await developer.get(`/api/v1/products/${name}/snapshots`)).body.data
      const made = snapshots.find(({ version }: Json) => version === '1.0.0').committed_at
      const at = await developer.get(`/api/v1/products/${name}/latest?filter=id:2&at=${made}`)
      assert.deepEqual([at.status, at.body.data], [200, []], JSON.stringify(at.body))
      const begun = await developer.get(`/api/v1/products/${name}/latest?filter=id:2&at=${rows[0].valid_from}`)
      assert.deepEqual([begun.body.data[0].city], ['b'])
    })
  }

  it('of former values begins anew, too', async () => {
    const [, , first, second] = CUTS[0] as (typeof CUTS)[0]
    await deployBoth('former', first, second, 'type_3')
    await moveTo('c')
    await check('former')
    const { body } = await developer.get('/api/v1/products/former/latest?filter=id:2')
    assert.deepEqual([body.data[0].city, body.data[0].previous_city], ['c', 'b'])
  })

  it('goes on where the new types hold all that was, and begins anew on the way back', async () => {
    const first = {
      columns: ID + CITY + column('code', 'integer'),
      transform: 'SELECT id, city, id AS code FROM source',
    }
    const second = {
      columns: ID + CITY + column('code', 'string') + column('region', 'string'),
      transform: "SELECT id, city, 'code ' || id AS code, region FROM source",
    }
    const { plan } = await deployBoth('kept', first, second, 'type_2')
    assert.deepEqual([plan.verdict, JSON.stringify(plan.changes).includes('begins anew')], ['breaking', false])
    await moveTo('c')
    await check('kept')
    assert.deepEqual(
      (await historyOf('kept')).map((row) => [row.city, row.code]),
      [
        ['a', '2'],
        ['b', 'code 2'],
        ['c', 'code 2'],
      ],
    )
    const { body } = await developer.post('/api/v1/products/kept/rollback', { version: '1.0.0' })
    assert.equal((await developer.untilEnded(body.run_id)).state, 'succeeded')
    await moveTo('d')
    const resumed = await developer.post('/api/v1/products/kept/resume')
    assert.equal((await developer.untilEnded(resumed.body.id)).state, 'succeeded')
    assert.equal((await check('kept')).current_version, '1.0.0')
    assert.deepEqual(await citiesOf('kept'), ['b', 'd'])
  })
})
