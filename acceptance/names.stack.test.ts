/**
 * What a source calls its schemas, tables, types and columns goes through every door as it is, or is refused by name when a
 * version is planned. Two tables are never taken for one.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Answer, type Client, type Json, manifests } from './client.ts'
import { connect, openWorld, syncNow, type World } from './world.ts'

/** Of columns: each is one of a table, and each is its key, its cursor and what it is filtered and checked by. */
const NAMES = [
  ...['a"b', "a'b", 'a b', ' lead', 'trail ', 'a\nb', 'a\r\nb', 'a\tb', 'a\u202eb', 'a\u0001b', '\u007f', '\ufeffa'],
  ...['é', 'e\u0301', '😀', 'a\u200bb', 'a\u2028b', 'x'.repeat(63), 'é'.repeat(31), 'UPPER', 'Mixed', 'a.b', '.', '0'],
  ...['select', 'user', 'null', 'rowid', 'source', 'output', 'this', 'tenant_id', '__x', "E'x'", '$1', '?', '*'],
  ...['a\\b', 'a%b', 'a[0]', 'a{b}', 'a,b', 'a:b', '../x', '/*', '--', '"; DROP TABLE odd_columns; --', '#c'],
]

/** Of tables, as inputs.yaml has them, and how the source and a query name each. */
const CARRIED = [
  { table: 'public.a.b', source: 'public."a.b"', raw: '"public.a.b"' },
  { table: 'a.b', source: 'a.b', raw: '"a.b"' },
  { table: 'a.b.c', source: 'a."b.c"', raw: '"a.b.c"' },
  { table: 'ünï q.täble', source: '"ünï q"."täble"', raw: '"ünï q.täble"' },
  { table: 'Case', source: '"Case"', raw: '"Case"' },
  { table: 'case', source: '"case"', raw: '"case"' },
  { table: "it's; --", source: `"it's; --"`, raw: `"it's; --"` },
  { table: 'a\u202eb', source: '"a\u202eb"', raw: '"a\u202eb"' },
  { table: 'x'.repeat(63), source: `"${'x'.repeat(63)}"`, raw: 'x'.repeat(63) },
  { table: 'many', source: 'many', raw: 'many' },
] as const

const REFUSED = [
  { table: 'public.a"b', source: 'public."a""b"', says: /the name holds a control character, or one of/ },
  { table: 'a\nb', source: '"a\nb"', says: /the name holds a control character, or one of/ },
  { table: '../x', source: '"../x"', says: /the name begins with a dot|lies in a schema|holds a control/ },
  { table: 'S "q.t', source: '"S ""q".t', says: /the name holds a control character, or one of/ },
] as const

/** These are told by what the source has. */
const REFUSED_AT_SOURCE = [
  { table: 'd.ot.t', source: '"d.ot".t', says: /lies in a schema whose name holds a dot/ },
  { table: 'two', source: 'two', says: /its columns "v" and "V" have one name but for its case/ },
] as const

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
const yaml = (text: string) => JSON.stringify(text)

let world: World
let dora: Client

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  dora = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, dora)
  const texts = NAMES.map((name) => `${quoted(name)} text NOT NULL DEFAULT 'v'`).join(', ')
  const many = Array.from({ length: 1500 }, (_, at) => `c${at} integer`).join(', ')
  await world.source.query(`CREATE SCHEMA a; CREATE SCHEMA "S ""q"; CREATE SCHEMA "ünï q"; CREATE SCHEMA "d.ot"; CREATE SCHEMA d;
    CREATE TYPE "S ""q"."E ""'\u202e\n.x" AS ENUM ('a,b', 'c"d');
    CREATE TABLE odd_columns (${texts}, n numeric, "at ""\n.T" timestamptz NOT NULL DEFAULT clock_timestamp(),
      e "S ""q"."E ""'\u202e\n.x"[] DEFAULT '{"a,b","c\\"d"}', PRIMARY KEY (${NAMES.slice(0, 32).map(quoted).join(', ')}));
    CREATE TABLE two (id integer PRIMARY KEY, v text, "V" text);
    CREATE TABLE many (id integer PRIMARY KEY, v text, ${many})`)
  const others = [...CARRIED, ...REFUSED, ...REFUSED_AT_SOURCE].filter(
    ({ table }) => table !== 'many' && table !== 'two',
  )
  for (const { source } of others) await world.source.query(`CREATE TABLE ${source} (id integer PRIMARY KEY, v text)`)
  for (const { source } of CARRIED) await world.source.query(`INSERT INTO ${source} (id, v) VALUES (1, $1)`, [source])
})

