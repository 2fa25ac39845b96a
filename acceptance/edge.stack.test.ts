/** What holds of every operation of the document, whatever it is about. HTTP only. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { type Client, type Json, manifests } from './client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from './world.ts'

let world: World
let developer: Client
let viewer: Client
let operations: readonly Operation[]

interface Operation {
  readonly id: string
  readonly method: string
  /** With something in the place of each parameter. */
  readonly path: string
  /** Media types of its good answers. */
  readonly types: readonly string[]
  readonly document: Json
}

before(async () => {
  world = await openWorld()
  await world.source.query(`DROP TABLE IF EXISTS edge_people;
    CREATE TABLE edge_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO edge_people SELECT i, 'e' || i || '@edge.test', 'city ' || i % 3 FROM generate_series(1, 30) i`)
  await world.createTenant(world.tenants[0], 'enterprise')
  developer = await world.as(world.tenants[0], 'svc-developers', 'dora')
  viewer = await world.as(world.tenants[0], 'svc-viewers', 'vito')
  await onboardPeople(world, developer, manifests('public.edge_people'))
  operations = operationsOf((await developer.get('/openapi.json')).body)
})

after(() => world?.close())

function operationsOf(document: Json): readonly Operation[] {
  return Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => ({
      id: operation.operationId,
      method: method.toUpperCase(),
      path: path.replace('{task}', 'check').replace(/\{\w+\}/g, 'none'),
      types: [...new Set(goodAnswers(operation).flatMap(({ content }) => Object.keys(content ?? {})))],
      document: operation,
    })),
  )
}

/** What is asked for in the address comes before the body. */
function neededQuery({ parameters = [] }: Json): string {
  const needed = parameters.filter((parameter: Json) => parameter.in === 'query' && parameter.required)
  return `?${new URLSearchParams(needed.map(({ name, example }: Json) => [name, example]))}`
}

const goodAnswers = (operation: Json): readonly Json[] =>
  Object.entries<Json>(operation.responses).flatMap(([status, answer]) => (status.startsWith('2') ? [answer] : []))

/** As whoever may: the developer, or an administrator where it takes one. */
async function ask({ method, path }: Operation, accept: string, body?: string): Promise<Response> {
  const headers = { accept, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
  const init = { method, ...(body === undefined ? {} : { body }) }
  const gone = new AbortController()
  const first = await developer.begin(path, headers, gone.signal, init)
  const response = first.status === 403 ? await world.admin.begin(path, headers, gone.signal, init) : first
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) gone.abort()
  return response
}

describe('Accept', () => {
  it('is refused by every operation that cannot honour it, before it does anything', async () => {
    const impossible = ['application/x-nothing', '*/*;q=0', 'image/*, nonsense', 'application/json;profile=other']
    for (const operation of operations) {
      for (const accept of impossible) {
        const response = await ask(operation, accept)
        const what = `${operation.id} ${accept}`
        if (operation.types.length === 0) {
          assert.notEqual(response.status, 406, what)
          continue
        }
        assert.equal(response.status, 406, what)
        assert.match(response.headers.get('content-type') ?? '', /^application\/problem\+json/, what)
        const { code, types } = (await response.json()) as Json
        assert.deepEqual([code, types], ['not_acceptable', operation.types], what)
      }
    }
  })

  it('is honoured by every operation, in each of its types', async () => {
    for (const operation of operations) {
      for (const type of operation.types) {
        const ranges = [type, type.replace(/\/.*/, '/*'), `${type};q=0.2, application/x-nothing`, '*/*']
        for (const accept of ranges) {
          const isRead = operation.method === 'GET'
          const body = operation.id === 'query' ? JSON.stringify({ sql: 'SELECT 1 AS one' }) : '{"nothing":0}'
          const response = await ask(operation, accept, isRead ? undefined : body)
          const what = `${operation.id} ${accept}: ${response.status}`
          assert.notEqual(response.status, 406, what)
          const given = (response.headers.get('content-type') ?? '').split(';')[0] ?? ''
          if (!response.ok) assert.equal(given, 'application/problem+json', what)
          else if (accept.startsWith(type)) assert.equal(given, type, what)
          else assert.ok(operation.types.includes(given), what)
          await response.body?.cancel().catch(() => undefined)
        }
      }
    }
  })
})

describe('bodies of requests', () => {
  it('are refused in any encoding, by every operation that takes one, before they are unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, ' '))
    const taking = operations.filter(({ document }) => document.requestBody !== undefined)
    assert.ok(taking.length > 10)
    for (const { id, method, path, document } of taking) {
      const [type = ''] = Object.keys(document.requestBody.content)
      const others = id === 'query' ? ['GZIP', 'br', 'deflate', 'gzip, gzip', 'unheard-of'] : []
      for (const encoding of ['gzip', ...others]) {
        const headers = { 'content-type': `${type}; boundary=x`, 'content-encoding': encoding }
        const ask = (client: Client) => client.send(`${path}${neededQuery(document)}`, { method, headers, body: bomb })
        const first = await ask(developer)
        const { status, body } = first.status === 403 ? await ask(world.admin) : first
        assert.deepEqual([status, body.code], [415, 'unsupported_media_type'], `${id} ${encoding}`)
      }
    }
  })
})

