/** A whole runtime makes a product with `engine: distributed` through this plugin, and refuses what its engine refuses. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { Client as Source } from 'pg'
import { type Client, type Json, manifests, ok } from '../../../acceptance/client.ts'
import { printedBy } from '../../../packaging/tarballs.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../../../runtime/src/database/embedded-server.ts'
import { placeTestCluster } from '../../../runtime/src/database/testing.ts'
import { withDatabase } from '../../../test/crash/databases.ts'
import { RuntimeProcess } from '../../../test/crash/runtime-process.ts'
import { adminOf, connectSource, makeTenant, personOf, registerProduct, servedAt } from '../../../test/first-steps.ts'

const PYTHON = process.env['SLUICE_TEST_ICEBERG_PYTHON'] as string
const PASSWORD = 'reads-the-catalog'

const COLUMNS = `  - { name: city, type: string, role: identity, nullable: false }
  - { name: people, type: long }
  - { name: amount, type: "decimal(12,0)" }
  - { name: ratio, type: double }
  - { name: bytes, type: binary }
  - { name: last, type: timestamptz }
`
const TRANSFORM = `
  SELECT s.city, count(*) AS people, sum(s.amount) AS amount, max(s.ratio) AS ratio, max(s.bytes) AS bytes, max(s.at) AS last
  FROM source s JOIN source other ON s.id = other.id GROUP BY s.city`

let folder: string
let data: string
let server: EmbeddedServer
let source: Source
let runtime: RuntimeProcess
let developer: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-python-'))
  data = join(folder, 'data')
  server = await startEmbeddedServer({ dataFolder: join(folder, 'source'), durable: false })
  source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query(`CREATE TABLE visits AS SELECT n AS id, 'c' || n % 3 AS city, (n * 1.25)::numeric(12,2) AS amount,
    CASE WHEN n % 3 = 0 THEN 'Infinity'::float8 ELSE n / 4.0::float8 END AS ratio, decode('00ff', 'hex') AS bytes,
    timestamptz '2026-01-01 10:00+02' + n * interval '1 hour' AS at, 'secret' || n AS hidden FROM generate_series(1, 3000) n;
    ALTER TABLE visits ADD PRIMARY KEY (id)`)
  const catalogFile = join(folder, 'catalog.json')
  const config = {
    plugins: ['@sluice/analytics/duckdb', '@sluice/connectors/postgresql', await unpacked()],
    serving: { analytics: { driver: 'duckdb' } },
    compute: { python: { python: PYTHON, catalog_file: catalogFile, memory_mb: '512' } },
  }
  const file = join(folder, 'sluice.yaml')
  await writeFile(file, JSON.stringify(config))
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, file)
  const url = await servedAt(runtime)
  await writeFile(catalogFile, JSON.stringify(await catalogProperties()))
  const admin = await adminOf({ url, data })
  developer = await personOf({ url, data }, 'dora')
  await makeTenant(admin)
  await connectSource(developer, server.tcpAddress)
  await registerProduct(developer, 'people')
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** The package as its tarball has it, outside of this repository, with nothing but the SDK beside it. */
async function unpacked(): Promise<string> {
  const tarball = (await printedBy(import.meta.dirname, 'npm', ['pack', '--pack-destination', folder])).trim()
  await printedBy(folder, 'tar', ['-xzf', tarball])
  const beside = join(folder, 'node_modules/@sluice')
  await mkdir(beside, { recursive: true })
  await symlink(join(import.meta.dirname, '../../../sdk'), join(beside, 'sdk'))
  return join(folder, 'package')
}

/** By the login of engines outside, which may read the catalog of every tenant and write nothing. */
function catalogProperties(): Promise<Readonly<Record<string, string>>> {
  return withDatabase(data, 'sluice_registry', async (client) => {
    // As an operator makes it; a runtime that starts later lets it in by itself.
    await client.query(`CREATE ROLE sluice_lake LOGIN PASSWORD '${PASSWORD}';
      GRANT CONNECT ON DATABASE sluice_registry TO sluice_lake; GRANT USAGE ON SCHEMA public TO sluice_lake;
      GRANT SELECT ON iceberg_tables, iceberg_namespace_properties TO sluice_lake`)
    const uri = `postgresql+psycopg2://sluice_lake:${PASSWORD}@127.0.0.1:${client.port}/sluice_registry`
    return { name: 'lakehouse_{tenant}', type: 'sql', uri, init_catalog_tables: 'false' }
  })
}