after(() => world?.close())

/** A product of these inputs, registered, uploaded and deployed as far as that goes. */
async function deployed(
  name: string,
  inputs: readonly string[],
  more: Readonly<Record<string, string>>,
): Promise<Answer> {
  const wanted = { name, namespace: 'odd', archetype: 'source_aligned', description: '' }
  assert.equal((await dora.post('/api/v1/products', wanted)).status, 201)
  const made = manifests('t', { endpoints: '  - type: analytics\n' })
  const files = {
    ...made,
    product: made.product.replace('name: people', `name: ${name}`).replace('namespace: crm', 'namespace: odd'),
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs.map((input) => `  - { connection: db, ${input} }\n`).join('')}`,
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n',
    ...more,
  }
  const uploaded = await dora.upload(`/api/v1/products/odd.${name}/manifests`, files)
  if (uploaded.status !== 200) return uploaded
  return dora.post(`/api/v1/products/odd.${name}/deploy`, { version: '1.0.0', dry_run: false })
}

/** What all inputs hold: which of them, and the row's own word. */
function union(tables: readonly unknown[]): Readonly<Record<string, string>> {
  const columns = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: v, type: string }\n'
  const { output, compute } = manifests('t', { columns })
  const selects = tables.map((_, at) => `SELECT ${at} AS id, v FROM i${at}`)
  return { output, compute: `${compute}transform: ${selects.join(' UNION ALL ')}\n` }
}

const inputsOf = (tables: readonly { readonly table: string }[]) =>
  tables.map(({ table }, at) => `name: i${at}, table: ${yaml(table)}, mode: full`)

async function rows(sql: string): Promise<Json> {
  const { status, body } = await dora.post('/api/v1/query', { sql })
  assert.equal(status, 200, `${sql.slice(0, 200)}: ${JSON.stringify(body).slice(0, 400)}`)
  return body.rows
}

describe('names of a source', () => {
  it('of tables: each is read as itself, or refused by name when its version is planned', async () => {
    for (const [name, tables] of Object.entries({ refused: REFUSED, refused_at_source: REFUSED_AT_SOURCE })) {
      const refused = await deployed(name, inputsOf(tables), union(tables))
      const errors: readonly Json[] = refused.body.errors
      for (const [at, { table, says }] of tables.entries()) {
        const isSaid = errors.some(({ path, message }) => path === `inputs[${at}].table` && says.test(message))
        assert.ok(isSaid, `${table}: ${JSON.stringify(refused.body)}`)
      }
    }
    const { status, body } = await deployed('carried', inputsOf(CARRIED), union(CARRIED))
    assert.equal(status, 201, JSON.stringify(body))
    await syncNow(dora)
    const grants = '/api/v1/connections/db/grants'
    const dan = await world.as(world.tenants[0], 'svc-developers', 'dan')
    const carried = CARRIED.map(({ source }, at) => [at, source])
    assert.deepEqual(await rows('SELECT id, v FROM odd.carried ORDER BY id'), carried)
    for (const { table, source, raw } of CARRIED) {
      const own = `SELECT v FROM raw_db.${raw}`
      assert.deepEqual(await rows(own), [[source]], raw)
      assert.equal((await dan.post('/api/v1/query', { sql: own })).body.code, 'table_not_found', raw)
      const full = table.includes('.') ? table : `public.${table}`
      const granted = await dora.post(grants, { subject: { user: 'dan' }, table: full })
      assert.equal(granted.status, 201, JSON.stringify(granted.body))
      assert.deepEqual((await dan.post('/api/v1/query', { sql: own })).body.rows, [[source]], raw)
      await dora.send(`${grants}/${granted.body.id}`, { method: 'DELETE' })
    }
    const both = await dora.post('/api/v1/query', { sql: 'SELECT * FROM raw_db."Case", raw_db."case"' })
    assert.deepEqual(
      [both.status, /differ only by case/.test(both.body.detail)],
      [400, true],
      JSON.stringify(both.body),
    )
  })

  it('of columns and types: read by them, filtered, keyed, checked, put aside and told', async () => {
    const output = NAMES.map((_, at) => `  - { name: c${at}, type: string }\n`).join('')
    const made = manifests('t', {
      columns: `  - { name: id, type: string, role: identity, nullable: false }\n  - { name: e, type: json }\n${output}`,
      endpoints: '  - type: lookup\n    config: { index_columns: [id] }\n',
    })
    const list = NAMES.map((name, at) => `${quoted(name)} AS c${at}`).join(', ')
    const references = NAMES.map(
      (name, at) =>
        `  - { name: r${at}, references: { columns: [c${at}], input: source, input_columns: [${yaml(name)}] } }\n`,
    )
    const where = NAMES.map((name) => `${quoted(name)} <> 'no'`).join(' AND ')
    const missing = NAMES.map((name) => `${quoted(name)} IS NULL`).join(' OR ')
    const key = NAMES.slice(0, 32).map(yaml).join(', ')
    const input = `name: source, table: odd_columns, mode: incremental, cursor_column: ${yaml('at "\n.T')}, primary_key: [${key}], where: ${yaml(where)}`
    const { status, body } = await deployed('columns', [input], {
      output: made.output.replace('write_mode: replace', 'write_mode: merge'),
      serving: made.serving,
      compute: `${made.compute}transform: ${yaml(`SELECT ${quoted(NAMES[0] as string)} AS id, e, ${list} FROM source`)}\n`,
      quality: `apiVersion: svc/v1\nkind: Quality\nchecks:\n  - { name: q, sql: ${yaml(`SELECT count(*) AS violations FROM source WHERE ${missing}`)} }\n${references.join('')}`,
    })
    assert.equal(status, 201, JSON.stringify(body))
    const [first] = NAMES.map(quoted)
    await world.source.query(`INSERT INTO odd_columns (${first}) SELECT 'k' || i FROM generate_series(1, 4) i`)
    await syncNow(dora)
    await world.source.query(`DELETE FROM odd_columns WHERE ${first} = 'k1';
      UPDATE odd_columns SET ${quoted(NAMES.at(-1) as string)} = 'changed', "at ""\n.T" = clock_timestamp() WHERE ${first} = 'k2';
      INSERT INTO odd_columns (${first}, n) VALUES ('bad', 'NaN')`)
    const run = await syncNow(dora)
    const read = run.tables.find(({ name }: Json) => name === 'public.odd_columns')
    assert.deepEqual([read.mode, read.rows_removed, read.rows_rejected], ['incremental', 1, 0], JSON.stringify(read))
    const served = (await dora.get('/api/v1/products/odd.columns/latest')).body.data
    const last = `c${NAMES.length - 1}`
    assert.deepEqual(
      served.map((row: Json) => [row.id, row[last], row.e]),
      [
        ['k2', 'changed', ['a,b', 'c"d']],
        ['k3', 'v', ['a,b', 'c"d']],
        ['k4', 'v', ['a,b', 'c"d']],
      ],
    )
    const sql = `SELECT ${NAMES.map(quoted).join(', ')} FROM raw_db.odd_columns ORDER BY 1`
    const json = await dora.post('/api/v1/query', { sql })
    assert.deepEqual(
      json.body.columns.map(({ name }: Json) => name),
      NAMES,
    )
    const csv: string = (await dora.post('/api/v1/query', { sql }, { accept: 'text/csv' })).body
    assert.ok(csv.startsWith(`${NAMES.map(quoted).join(',')}\n"bad",`), csv.slice(0, 300))
    const lines: string = (await dora.post('/api/v1/query', { sql }, { accept: 'application/x-ndjson' })).body
    assert.deepEqual(Object.keys(JSON.parse(lines.split('\n')[0] as string)).toSorted(), NAMES.toSorted())
    const parquet = await dora.post('/api/v1/query', { sql }, { accept: 'application/vnd.apache.parquet' })
    assert.equal(parquet.status, 200)
  })
})
