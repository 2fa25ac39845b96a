/** Checks that learn from a product's epochs: what they let pass, what teaches them, and who is told of them. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const COLUMNS =
  '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: email, type: string, classification: pii.identifier }\n  - { name: city, type: string }\n  - { name: amount, type: double }\n'
const FILES = manifests('public.learned', { columns: COLUMNS, endpoints: '  - type: lookup\n' })
const PATH = '/api/v1/products/people'

const CHECKS = [
  'name: id_unique, unique: [id]',
  'name: rows, anomaly: { metric: row_count, min_history: 3 }',
  'name: emails, anomaly: { metric: null_share, column: email, min_history: 3 }',
  'name: mail_values, severity: warn, anomaly: { metric: drift, column: email, min_history: 3 }',
  'name: cities, severity: warn, anomaly: { metric: distinct, column: city, min_history: 3 }',
  'name: city_drift, severity: warn, anomaly: { metric: drift, column: city, min_history: 3 }',
  'name: amounts, severity: warn, anomaly: { metric: drift, column: amount, min_history: 3 }',
]

function filesOf(checks: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const quality = `apiVersion: svc/v1\nkind: Quality\nchecks:\n${checks.map((check) => `  - { ${check} }\n`).join('')}`
  return { ...FILES, ...more, quality }
}

let world: World
let developer: Client
let viewer: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  await fill()
  developer = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vera')
  await connect(world, developer)
  const wanted = { name: 'people', namespace: 'crm', archetype: 'source_aligned', description: '' }
  assert.equal((await developer.post('/api/v1/products', wanted)).status, 201)
  await deployVersion(developer, 'people', '1.0.0', filesOf(CHECKS))
})

after(() => world?.close())

/** As it usually is, with some rows more or less. */
function fill(rows = 400) {
  return world.source.query(`DROP TABLE IF EXISTS learned;
    CREATE TABLE learned (id integer PRIMARY KEY, email text, city text, amount double precision);
    INSERT INTO learned SELECT i, 'a' || i || '@secret.test', 'c' || i % 4, i % 97 FROM generate_series(1, ${rows}) i`)
}

/** By check, of the newest materialization, what the client is told. */
async function results(client: Client): Promise<Readonly<Record<string, Json>>> {
  const { status, body } = await client.get(`${PATH}/quality?limit=1`)
  assert.equal(status, 200, JSON.stringify(body))
  return Object.fromEntries(body.data[0].quality.checks.map((check: Json) => [check.name, check]))
}

/** How the product came out of a sync. */
async function synced(): Promise<Json> {
  const { body } = await developer.post('/api/v1/connections/db/sync')
  const { products } = await developer.untilEnded(body.id)
  return { ...products[0], run: body.id }
}

const epochsOf = async (check = 'rows') => (await results(developer))[check].measured.epochs

