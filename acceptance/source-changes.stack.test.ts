/** A source that changes under a product, and manifests that do not fit it: who reads the answer knows what to do. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { deployVersion, onboardPeople, openWorld, type World } from './world.ts'

const TABLE = 'changing_people'
const FILES = manifests(`public.${TABLE}`)
const COMPUTE = FILES.compute.replace('engine: auto', 'engine: auto\ntransform: SELECT id, email, city FROM source')

let world: World
let developer: Client
let product: Json

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  await world.source.query(tableSql())
  product = await onboardPeople(world, developer, { ...FILES, compute: COMPUTE })
})

after(() => world?.close())

function tableSql(): string {
  return `DROP TABLE IF EXISTS ${TABLE};
    CREATE TABLE ${TABLE} (id integer PRIMARY KEY, email text, city text);
    INSERT INTO ${TABLE} SELECT i, 'a' || i, 'c' || i FROM generate_series(1, 5) i`
}

async function plan(files: Readonly<Record<string, string>>, version = '1.1.0') {
  const path = `/api/v1/products/${product.id}`
  const uploaded = await developer.upload(`${path}/manifests`, files)
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  return developer.post(`${path}/deploy`, { version, dry_run: true })
}

async function sync(): Promise<Json> {
  const { body } = await developer.post('/api/v1/connections/db/sync')
  return developer.untilEnded(body.id)
}

describe('a transform that does not fit output.yaml', () => {
  it('is planned with a warning for each column that it gives in excess', async () => {
    const sql = 'SELECT id, email, city, id * 2 AS twice, city AS citi FROM source'
    const { status, body } = await plan({ ...FILES, compute: COMPUTE.replace(/SELECT.*/, sql) })
    assert.equal(status, 200, JSON.stringify(body))
    const found = body.plan.warnings.filter(({ manifest }: Json) => manifest === 'compute')
    assert.deepEqual(
      found.map(({ message, path, line }: Json) => [message.match(/"(\w+)"/)[1], path, line]),
      [
        ['twice', 'transform', 4],
        ['citi', 'transform', 4],
      ],
    )
    assert.match(found[0].hint, /output\.yaml/)
  })

  it('is refused with the column that it leaves out, and the one that was probably meant', async () => {
    const { status, body } = await plan({
      ...FILES,
      compute: COMPUTE.replace(/SELECT.*/, 'SELECT id, email, city AS citi FROM source'),
    })
    assert.equal(status, 422)
    assert.match(body.detail, /does not give "city" of output\.yaml/)
    assert.match(body.errors[0].hint, /Did you mean citi\?/)
    const typo = await plan({
      ...FILES,
      compute: COMPUTE.replace(/SELECT.*/, 'SELECT id, email, ctiy AS city FROM source'),
    })
    assert.match(typo.body.errors[0].message, /"ctiy"/)
    assert.match(typo.body.errors[0].hint, /Did you mean city\?/)
    const warned = await plan(
      {
        ...FILES,
        output: FILES.output.replace('name: city', 'name: town'),
        compute: COMPUTE.replace(/SELECT.*/, 'SELECT id, email, city AS town, city AS towm FROM source'),
        serving: FILES.serving.replace('city', 'town'),
      },
      '2.0.0',
    )
    assert.match(JSON.stringify(warned.body.plan.warnings), /towm/)
  })
})

