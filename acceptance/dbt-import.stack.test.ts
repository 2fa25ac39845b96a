/**
 * A dbt project as products: what `sluice dbt import` writes is applied to a running server and read from its source, and
 * each product has the rows that DuckDB makes of the SQL as dbt compiled it, over the same rows.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { type Client, type Json, ok } from './client.ts'
import { type Ended, runSluice } from './sluice-command.ts'
import { connect, openWorld, syncNow, type World } from './world.ts'

const project = join(import.meta.dirname, 'dbt-shop')
const COUNTRIES = 'analytics_lists.countries'

let world: World
let developer: Client
let folder = ''
let token = ''
let oracle: DuckDBConnection
let models: readonly Json[] = []

before(async () => {
  world = await openWorld()
  folder = await mkdtemp(join(tmpdir(), 'sluice-dbt-import-'))
  const rows = await readFile(join(project, 'rows.sql'), 'utf8')
  const countries = (await readFile(join(project, 'seeds/countries.csv'), 'utf8')).trim().split('\n').slice(1)
  const list = countries.map((line) => `('${line.split(',').join("','")}')`).join(', ')
  const seed = `CREATE SCHEMA analytics_lists; CREATE TABLE ${COUNTRIES} (code text, country text, is_near boolean);
    INSERT INTO ${COUNTRIES} SELECT code, country, CAST(near AS boolean) FROM (VALUES ${list}) AS listed (code, country, near);`
  await world.source.query(rows)
  await world.source.query(seed)
  oracle = await (await DuckDBInstance.create(':memory:')).connect()
  await oracle.run(`ATTACH ':memory:' AS shop_db; USE shop_db;`)
  await oracle.run(rows)
  await oracle.run(seed)
  models = await builtModels()
  const [tenant] = world.tenants
  await world.createTenant(tenant, 'enterprise')
  // Products that are made of products show what whoever deploys them is shown: an administrator, everything.
  token = await world.deployment.token(['--role', 'admin'])
  developer = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, developer)
})

after(async () => {
  oracle?.closeSync()
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Makes the tables of the project as dbt compiled them, each after those that it reads; gives those that are SQL. */
async function builtModels(): Promise<readonly Json[]> {
  const { nodes } = JSON.parse(await readFile(join(project, 'target/manifest.json'), 'utf8'))
  const wanted: Json[] = Object.values(nodes as Json).filter(
    (node: Json) => node.resource_type === 'model' && node.config.materialized !== 'ephemeral',
  )
  const built: Json[] = []
  const isBuilt = (id: string) =>
    !wanted.some((node) => node.unique_id === id) || built.some((node) => node.unique_id === id)
  for (let left = wanted.filter(({ language }) => language === 'sql'); left.length > 0; ) {
    const ready = left.filter((node) => node.depends_on.nodes.every(isBuilt))
    if (ready.length === 0) break
    for (const node of ready) {
      await oracle.run(`CREATE SCHEMA IF NOT EXISTS "${node.schema}"`)
      await oracle.run(`CREATE TABLE ${node.relation_name} AS ${node.compiled_code}`)
    }
    built.push(...ready)
    left = left.filter((node) => !ready.includes(node))
  }
  return built
}

function sluice(...words: string[]): Promise<Ended> {
  return runSluice(words, { url: world.deployment.url, token, cwd: folder })
}

const rowsFor = (client: Client, product: string): Promise<Json> =>
  ok(
    client.post(
      '/api/v1/query',
      { sql: `SELECT * FROM ${product}` },
      client === world.admin ? { 'x-tenant-id': world.tenants[0] } : {},
    ),
  )

