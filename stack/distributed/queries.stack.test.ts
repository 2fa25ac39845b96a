/** `POST /query` where Trino serves analytics: the same walls, masks and formats as of the embedded engine. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Client, Json } from '../../acceptance/client.ts'
import { withLimits } from '../../test/until.ts'
import { connectionTo, Fleet, serversFromEnvironment } from '../several/fleet.ts'
import { trinoRows } from '../trino/rows.ts'

const ID = Date.now().toString(36)
const TENANT = `asks${ID}`
const OTHER = `other${ID}`
const TRINO = process.env['SLUICE_TEST_TRINO_URL'] as string
const ROWS = 2_000

let folder: string
let fleet: Fleet
let source: pg.Client
let developer: Client
let viewer: Client
let stranger: Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-queries-'))
  const options = { trino: TRINO, isAnalyticsInTrino: true }
  fleet = await Fleet.start(folder, serversFromEnvironment(process.env), 1, options)
  source = new pg.Client({ connectionString: fleet.source })
  await source.connect()
  await source.query(`CREATE TABLE people AS SELECT n::bigint AS id, 'p' || n || '@people.test' AS email,
    (n * 1.25)::numeric(12, 2) AS amount, n / 7.0::double precision AS ratio, n % 2 = 0 AS ok, date '2026-01-01' + n AS day,
    timestamp '2026-01-01 10:00:00.123456' + n * interval '1 hour' AS seen,
    timestamptz '2026-01-01 10:00:00.5+02' + n * interval '1 hour' AS at,
    9007199254740993 + n AS big, CASE WHEN n % 3 = 0 THEN NULL ELSE 'é "' || n || ''', ' END AS note,
    decode(lpad(to_hex(n), 8, '0'), 'hex') AS bytes FROM generate_series(1, ${ROWS}) n;
    ALTER TABLE people ADD PRIMARY KEY (id)`)
  const admin = await fleet.client(['--role', 'admin'])
  for (const slug of [TENANT, OTHER]) {
    const made = await admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'standard' })
    assert.equal(made.status, 201, JSON.stringify(made.body))
  }
  developer = await fleet.client(['--tenant', TENANT, '--group', 'svc-developers', '--user', 'dora'])
  viewer = await fleet.client(['--tenant', TENANT, '--group', 'svc-viewers', '--user', 'vito'])
  stranger = await fleet.client(['--tenant', OTHER, '--group', 'svc-developers', '--user', 'olga'])
  for (const client of [developer, stranger]) {
    const connection = await client.post('/api/v1/connections', connectionTo(fleet.source))
    assert.equal(connection.status, 201, JSON.stringify(connection.body))
  }
  await deploy(developer, 'people', 'internal')
  await deploy(stranger, 'secrets', 'internal')
  for (const client of [developer, stranger]) {
    const { body } = await client.post('/api/v1/connections/db/sync')
    assert.equal((await client.untilEnded(body.id)).state, 'succeeded')
  }
  await materialized(developer, 'people', 1)
  await materialized(stranger, 'secrets', 1)
})

after(async () => {
  for (const tenant of [TENANT, OTHER]) {
    await trinoRows({ url: TRINO }, `DROP CATALOG IF EXISTS lakehouse_${tenant}`).catch(() => undefined)
  }
  await source?.end()
  await fleet?.close()
  await rm(folder, { recursive: true, force: true })
})

const head = (kind: string): string => `apiVersion: svc/v1\nkind: ${kind}\n`

const manifestsOf = (name: string, classification: string) => ({
  product: `${head('Product')}name: ${name}\nnamespace: crm\narchetype: aggregate\nclassification: ${classification}\n`,
  inputs: `${head('Inputs')}inputs:\n  - { name: p, connection: db, table: public.people, mode: full }\n`,
  output: `${head('Output')}format: iceberg
schema:
  - { name: id, type: long, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: amount, type: "decimal(12,2)" }
  - { name: ratio, type: double }
  - { name: ok, type: boolean }
  - { name: day, type: date }
  - { name: seen, type: timestamp }
  - { name: at, type: timestamptz }
  - { name: big, type: long }
  - { name: note, type: string }
  - { name: bytes, type: binary }
write_mode: replace
`,
  quality: `${head('Quality')}checks:\n  - name: id_unique\n    unique: [id]\n`,
  serving: `${head('Serving')}endpoints:\n  - type: analytics\n`,
  compute: `${head('Compute')}engine: embedded\ntrigger: on_ingestion\n`,
})

async function deploy(client: Client, name: string, classification: string): Promise<void> {
  const { body } = await client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'aggregate' })
  const uploaded = await client.upload(`/api/v1/products/${body.id}/manifests`, manifestsOf(name, classification))
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const deployed = await client.post(`/api/v1/products/${body.id}/deploy`, { version: '1.0.0', dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
}

async function materialized(client: Client, name: string, count: number): Promise<readonly Json[]> {
  for (let attempt = 0; attempt < 1_500; attempt += 1) {
    const { body } = await client.get(`/api/v1/products/${name}/snapshots`)
    if (body.data.length >= count) return body.data
    await sleep(200)
  }
  throw new Error(`${name} was not materialized`)
}

async function ask(client: Client, sql: string, more: object = {}): Promise<Json> {
  const { status, body } = await client.post('/api/v1/query', { sql, ...more })
  assert.equal(status, 200, `${sql}: ${JSON.stringify(body)}`)
  assert.equal(body.meta.engine, 'trino')
  return body
}

async function refusal(client: Client, sql: string, more: object = {}): Promise<Json> {
  const { status, body } = await client.post('/api/v1/query', { sql, ...more })
  assert.ok(status >= 400, `${sql}: ${JSON.stringify(body).slice(0, 500)}`)
  return body
}

describe('queries in Trino', { timeout: 600_000 }, () => {
  it('give every type as the embedded engine writes it, in the order that was asked for', async () => {
    const sql = 'SELECT id, amount, ratio, ok, day, seen, "at", big, note, bytes FROM crm.people ORDER BY id DESC'
    const { columns, rows, row_count, truncated } = await ask(developer, sql, { limit: ROWS })
    assert.deepEqual(
      columns.map(({ type }: Json) => type),
      ['long', 'decimal(12,2)', 'double', 'boolean', 'date', 'timestamp', 'timestamptz', 'long', 'string', 'binary'],
    )
    assert.deepEqual([row_count, truncated], [ROWS, false])
    const { rows: expected } = await source.query(`SELECT id, amount::text, ratio, ok, day::text,
      to_char(seen, 'YYYY-MM-DD"T"HH24:MI:SS.US') AS seen, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
      big::text, note, encode(bytes, 'base64') AS bytes FROM people ORDER BY id DESC`)
    const plain = (row: Json) => row.map((cell: unknown) => (cell === null ? null : String(cell)))
    const iso = (text: string) => text.replace(/\.?0+(Z?)$/, '$1')
    const tidy = (row: readonly (string | null)[]) =>
      row.map((cell, at) => (at === 5 || at === 6 ? iso(String(cell).replace(' ', 'T').replace('+00', 'Z')) : cell))
    assert.deepEqual(
      rows.map((row: Json) => tidy(plain(row))),
      expected.map((row: Json) => tidy(plain(Object.values(row)))),
    )
  })

  it('take WITH queries, joins, nesting and parameters', async () => {
    const sql = `WITH people AS (SELECT id, day FROM crm.people WHERE id <= ? AND note = ?)
      SELECT a.id, array_agg(b.id ORDER BY b.id) AS ids, map(ARRAY['k'], ARRAY[CAST(ROW(a.id, 'x') AS ROW(n bigint, t varchar))]) AS m
      FROM people a JOIN crm.people b ON b.id BETWEEN a.id AND a.id + 1 GROUP BY a.id ORDER BY 1`
    const { rows } = await ask(developer, sql, { params: [4, `é "4', `] })
    assert.deepEqual(rows, [[4, [4, 5], { k: { n: 4, t: 'x' } }]])
    assert.deepEqual((await ask(developer, 'SELECT 1 AS a, 2 AS a, NULL')).rows, [[1, 2, null]])
    const ranked = 'SELECT o.id FROM crm.people"o" WHERE o.id -? > ? ORDER BY 1 OFFSET ? '
    for (const end of ['LIMIT ?', 'ROWS FETCH FIRST ? ROWS ONLY'])
      assert.deepEqual((await ask(developer, ranked + end, { params: [-3, 6, 1, 2] })).rows, [[5], [6]], end)
    const byBytes =
      "SELECT id FROM crm.people WHERE bytes = X'00000007' OR bytes BETWEEN X'0000000a' AND X'0000000b' ORDER BY 1"
    assert.deepEqual((await ask(developer, byBytes)).rows, [[7], [10], [11]])
    const times = ['UTC', '+02:00', '-03:30', 'Europe/Berlin'].map(
      (zone) => `TIMESTAMP '2026-07-01 10:00:00.5 ${zone}'`,
    )
    const [instants] = (await ask(developer, `SELECT ${times.join(', ')}, current_timestamp`)).rows
    assert.deepEqual(
      instants.slice(0, 4).map((text: string) => new Date(text).toISOString().slice(11, 21)),
      ['10:00:00.5', '08:00:00.5', '13:30:00.5', '08:00:00.5'],
    )
    assert.ok(Math.abs(Date.parse(instants[4]) - Date.now()) < 1_800_000, instants[4])
    assert.deepEqual((await ask(developer, 'SELECT people.id FROM crm.people WHERE people.id > 5000')).rows, [])
    const ids = [...(await ask(developer, 'SELECT big FROM crm.people ORDER BY big LIMIT 1')).rows]
    assert.equal(String(ids[0][0]), '9007199254740994', 'no digit is lost')
  })

  it('come in every format, and end at the limit', async () => {
    const sql = 'SELECT id, note FROM crm.people ORDER BY id'
    const { rows, truncated } = await ask(developer, sql, { limit: 7 })
    assert.deepEqual([rows.length, truncated], [7, true])
    const as = async (type: string) => {
      const answer = await developer.post('/api/v1/query', { sql, limit: 2 }, { accept: type })
      assert.equal(answer.status, 200)
      return String(answer.body)
    }
    assert.equal(await as('application/x-ndjson'), '{"id":1,"note":"é \\"1\', "}\n{"id":2,"note":"é \\"2\', "}\n')
    assert.match(await as('text/csv'), /^"id","note"\r?\n1,"é ""1', "\r?\n/)
    assert.match(await as('application/vnd.apache.parquet'), /^PAR1/)
  })

  it('show masked values to those who are not cleared, however they ask, and say which columns they are', async () => {
    for (const sql of [
      'SELECT email FROM crm.people',
      "SELECT max(email) AS highest FROM crm.people WHERE email LIKE '%'",
      'SELECT e FROM (SELECT lower(email) AS e FROM crm.people)',
    ]) {
      const { columns, rows } = await ask(viewer, sql)
      assert.ok(!JSON.stringify(rows).includes('@people.test'), sql)
      assert.deepEqual(
        columns.map(({ masked }: Json) => masked),
        [true],
        sql,
      )
    }
    assert.deepEqual((await ask(viewer, "SELECT count(*) FROM crm.people WHERE email = 'p7@people.test'")).rows, [[0]])
    for (const table of ['crm.people__masked', 'crm."people$snapshots"', 'crm."people$files"']) {
      assert.equal((await refusal(viewer, `SELECT * FROM ${table}`)).code, 'table_not_found', table)
    }
  })

  it('see one tenant’s tables, and nothing else that Trino has', async () => {
    assert.deepEqual((await ask(stranger, 'SELECT count(*) FROM crm.secrets')).rows, [[ROWS]])
    // What there is the runtime answers by itself.
    const { body } = await developer.post('/api/v1/query', { sql: 'SELECT table_name FROM information_schema.tables' })
    const listed = body.rows.flat()
    assert.deepEqual([listed.includes('people'), listed.includes('secrets')], [true, false])
    assert.equal(body.meta.engine, 'duckdb')
    for (const sql of [
      'SELECT * FROM crm.secrets',
      'SELECT * FROM runtime.queries',
      'SELECT * FROM information_schema.routines',
      'SELECT * FROM people',
      'SELECT * FROM TABLE(system.query(query => 1))',
    ])
      assert.match((await refusal(developer, sql)).code, /^(table_not_found|sql_invalid)$/, sql)
    for (const sql of [
      `SELECT * FROM lakehouse_${OTHER}.crm.secrets`,
      `SELECT * FROM "lakehouse_${OTHER}"."crm"."secrets"`,
      'SELECT * FROM system.runtime.queries',
      'SHOW CATALOGS',
      `SELECT 1 FROM crm.people) UNION SELECT 2 FROM (SELECT 1`,
      'DELETE FROM crm.people',
      "WITH SESSION query_max_run_time = '10d' SELECT 1",
      'WITH FUNCTION f(x bigint) RETURNS bigint RETURN x + 1 SELECT f(1)',
      'SELECT current_user',
      'SELECT "$current_user"()',
    ])
      assert.match((await refusal(developer, sql)).code, /^sql_(not_allowed|syntax_error)$/, sql)
    const merged = `SELECT * FROM lakehouse_${OTHER}.crm.?_secrets`
    assert.equal((await refusal(developer, merged, { params: [null] })).code, 'sql_not_allowed')
    const apart = `SELECT * FROM lakehouse_${OTHER}.crm ? secrets`
    assert.match((await refusal(developer, apart, { params: [null] })).code, /^sql_(invalid|syntax_error)$/)
  })

  it('read the past, and the raw tables of those who may', async () => {
    const [first] = await materialized(developer, 'people', 1)
    await source.query("UPDATE people SET note = 'new' WHERE id = 1")
    const { body } = await developer.post('/api/v1/connections/db/sync')
    assert.equal((await developer.untilEnded(body.id)).state, 'succeeded')
    await materialized(developer, 'people', 2)
    const sql = 'SELECT note FROM crm.people WHERE id = 1'
    assert.deepEqual((await ask(developer, sql)).rows, [['new']])
    const then = await ask(developer, sql, { as_of: first?.snapshot_id ?? first?.id })
    assert.deepEqual(then.rows, [[`é "1', `]])
    assert.deepEqual((await ask(developer, 'SELECT note FROM raw_db.people WHERE id = 1')).rows, [['new']])
    assert.equal((await refusal(viewer, 'SELECT note FROM raw_db.people')).code, 'table_not_found')
  })

  it('are told what is wrong and where, and end with their time', async () => {
    const unknown = await refusal(developer, 'SELECT id\n FROM crm.people WHERE nothing = 1')
    assert.equal(`${unknown.code} ${unknown.detail}`, 'column_not_found there is no column "nothing"')
    const absent = await refusal(developer, 'SELECT 1 FROM crm.people p JOIN crm."nobody" ON true')
    const { code, table, line, column } = absent
    assert.deepEqual([code, table, line, column], ['table_not_found', 'crm.nobody', 1, 33])
    const divided = await refusal(developer, "SELECT id,\n date_trunc('nothing', day) FROM crm.people")
    assert.equal(divided.code, 'sql_invalid')
    assert.match(divided.detail, /^Trino cannot run the query: INVALID_FUNCTION_ARGUMENT/)
    const slow = (
      marker: string,
    ) => `SELECT max(a.id + b.id + n) FROM crm.people a CROSS JOIN crm.people b CROSS JOIN unnest(sequence(1, 10000)) AS s(n)
      WHERE mod(a.id * b.id + n, 7) <> 8 AND a.note <> '${marker}'`
    // Time enough for the statement to have reached Trino.
    await withLimits([8_000, 30_000, 120_000], async (timeout_ms) => {
      const marker = `out-of-time-${ID}-${timeout_ms}-`
      assert.equal((await refusal(developer, slow(marker), { timeout_ms })).code, 'query_timeout')
      const running = `SELECT state FROM system.runtime.queries WHERE query LIKE '%${marker}%'
        AND query NOT LIKE 'EXPLAIN%' AND query NOT LIKE '%runtime.queries%'`
      for (let attempt = 0; ; attempt += 1) {
        const [found] = await trinoRows({ url: TRINO }, running)
        if (found?.[0] === 'FAILED') break
        assert.ok(attempt < 600, `Trino still works, or was never asked: ${JSON.stringify(found)}`)
        await sleep(100)
      }
    })
  })
})