describe('a column that the source has lost', () => {
  const about = (text: string, file: string) => {
    for (const part of ['crm.people', `public.${TABLE}`, '"db"', '"source"', '"city"', file, 'town']) {
      assert.ok(text.includes(part), `${part} in: ${text}`)
    }
  }

  it('is named with product, table, connection, input and file by run and plan, whoever names it', async () => {
    await world.source.query(`ALTER TABLE ${TABLE} RENAME COLUMN city TO town`)
    const run = await sync()
    assert.deepEqual([run.state, run.error.code], ['failed', 'source_column_gone'], JSON.stringify(run.error))
    about(run.error.message, 'compute.yaml')
    assert.match(run.error.remedy, /Deploy a version|bring it back/)
    about(run.products[0].reason.message, 'compute.yaml')
    assert.match(
      JSON.stringify(run.log),
      /columns have changed in the source: new: town \(string\); gone: city \(string\)/,
    )

    const chosen = FILES.inputs.replace('mode: full', 'mode: full, columns: [id, email, city]')
    const filtered = FILES.inputs.replace('mode: full', "mode: full, where: city <> 'x'")
    for (const [files, file] of [
      [{ ...FILES, compute: COMPUTE }, 'compute.yaml'],
      [FILES, 'output.yaml'],
      [{ ...FILES, inputs: filtered, compute: COMPUTE }, 'inputs.yaml'],
    ] as const) {
      const { status, body } = await plan(files)
      assert.equal(status, 422, JSON.stringify(body))
      // What is there is the hint where a column has nothing but its name to say where it is.
      about(`crm.people ${JSON.stringify(body).replaceAll('\\"', '"')}`, file)
    }
    const { body } = await plan({ ...FILES, inputs: chosen, compute: COMPUTE })
    assert.match(JSON.stringify(body), /city/)
    await world.source.query(`ALTER TABLE ${TABLE} RENAME COLUMN town TO city`)
    assert.equal((await sync()).state, 'succeeded')
  })

  it('of another type is named where its values no longer fit', async () => {
    await world.source.query(`ALTER TABLE ${TABLE} DROP COLUMN id, ADD COLUMN id text; UPDATE ${TABLE} SET id = email`)
    const run = await sync()
    assert.equal(run.state, 'failed')
    for (const part of ['crm.people', 'id of', `public.${TABLE}`, 'was integer and is string now']) {
      assert.ok(run.error.message.includes(part), `${part} in: ${run.error.message}`)
    }
    await world.source.query(tableSql())
    assert.equal((await sync()).state, 'succeeded')
  })

  it('leaves the product as it was under on_schema_change: fail, with what has changed and the way out', async () => {
    const inputs = FILES.inputs.replace('mode: full', 'mode: full, on_schema_change: fail')
    const version = '1.3.0'
    const planned = await plan({ ...FILES, inputs, compute: COMPUTE }, version)
    const words = { tables: 'fail', columns: 'fail', types: 'fail', nullability: 'fail' }
    assert.deepEqual(planned.body.plan.reads[0].schema_contract, words)
    const deployed = await developer.post(`/api/v1/products/${product.id}/deploy`, { version, dry_run: false })
    assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
    await developer.untilEnded(deployed.body.run_id)
    await world.source.query(
      `ALTER TABLE ${TABLE} ADD COLUMN extra date, DROP COLUMN email, ALTER COLUMN city TYPE varchar(9)`,
    )
    const run = await sync()
    assert.deepEqual([run.state, run.error.code], ['failed', 'source_schema_changed'])
    assert.match(run.error.message, new RegExp(`${TABLE}.*new: extra \\(date\\); gone: email \\(string\\)`))
    assert.ok(run.error.remedy.includes('on_schema_change: fail'), run.error.remedy)
    assert.match(run.products[0].reason.message, new RegExp(TABLE))
    await world.source.query(tableSql())
    assert.equal((await sync()).state, 'succeeded')
  })

  it('lets the product go on under tables: freeze where the table is gone, and ends the run under any other word', async () => {
    const frozen = FILES.inputs.replace('mode: full', 'mode: full, schema_contract: { tables: freeze }')
    const tried = [
      [FILES.inputs, '1.4.0', 'failed'],
      [frozen, '1.5.0', 'succeeded'],
    ] as const
    for (const [inputs, version, state] of tried) {
      await deployVersion(developer, product.id, version, { ...FILES, inputs, compute: COMPUTE })
      assert.equal((await sync()).state, 'succeeded')
      await world.source.query(`DROP TABLE ${TABLE}`)
      const run = await sync()
      assert.equal(run.state, state, JSON.stringify(run))
      assert.equal(run.tables[0].error.code, 'source_table_not_found')
      const { body } = await developer.post('/api/v1/query', { sql: 'SELECT count(*) FROM crm.people' })
      assert.deepEqual(body.rows, [[5]])
      await world.source.query(tableSql())
    }
    assert.equal((await sync()).state, 'succeeded')
  })
})

describe('a product of a text over all columns', () => {
  const table = 'widening'
  const columns = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: told, type: string }\n'
  const endpoints = '  - type: lookup\n    config: { index_columns: [id] }\n'
  const own = manifests(`public.${table}`, { columns, endpoints })
  const whole = (more = '') => ({
    ...own,
    product: own.product.replace('name: people', `name: ${table}`),
    compute: own.compute.replace(
      'engine: auto',
      `engine: auto\ntransform: SELECT id, source::VARCHAR AS told FROM source${more}`,
    ),
  })
  const told = async () => {
    const { body } = await developer.post('/api/v1/query', { sql: `SELECT told FROM crm.${table}` })
    return body.rows.map(([text]: readonly string[]) => text)
  }

  it('has the columns that it was judged by, until it is deployed with the others', async () => {
    await world.source.query(`DROP TABLE IF EXISTS ${table};
      CREATE TABLE ${table} (id integer PRIMARY KEY, kind text);
      INSERT INTO ${table} VALUES (1, 'small')`)
    const wanted = { name: table, namespace: 'crm', archetype: 'source_aligned', description: '' }
    const { body } = await developer.post('/api/v1/products', wanted)
    await deployVersion(developer, body.id, '1.0.0', whole())
    assert.equal((await sync()).state, 'succeeded')
    const before = await told()
    assert.match(before.join(), /small/)
    await world.source.query(
      `ALTER TABLE ${table} ADD COLUMN passport text DEFAULT 'X123'; UPDATE ${table} SET kind = 'large'`,
    )
    assert.equal((await sync()).state, 'succeeded')
    assert.deepEqual(await told(), [before[0].replace('small', 'large')])
    await deployVersion(developer, body.id, '1.1.0', whole(' WHERE true'))
    assert.match((await told()).join(), /X123/)
    await deployVersion(developer, body.id, '1.0.0', whole())
    assert.match((await told()).join(), /X123/, 'what was judged anew has what it was judged by')
  })
})