/** Rows of the product that the model's table has not, and the other way; documents are compared as such. */
async function differences(model: Json, product: string): Promise<{ readonly rows: number; readonly differ: number }> {
  const { rows } = await rowsFor(world.admin, product)
  const described = await oracle.runAndReadAll(`DESCRIBE ${model.relation_name}`)
  const columns = described.getRows().map(([name, type]) => ({ name: String(name), type: String(type) }))
  const values = JSON.stringify(
    rows.map((row: Json) => (Array.isArray(row) ? row : columns.map(({ name }) => row[name]))),
  )
  const cells = columns.map(({ name, type }, at) =>
    type.endsWith('[]') ? `CAST(row -> ${at} AS ${type}) AS "${name}"` : `CAST(row ->> ${at} AS ${type}) AS "${name}"`,
  )
  const served = `(SELECT ${cells.join(', ')} FROM (SELECT unnest(from_json($1::VARCHAR, '["JSON"]')) AS row))`
  const found = await oracle.runAndReadAll(
    `SELECT (SELECT count(*) FROM (SELECT * FROM ${served} EXCEPT ALL SELECT * FROM ${model.relation_name}))
      + (SELECT count(*) FROM (SELECT * FROM ${model.relation_name} EXCEPT ALL SELECT * FROM ${served}))`,
    [values],
  )
  return { rows: rows.length, differ: Number(found.getRows()[0]?.[0]) }
}

const NOT_CARRIED = ['forecast', 'forecast_by_month']

describe('sluice dbt import', () => {
  it('writes what can be carried, and says why the rest is not', async () => {
    const { code, out, err } = await sluice(
      'dbt',
      'import',
      join(project, 'target'),
      'shop',
      '--connection',
      'db',
      '--json',
    )
    assert.equal(code, 2, err)
    const report = JSON.parse(out)
    assert.deepEqual(
      report.products.map((one: Json) => one.model).sort(),
      models
        .map(({ name }) => name)
        .filter((name) => !NOT_CARRIED.includes(name))
        .sort(),
    )
    const reasons = Object.fromEntries(report.not_carried.map((one: Json) => [one.name, one.reason]))
    assert.match(reasons['forecast'], /python/)
    assert.match(reasons['forecast_by_month'], /reads forecast, which is not carried/)
    assert.deepEqual([report.inlined, report.exposures], [['stg_shop__lines'], ['weekly_report']])
    assert.deepEqual(
      report.tables.map((one: Json) => one.table),
      [COUNTRIES],
    )
    const again = await sluice('dbt', 'import', join(project, 'target'), 'shop', '--connection', 'db')
    assert.deepEqual([again.code, /shop is not empty/.test(again.err)], [1, true], again.err)
    assert.deepEqual(await readdir(folder), ['shop'])
  })

  it('is applied as it was written, and every product has the rows that the compiled SQL makes', async () => {
    const applied = await sluice('apply', 'shop', '--yes', '--tenant', world.tenants[0])
    assert.equal(applied.code, 0, `${applied.err}${applied.out}`)
    await syncNow(developer)
    const products: readonly string[] = (await ok(developer.get('/api/v1/products'))).data.map(
      (one: Json) => `${one.namespace ?? one.domain}.${one.name}`,
    )
    const compared = models.filter(({ name }) => !NOT_CARRIED.includes(name))
    assert.equal(products.length, compared.length)
    for (const model of compared) {
      const product = `${model.schema}.${model.name.replaceAll('__', '_')}`
      const { rows, differ } = await differences(model, product)
      assert.deepEqual([product, differ, rows > 0], [product, 0, true])
    }
    assert.equal(
      (await sluice('apply', 'shop', '--check', '--tenant', world.tenants[0])).code,
      0,
      'a second time there is nothing to do',
    )
  })

  it('hides in what is made of a source what the project says of the source', async () => {
    const { rows } = await rowsFor(developer, 'analytics_marts.customers')
    assert.equal(rows.length, 60)
    const shown = JSON.stringify(rows)
    assert.ok(!/@shop\.test|First \d/.test(shown), shown.slice(0, 300))
    const { data } = await ok(world.admin.get('/api/v1/products', { 'x-tenant-id': world.tenants[0] }))
    const closed = data.find((one: Json) => one.name === 'segments')
    assert.equal(closed.classification, 'confidential', JSON.stringify(closed))
  })
})