function filesOf(transform: string, input = '') {
  const files = manifests('public.visits', { endpoints: '  - type: analytics\n', columns: COLUMNS })
  const compute = `apiVersion: svc/v1\nkind: Compute\nengine: distributed\ntransform: |${transform}\ntrigger: on_ingestion\n`
  return {
    ...files,
    compute,
    output: `${files.output}allow_lossy: [amount]\n`,
    inputs: files.inputs.replace('mode: full }', `mode: full${input} }`),
    quality: files.quality.replaceAll('id', 'city'),
  }
}

async function deploy(version: string, transform: string, input = '') {
  await ok(developer.upload('/api/v1/products/people/manifests', filesOf(transform, input)))
  return developer.post('/api/v1/products/people/deploy', { version, dry_run: false })
}

const rows = async (): Promise<Json> => {
  const sql = `SELECT city, people, CAST(amount AS VARCHAR), CAST(ratio AS VARCHAR), hex(bytes), epoch(last)::BIGINT FROM crm.people ORDER BY 1`
  return (await ok(developer.post('/api/v1/query', { sql }))).rows
}

it('makes a product’s rows, with their types and what casts took from them', async () => {
  await ok(deploy('1.0.0', TRANSFORM, ", where: 'id > 3'"))
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, 'succeeded', `${JSON.stringify(run)}\n${runtime.output}`)
  const { rows: expected } =
    await source.query(`SELECT city, count(*)::int, round(sum(amount), 0)::text, max(ratio)::text,
    upper(encode((array_agg(bytes))[1], 'hex')), extract(epoch FROM max(at))::bigint::int FROM visits WHERE id > 3
    GROUP BY city ORDER BY city`)
  const read = (await rows()).map((row: Json) => [row[0], Number(row[1]), ...row.slice(2, 5), Number(row[5])])
  const lost = `SELECT count(*)::int AS amount FROM (SELECT sum(amount) AS a FROM visits WHERE id > 3 GROUP BY city) AS s
    WHERE a <> round(a)`
  const [counted] = (await source.query(lost)).rows
  assert.ok(counted.amount > 0)
  const { body: product } = await developer.get('/api/v1/products/people')
  assert.deepEqual(product.last_materialization.lossy_values, counted)
  const asText = (cell: unknown) => String(cell).replace('Infinity', 'inf').replace(/\.0$/, '')
  assert.deepEqual(
    read.map((row: Json) => row.map(asText)),
    expected.map((row) => Object.values(row).map(asText)),
  )
})

it('runs no text that reads more than the columns that were chosen, or anything of the machine', async () => {
  const chosen = ', columns: [id, city]'
  const columns = 'count(*) AS people, 1 AS amount, 1 AS ratio, NULL::BLOB AS bytes, max(seen) AS last'
  const at = "TIMESTAMPTZ '2026-01-01 00:00:00+00' AS seen"
  const asked = async (version: string, from: string) => {
    const transform = `\n  SELECT city, ${columns} FROM (SELECT *, ${at} FROM (${from}) AS x) AS y GROUP BY city`
    const { status, body } = await deploy(version, transform, chosen)
    return status < 300 ? 'deployed' : String(body.code)
  }
  for (const [at, from] of [
    'SELECT hidden AS city FROM source',
    'SELECT hidden AS city FROM __table',
    "SELECT content AS city FROM read_text('/etc/hostname')",
    "SELECT * FROM '/etc/hostname'",
    'SELECT city FROM job',
    "SELECT city FROM source; SELECT 'x' AS city",
    "SELECT city FROM source) AS x) AS y GROUP BY city; SET lock_configuration = false; SELECT * FROM ((SELECT 'x' AS city",
  ].entries())
    assert.equal(await asked(`2.0.${at}`, from), 'transform_invalid', from)
  assert.equal(await asked('2.1.0', 'SELECT city FROM source'), 'deployed')
  const wrong = await deploy('2.2.0', TRANSFORM, ", where: 'nothing > 3'")
  assert.equal(wrong.body.code, 'transform_invalid', JSON.stringify(wrong.body))
})
