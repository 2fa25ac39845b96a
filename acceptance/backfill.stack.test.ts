/** Rows of the source that no read finds which goes on from its state, until somebody asks for the whole table. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { type Client, type Json, manifests, ok } from './client.ts'
import { onboardPeople, openWorld, syncNow, type World } from './world.ts'

/** Of a view nobody knows which rows changed but by their cursor column. */
const VIEW = 'public.stamped_people'
const TABLE = 'public.people_behind'
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string }
  - { name: city, type: string }
`

let world: World
let developer: Client
let viewer: Client

before(async () => {
  world = await openWorld()
  const [tenant, other] = world.tenants
  await world.createTenant(tenant)
  await world.createTenant(other)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  await world.source.query(`DROP TABLE IF EXISTS ${TABLE} CASCADE;
    CREATE TABLE ${TABLE} (id integer PRIMARY KEY, email text, city text, seen timestamptz NOT NULL DEFAULT now());
    INSERT INTO ${TABLE} SELECT i, 'm' || i, 'Bonn', timestamptz '2020-01-01' + i * interval '1 day' FROM generate_series(1, 200) i;
    CREATE VIEW ${VIEW} AS SELECT * FROM ${TABLE}`)
  const files = manifests(VIEW, { columns: COLUMNS })
  const inputs = files.inputs.replace('mode: full', 'mode: incremental, cursor_column: seen, primary_key: [id]')
  await onboardPeople(world, developer, { ...files, inputs })
  await syncNow(developer)
})
after(() => world?.close())

const count = async (where: string): Promise<number> => {
  const { body } = await developer.post('/api/v1/query', { sql: `SELECT count(*) AS n FROM crm.people WHERE ${where}` })
  return Number(body.rows?.[0]?.[0] ?? Number.NaN)
}
const backfill = (body: Json, who = developer) => who.post('/api/v1/connections/db/backfill', body)
const asked = async (): Promise<Json> => {
  const { body } = await developer.get('/api/v1/connections/db/lag')
  return body.tables.find(({ table }: Json) => table === VIEW).backfill_asked_at
}

it('brings rows that changed and went behind the cursor, and readers are never without rows', async () => {
  await world.source.query(`UPDATE ${TABLE} SET city = 'Ulm' WHERE id <= 20`)
  await syncNow(developer)
  assert.equal(await count("city = 'Ulm'"), 0, 'no read that goes on finds them')
  await world.source.query(
    `DELETE FROM ${TABLE} WHERE id > 190; INSERT INTO ${TABLE} VALUES (500, 'late', 'Ulm', '2019-01-01')`,
  )
  let isRead = false
  const counts = new Set<number>()
  const polling = (async () => {
    while (!isRead) counts.add(await count('true'))
  })()
  const { status, body } = await backfill({ tables: [VIEW] })
  assert.equal(status, 202, JSON.stringify(body))
  const run = await developer.untilEnded(body.id)
  isRead = true
  await polling
  assert.equal(run.state, 'succeeded', JSON.stringify(run))
  assert.match(JSON.stringify(run.log), /191 rows \(incremental, read whole as was asked for\)/)
  assert.equal(run.tables[0].rows_read, 191)
  assert.deepEqual(
    [...counts].filter((rows) => rows !== 200 && rows !== 191),
    [],
  )
  assert.deepEqual([await count("city = 'Ulm'"), await count('id > 190'), await count('true')], [21, 1, 191])
  assert.equal(await asked(), null)
  const next = await developer.untilEnded((await ok(developer.post('/api/v1/connections/db/sync'))).id)
  assert.ok(next.tables[0].rows_read < 191, 'the next read goes on from where the source is')
})

it('stays asked for while runs fail, and is told with the connection', async () => {
  await world.source.query(`ALTER VIEW ${VIEW} RENAME TO hidden_people`)
  const run = await developer.untilEnded((await ok(backfill({}))).id)
  assert.equal(run.state, 'failed')
  assert.notEqual(await asked(), null)
  assert.equal((await developer.send('/api/v1/connections/db/backfill', { method: 'DELETE' })).status, 204)
  assert.equal(await asked(), null, 'taken back')
  assert.equal((await developer.untilEnded((await ok(backfill({}))).id)).state, 'failed')
  await world.source.query(
    `ALTER VIEW hidden_people RENAME TO stamped_people; UPDATE ${TABLE} SET city = 'Jena' WHERE id = 7`,
  )
  await syncNow(developer)
  assert.deepEqual([await count("city = 'Jena'"), await asked()], [1, null])
})

it('is for developers of the tenant, and for tables that products read', async () => {
  const refused = async (answer: Promise<Json>) => {
    const { status, body } = await answer
    return [status, body.code]
  }
  assert.deepEqual((await refused(backfill({}, viewer)))[0], 403)
  const foreign = await world.as(world.tenants[1], 'svc-developers', 'otto')
  assert.deepEqual(await refused(backfill({}, foreign)), [404, 'connection_not_found'])
  assert.deepEqual(await refused(backfill({ tables: ['public.people'] })), [400, 'table_not_ingested'])
  assert.deepEqual((await refused(backfill({ tables: [] })))[0], 400)
  assert.deepEqual((await refused(backfill({ tables: VIEW })))[0], 400)
  assert.equal(await asked(), null)
})