describe('a product that has no rows yet, because its source lacks values that it requires', () => {
  const table = 'waiting_people'
  const name = 'crm.waiting'
  const ask = async (client: Client, sql: string, more: Json = {}) =>
    (await client.post('/api/v1/query', { sql, ...more })).body

  before(async () => {
    await world.source.query(`DROP TABLE IF EXISTS ${table};
      CREATE TABLE ${table} (id integer PRIMARY KEY, email text, city text, day date);
      INSERT INTO ${table} VALUES (1, 'a', NULL, '2026-01-01')`)
    const files = manifests(`public.${table}`)
    const uploaded = await developer.post('/api/v1/products', {
      name: 'waiting',
      namespace: 'crm',
      archetype: 'source_aligned',
      description: '',
    })
    const path = `/api/v1/products/${uploaded.body.id}`
    const output = files.output.replace('{ name: city, type: string', '{ name: city, type: string, nullable: false')
    const product = files.product.replace('name: people', 'name: waiting')
    assert.equal((await developer.upload(`${path}/manifests`, { ...files, product, output })).status, 200)
    const deployed = await developer.post(`${path}/deploy`, { version: '1.0.0', dry_run: false })
    assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
    if (deployed.body.run_id) await developer.untilEnded(deployed.body.run_id)
  })

  it('is said to have none by every door, to who may read it', async () => {
    for (const sql of [
      `SELECT * FROM ${name}`,
      `SELECT p.id FROM crm.people p JOIN CRM."Waiting" w USING (id)`,
      `SELECT * FROM ${name}__quarantine`,
      `SELECT * FROM crm."waiting@v1.0.0"`,
      `DESCRIBE ${name}`,
    ]) {
      const body = await ask(developer, sql)
      assert.deepEqual([body.code, body.status], ['not_materialized', 409], `${sql} ${JSON.stringify(body)}`)
      assert.match(`${body.detail} ${body.remedy}`, /crm\.waiting has not been materialized yet.*sync/)
    }
    for (const as_of of ['2026-01-01', '4611686018427387905', 'v1.0.0']) {
      assert.equal((await ask(developer, `SELECT * FROM ${name}`, { as_of })).code, 'not_materialized', as_of)
    }
    for (const accept of ['text/csv', 'application/x-ndjson', 'application/vnd.apache.parquet']) {
      const body = JSON.stringify({ sql: `SELECT * FROM ${name}` })
      const headers = { accept, 'content-type': 'application/json' }
      const exported = await developer.send('/api/v1/query', { method: 'POST', body, headers })
      assert.deepEqual([exported.status, exported.body.code], [409, 'not_materialized'], accept)
    }
    const early = await ask(developer, 'SELECT * FROM crm.people', { as_of: '2001-01-01' })
    assert.equal(early.code, 'snapshot_not_found')
    assert.match(early.detail, /crm\.people had not been materialized/)
    assert.equal((await developer.get(`/api/v1/products/${name}/latest`)).body.code, 'not_materialized')
    const [tenant] = world.tenants
    const loaded = await developer.get(`/iceberg/v1/${tenant}/namespaces/crm/tables/waiting`)
    assert.deepEqual([loaded.status, loaded.body.error.type], [404, 'NoSuchTableException'])
    assert.match(loaded.body.error.message, /crm\.waiting has not been materialized yet/)
  })

  it('is no table for anybody else, and none where only its name stands', async () => {
    const stranger = await world.as(world.tenants[0], null, 'noah')
    for (const sql of [`SELECT * FROM ${name}`, `DESCRIBE ${name}`, `SELECT * FROM ${name}__quarantine`]) {
      assert.equal((await ask(stranger, sql)).code, 'table_not_found', sql)
    }
    const alias = await ask(developer, `SELECT ${name} FROM (SELECT count(city) AS waiting FROM crm.people) crm`)
    assert.deepEqual(alias.rows, [[5]], JSON.stringify(alias))
  })

  it('says which column of which table lacks values, and what to do, until it has them', async () => {
    const run = await sync()
    assert.equal(run.state, 'failed')
    const { reason } = run.products.find((one: Json) => one.name === name)
    assert.equal(reason.code, 'required_value_missing')
    assert.doesNotMatch(reason.message, /the transform/)
    for (const part of [`source table public.${table}`, 'connection db', 'no value for city']) {
      assert.ok(reason.message.includes(part), `${part} in: ${reason.message}`)
    }
    for (const part of ['at the source', 'where', 'nullable: true']) {
      assert.ok(`${run.error.remedy}`.includes(part), `${part} in: ${run.error.remedy}`)
    }
    await world.source.query(`UPDATE ${table} SET city = 'c'`)
    await sync()
    assert.deepEqual((await ask(developer, `SELECT city FROM ${name}`)).rows, [['c']])
  })
})