describe('a check that learns', () => {
  it('tells that it learns until it knows enough epochs, and counts for no score meanwhile', async () => {
    for (const [at, rows] of [400, 404, 398].entries()) {
      await fill(rows)
      await syncNow(developer)
      const found = await results(developer)
      assert.equal(found['rows'].measured.value, rows)
      for (const { name, passed, learning, measured } of Object.values(found)) {
        assert.deepEqual([passed, learning], [true, name !== 'id_unique'], name)
        if (measured !== null) assert.deepEqual([measured.epochs, measured.upper], [at, null], name)
      }
    }
    const { body } = await developer.get(`${PATH}/quality?limit=1`)
    assert.deepEqual([body.data[0].quality_score, body.data[0].quality.by_dimension], [100, { uniqueness: 100 }])
  })

  it('then holds the rows against bounds, and shows them', async () => {
    await fill(402)
    await syncNow(developer)
    const found = await results(developer)
    assert.ok(Object.values(found).every(({ passed, learning }) => passed && !learning))
    const { metric, column, value, lower, upper, epochs, ...more } = found['rows'].measured
    assert.deepEqual([metric, column, value, epochs, more], ['row_count', null, 402, 3, {}])
    assert.ok(lower > 300 && lower < 402 && upper > 402 && upper < 500, `${lower} to ${upper}`)
    assert.equal(found['cities'].measured.value, 4)
    assert.ok(found['amounts'].measured.value < 0.05, 'numbers lie as they did')
  })

  it('keeps half of the rows from being published, again and again, for what failed teaches nothing', async () => {
    const before = await epochsOf()
    await fill(200)
    for (let time = 0; time < 3; time += 1) {
      const { reason, run } = await synced()
      assert.equal(reason?.code, 'quality_blocked', JSON.stringify(reason))
      const found = (await results(developer))['rows']
      assert.deepEqual([found.passed, found.violations, found.total, found.measured.value], [false, 1, 1, 200])
      assert.equal(found.measured.epochs, before + 1, 'the epoch that was published last is known, and no other')
      const { failed_checks: failed } = (await developer.get(`/api/v1/ingestion/${run}`)).body
      assert.deepEqual(failed.map(({ check }: Json) => check).includes('rows'), true)
    }
    await fill(401)
    await syncNow(developer)
    assert.equal(await epochsOf(), before + 1)
  })

  it('keeps empty values from being published, and tells of it who may see the column', async () => {
    await world.source.query('UPDATE learned SET email = NULL WHERE id % 3 = 0')
    const { reason } = await synced()
    assert.equal(reason?.code, 'quality_blocked')
    assert.doesNotMatch(JSON.stringify(reason), /emails/)
    const { passed, measured } = (await results(developer))['emails']
    assert.equal(passed, false)
    assert.ok(measured.value > 0.3 && measured.upper < 0.1, JSON.stringify(measured))
    const seen = await results(viewer)
    assert.deepEqual(Object.keys(seen), ['id_unique', 'rows', 'cities', 'city_drift', 'amounts'])
    const told = JSON.stringify([
      (await viewer.get(`${PATH}/quality`)).body,
      (await viewer.get(PATH)).body.quality,
      (await viewer.get('/api/v1/ingestion')).body,
    ])
    assert.doesNotMatch(told, /null_share|mail_values|"emails"|secret\.test/)
  })

  it('that only warns lets the epoch pass, and says what lies elsewhere', async () => {
    await fill(403)
    await world.source.query("UPDATE learned SET city = 'elsewhere-' || id % 40, amount = amount + 60")
    await syncNow(developer)
    const found = await results(developer)
    for (const name of ['cities', 'city_drift', 'amounts']) assert.equal(found[name].passed, false, name)
    assert.deepEqual([found['rows'].passed, found['mail_values'].passed], [true, true])
    assert.doesNotMatch(JSON.stringify((await developer.get(`${PATH}/quality`)).body), /elsewhere/)
  })

  it('counts an epoch once, however often it is made again', async () => {
    const once = await epochsOf()
    for (let time = 0; time < 2; time += 1) {
      const { body } = await developer.post(`${PATH}/materialize`)
      assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
      assert.equal(await epochsOf(), once)
    }
    await fill(399)
    await syncNow(developer)
    assert.equal(await epochsOf(), once + 1)
  })

  it('goes on learning in a version of other checks, and begins anew in one of other rows, or from a day on', async () => {
    const before = await epochsOf()
    await deployVersion(developer, 'people', '1.1.0', filesOf([...CHECKS, 'name: more, not_null: city']))
    assert.equal(await epochsOf(), before, 'the same rows, made again')
    const later = CHECKS.map((check) => check.replace('row_count,', 'row_count, learn_from: "2999-01-01",'))
    await deployVersion(developer, 'people', '1.2.0', filesOf(later))
    const found = await results(developer)
    assert.deepEqual(
      [found['rows'].learning, found['rows'].measured.epochs, found['cities'].learning],
      [true, 0, false],
    )
    const compute = `${FILES.compute}transform: SELECT * FROM source WHERE id <= 50\n`
    await deployVersion(developer, 'people', '2.0.0', filesOf(CHECKS, { compute }))
    const anew = await results(developer)
    assert.ok(Object.values(anew).every(({ name, passed, learning }) => passed && learning === (name !== 'id_unique')))
    assert.deepEqual([anew['rows'].measured.value, anew['rows'].measured.epochs], [50, 0])
  })

  it('forgets what a rollback took back', async () => {
    const { body: snapshots } = await developer.get(`${PATH}/snapshots?limit=100`)
    const old = snapshots.data.filter(({ version }: Json) => version === '1.0.0')[2]
    const asked = await developer.post(`${PATH}/rollback`, { snapshot_id: old.snapshot_id })
    assert.equal(asked.status, 202, JSON.stringify(asked.body))
    assert.equal((await developer.untilEnded(asked.body.run_id)).state, 'succeeded')
    const { body } = await developer.get(`${PATH}/quality?limit=100`)
    const kept = body.data.find(({ id, epoch }: Json) => id !== body.data[0].id && epoch === old.epoch)
    const known = kept.quality.checks.find(({ name }: Json) => name === 'rows').measured.epochs
    const resumed = await developer.post(`${PATH}/resume`)
    assert.equal((await developer.untilEnded(resumed.body.id)).state, 'succeeded')
    const found = (await results(developer))['rows']
    assert.deepEqual([found.measured.value, found.measured.epochs], [399, known + 1], 'those before it, and itself')
  })
})
