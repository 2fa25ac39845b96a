/** Tables that a product joins are of one instant of their source, whoever writes to them meanwhile. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const ACCOUNTS = 200

let world: World
let dora: Client

before(async () => {
  world = await openWorld()
  await world.source.query(`CREATE TABLE debits (id integer PRIMARY KEY, n bigint NOT NULL, updated_at timestamptz);
    CREATE TABLE credits (id integer PRIMARY KEY, n bigint NOT NULL, updated_at timestamptz);
    INSERT INTO debits SELECT i, 0, now() FROM generate_series(1, ${ACCOUNTS}) i;
    INSERT INTO credits SELECT * FROM debits`)
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  dora = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, dora)
  const made = manifests('public.debits', {
    columns: `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: balance, type: long }
`,
    endpoints: '  - type: analytics\n',
  })
  const inputs = ['debits', 'credits'].map((name) => `  - { name: ${name}, connection: db, table: public.${name} }\n`)
  await dora.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'aggregate', description: '' })
  const { plan } = await deployVersion(dora, 'crm.people', '1.0.0', {
    ...made,
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs.join('')}`,
    compute: `${made.compute}transform: SELECT c.id, c.n - d.n AS balance FROM credits c JOIN debits d ON d.id = c.id\n`,
  })
  assert.deepEqual(plan.notes, [])
})

after(() => world?.close())

const said = async (): Promise<Json> => (await dora.get('/api/v1/products/crm.people')).body.content.one_moment

it('a join over two tables balances while others write to both', async () => {
  let isOver = false
  const write = async () => {
    for (let round = 0; !isOver; round += 1) {
      const one = (table: string) =>
        `UPDATE ${table} SET n = n + 1, updated_at = clock_timestamp() WHERE id % 7 = ${round % 7};`
      await world.source.query(`BEGIN; ${one('debits')} ${one('credits')} COMMIT`)
    }
  }
  const writing = write()
  try {
    for (let syncs = 0; syncs < 3; syncs += 1) {
      await syncNow(dora)
      const { body } = await dora.post('/api/v1/query', {
        sql: 'SELECT count(*), count(*) FILTER (balance <> 0) FROM crm.people',
      })
      assert.deepEqual(body.rows?.[0].map(Number), [ACCOUNTS, 0], JSON.stringify(body))
      assert.equal(await said(), true)
    }
  } finally {
    isOver = true
    await writing
  }
})