describe('information_schema', () => {
  const ask = async (client: Client, sql: string, headers = {}) => {
    const { status, body } = await client.post('/api/v1/query', { sql }, headers)
    return status === 200 ? body : body.code
  }

  before(async () => {
    const made = { name: 'closed', namespace: 'crm', archetype: 'source_aligned' }
    const { body: closed } = await developer.post('/api/v1/products', made)
    const files = manifests('public.edge_people')
    const product = files.product.replace('name: people', 'name: closed').concat('classification: confidential\n')
    await deployVersion(developer, closed.id, '1.0.0', { ...files, product })
    await syncNow(developer)
    const granted = await developer.post(`/api/v1/products/${closed.id}/grants`, {
      subject: { user: 'gina' },
      may: 'read',
    })
    assert.equal(granted.status, 201, JSON.stringify(granted.body))
  })

  it('says to each caller what that caller may read, and nothing else', async () => {
    await world.createTenant(world.tenants[1])
    const inTenant = { 'x-tenant-id': world.tenants[0] }
    const callers: readonly (readonly [string, Client, readonly string[], Record<string, string>?])[] = [
      ['the connection’s creator', developer, ['crm.people', 'raw_db.edge_people']],
      ['a developer', await world.as(world.tenants[0], 'svc-developers', 'dave'), ['crm.people']],
      ['a viewer', viewer, ['crm.people']],
      ['who has a grant', await world.as(world.tenants[0], 'svc-viewers', 'gina'), ['crm.closed', 'crm.people']],
      ['nobody of the team', await world.as(world.tenants[0], null, 'noah'), []],
      ['another tenant', await world.as(world.tenants[1], 'svc-developers', 'olga'), []],
      ['an administrator', world.admin, ['crm.closed', 'crm.people', 'raw_db.edge_people'], inTenant],
    ]
    for (const [who, client, wanted, headers] of callers) {
      const columns = await ask(
        client,
        'SELECT table_schema, table_name, column_name FROM information_schema.columns',
        headers,
      )
      const shown = await ask(client, 'SHOW TABLES', headers)
      assert.deepEqual(shown.rows.flat(), wanted, who)
      for (const name of wanted) {
        const own = columns.rows.filter(([schema, table]: readonly string[]) => `${schema}.${table}` === name)
        const read = await ask(client, `SELECT * FROM ${name} LIMIT 0`, headers)
        const names = read.columns.map((column: Json) => column.name)
        assert.deepEqual(
          own.map((row: readonly string[]) => row[2]),
          names,
          `${who} ${name}`,
        )
      }
      assert.equal(
        new Set(columns.rows.map(([schema, table]: readonly string[]) => `${schema}.${table}`)).size,
        wanted.length,
      )
    }
    for (const name of ['crm.closed', 'raw_db.edge_people', 'crm.nothing']) {
      for (const sql of [`SELECT * FROM ${name}`, `DESCRIBE ${name}`]) {
        assert.equal(await ask(viewer, sql), 'table_not_found', sql)
      }
    }
    const described = await ask(viewer, 'DESCRIBE CRM.People;')
    assert.deepEqual(
      described.rows.map((row: readonly string[]) => row.slice(0, 2)),
      [
        ['id', 'INTEGER'],
        ['email', 'VARCHAR'],
        ['city', 'VARCHAR'],
      ],
    )
  })

  it('gives types as the rows have them, also of what is masked', async () => {
    const { rows } = await ask(
      viewer,
      "SELECT column_name, data_type, is_nullable, numeric_precision FROM information_schema.columns WHERE table_name = 'people'",
    )
    assert.deepEqual(rows, [
      ['id', 'INTEGER', 'YES', 32],
      ['email', 'VARCHAR', 'YES', null],
      ['city', 'VARCHAR', 'YES', null],
    ])
  })

  it('is read as any tables are: joined, filtered, counted, under any name, in any form', async () => {
    const asked = [
      `SELECT count(*) AS n FROM information_schema.tables t JOIN information_schema.columns c
        USING (table_catalog, table_schema, table_name) WHERE lower(t.table_type) = 'base table' AND t.table_name LIKE 'peo%'`,
      'SELECT count(*) AS n FROM INFORMATION_SCHEMA.COLUMNS',
      'SELECT count(information_schema.columns.column_name) AS n FROM information_schema.columns',
      'WITH tables AS (SELECT 1) SELECT count(*) AS n FROM information_schema.columns, tables',
      'SELECT count(DISTINCT c.column_name) AS n FROM crm.people p, information_schema.columns c',
      'SELECT count(*) AS n FROM (SELECT * FROM "information_schema"."columns" WHERE table_schema IN (SELECT schema_name FROM information_schema.schemata))',
    ]
    for (const sql of asked) assert.deepEqual((await ask(viewer, sql)).rows, [[3]], sql)
    const csv = await viewer.post('/api/v1/query', { sql: 'SHOW SCHEMAS' }, { accept: 'text/csv' })
    assert.deepEqual(csv.body.replaceAll('"', '').trim().split(/\r?\n/), ['name', 'crm'])
    assert.deepEqual((await ask(viewer, 'show tables from CRM')).rows, [['people']])
    assert.deepEqual((await ask(viewer, 'SHOW COLUMNS FROM "crm" . "people"')).rows.length, 3)
  })

  it('is no way to the engine’s own descriptions, nor to what keeps these', async () => {
    for (const sql of [
      'SELECT * FROM " information_schema".tables',
      'SELECT * FROM system.information_schema.tables',
      'SELECT * FROM memory.information_schema.tables',
      'SELECT * FROM information_schema.key_column_usage, information_schema.tables',
      'SELECT * FROM information_schema.tables, duckdb_tables()',
      'SELECT * FROM pg_catalog.pg_class, information_schema.tables',
      'SELECT * FROM (DESCRIBE information_schema.tables)',
      'DESCRIBE information_schema.tables',
      'DESCRIBE crm.people; SELECT 1',
      'SHOW TABLES FROM crm UNION SELECT 1',
    ]) {
      assert.match(String(await ask(developer, sql)), /^(table_not_found|sql_not_allowed|sql_syntax_error)$/, sql)
    }
  })
})
