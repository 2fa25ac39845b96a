/**
 * Clients of PostgreSQL at a real runtime: they read what the same caller is answered by POST /api/v1/query, cell by cell, and
 * nothing else; psql's own commands work; who may read no more reads no more.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { type Client, type Json, manifests } from '../../acceptance/client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from '../../acceptance/world.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'

const run = promisify(execFile)
const HIDDEN = 'hidden-part'
const ROWS = 3_000

const COLUMNS = [
  ['id', 'integer', 'integer'],
  ['email', 'string', 'text'],
  ['city', 'string', 'text'],
  ['big', 'long', 'bigint'],
  ['amount', '"decimal(12,3)"', 'numeric(12,3)'],
  ['ok', 'boolean', 'boolean'],
  ['ratio', 'double', 'double precision'],
  ['small', 'float', 'real'],
  ['day', 'date', 'date'],
  ['at', 'timestamp', 'timestamp without time zone'],
  ['instant', 'timestamptz', 'timestamp with time zone'],
  ['mark', 'uuid', 'uuid'],
  ['doc', 'json', 'json'],
  ['bytes', 'binary', 'bytea'],
] as const

let world: World
let folder: string
let port: number
let tenant: string
let other: string
let owner: Client
let viewerToken: string
const clients: pg.Client[] = []

async function tokenOf(slug: string, group: string, user: string, ...flags: readonly string[]): Promise<string> {
  return world.deployment.token(['--tenant', slug, '--group', group, '--user', user, ...flags])
}

/** Every type as the text that came. */
const asText = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig

async function wireAs(password: string, database = tenant, change: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'anybody', database, password, ...change })
  client.on('error', () => undefined)
  await client.connect()
  clients.push(client)
  return client
}

const codeOf = (done: Promise<unknown>): Promise<string | undefined> =>
  done.then(
    () => 'done',
    (error: pg.DatabaseError) => error.code,
  )

/** What libpq, and all that is like it, looks for. */
const libpqOf = (token: string): NodeJS.ProcessEnv => ({
  ...process.env,
  ...{ PGHOST: '127.0.0.1', PGPORT: String(port), PGDATABASE: tenant, PGUSER: 'anybody', PGPASSWORD: token },
})

async function psql(
  token: string,
  ...args: readonly string[]
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  return run('psql', ['-X', ...args], { env: libpqOf(token) }).catch(
    (error: { stdout: string; stderr: string }) => error,
  )
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-wire-'))
  port = await freePort()
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const fresh = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  await run('openssl', [...fresh, '-subj', '/CN=localhost', '-keyout', key, '-out', cert])
  Object.assign(process.env, {
    SLUICE_WIRE__PORT: String(port),
    // However slow the machine is: nothing here is to meet it.
    SLUICE_LIMITS__QUERY_TIMEOUT_MS: '600000',
    SLUICE_WIRE__CERT_FILE: cert,
    SLUICE_WIRE__KEY_FILE: key,
  })
  world = await openWorld()
  ;[tenant, other] = world.tenants
  const values = COLUMNS.map(([name, , type]) => `${name} ${type === 'json' ? 'jsonb' : type}`).join(', ')
  await world.source.query(
    `CREATE TABLE wired (${values}, PRIMARY KEY (id));
     INSERT INTO wired SELECT i, '${HIDDEN}-' || i, 'it''s, "' || i || E'"\\n\\\\.', 9007199254740993 + i, i * -1.5, i % 2 = 0, i / 7.0, i / 7.0,
       date '2024-02-28' + i, timestamp '2024-02-29 10:00:00.5' + i * interval '1 hour', timestamptz '0999-02-28 10:00:00+02' + i * interval '1 year',
       md5(i::text)::uuid, jsonb_build_object('a', i, 'b', array['x', 'é']), decode(md5(i::text), 'hex') FROM generate_series(1, ${ROWS}) i;
     INSERT INTO wired (id) VALUES (0);
     INSERT INTO wired (id, city, bytes, ratio, small, big) VALUES (-1, '', '', 'NaN', '-Infinity', -9223372036854775808)`,
  )
  for (const slug of [tenant, other]) await world.createTenant(slug)
  owner = await world.as(tenant, 'svc-developers', 'dora')
  viewerToken = await tokenOf(tenant, 'svc-viewers', 'vera')
  const columns = COLUMNS.map(([name, type]) => {
    const classed = name === 'email' ? ', classification: pii.identifier' : ''
    return `  - { name: ${name}, type: ${type}${name === 'id' ? ', role: identity, nullable: false' : ''}${classed} }\n`
  }).join('')
  const files = manifests('public.wired', { columns, endpoints: '  - type: analytics\n' })
  await onboardPeople(world, owner, files)
  const wanted = { name: 'vault', namespace: 'secretly', archetype: 'source_aligned', description: '' }
  assert.equal((await owner.post('/api/v1/products', wanted)).status, 201)
  const product = `${files.product.replace('name: people', 'name: vault').replace('namespace: crm', 'namespace: secretly')}classification: confidential\n`
  await deployVersion(owner, 'vault', '1.0.0', { ...files, product })
  await syncNow(owner)
  const unmask = { subject: { user: 'clara' }, may: 'unmask', classes: ['*'] }
  const given = await world.admin.post('/api/v1/products/people/grants', unmask, { 'x-tenant-id': tenant })
  assert.equal(given.status, 201, JSON.stringify(given.body))
})

after(async () => {
  for (const client of clients) await client.end().catch(() => undefined)
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

/** A cell of JSON, as PostgreSQL writes the same value; documents and floats as what they say. */
function told(value: Json, type: string): unknown {
  if (value === null) return null
  if (type === 'boolean') return value ? 't' : 'f'
  if (type === 'binary') return `\\x${Buffer.from(value, 'base64').toString('hex')}`
  if (type === 'json') return value
  if (type === 'double' || type === 'float') return Number(value)
  if (type.startsWith('timestamp'))
    return String(value)
      .replace('T', ' ')
      .replace(/\.?0+(Z?)$/, '$1')
      .replace('Z', '+00')
  return String(value)
}

function read(text: string | null, type: string): unknown {
  if (text === null) return null
  if (type === 'json') return JSON.parse(text)
  return type === 'double' || type === 'float' ? Number(text) : text
}

describe('rows', () => {
  const sql = 'SELECT * FROM crm.people ORDER BY id'
  const typeOf = (at: number) => COLUMNS[at]?.[1].replaceAll('"', '') ?? ''

  for (const user of ['vera', 'clara']) {
    it(`are those that ${user} is answered over HTTP, cell by cell`, async () => {
      const asked = await (await world.as(tenant, 'svc-viewers', user)).post('/api/v1/query', { sql })
      assert.equal(asked.status, 200, JSON.stringify(asked.body))
      const wire = await wireAs(await tokenOf(tenant, 'svc-viewers', user))
      const simple = await wire.query({ text: sql, rowMode: 'array', types: asText })
      const prepared = await wire.query({ text: sql, rowMode: 'array', types: asText, name: 'all', values: [] })
      const expected = asked.body.rows.map((row: Json[]) => row.map((cell, at) => told(cell, typeOf(at))))
      for (const { rows } of [simple, prepared]) {
        assert.deepEqual(
          rows.map((row: (string | null)[]) => row.map((cell, at) => read(cell, typeOf(at)))),
          expected,
        )
      }
      assert.equal(simple.rows.length, ROWS + 2)
      assert.equal(JSON.stringify(simple.rows).includes(HIDDEN), user === 'clara')
      assert.deepEqual(
        simple.fields.map(({ dataTypeID }) => dataTypeID),
        [23, 25, 25, 20, 1700, 16, 701, 700, 1082, 1114, 1184, 2950, 114, 17],
      )
      const binary = await wire.query({
        text: `${sql} LIMIT 10`,
        rowMode: 'array',
        binary: true,
      } as pg.QueryArrayConfig)
      const plain = await wire.query({ text: `${sql} LIMIT 10`, rowMode: 'array' })
      assert.deepEqual(
        binary.rows.map((row) => row.slice(0, 4).map(String)),
        plain.rows.map((row) => row.slice(0, 4).map(String)),
      )
    })
  }

  it('are found by parameters, in parts of a portal, and by a cursor', async () => {
    const wire = await wireAs(viewerToken)
    const found = await wire.query('SELECT id, city FROM crm.people WHERE id = $1 AND city = $2', [
      7,
      'it\'s, "7"\n\\.',
    ])
    assert.equal(found.rows.length, 1)
    // In the dialect of PostgreSQL, a relation or not.
    assert.equal((await wire.query('SELECT 7/2 AS half, $1::bigint + 1 AS more', ['41'])).rows[0].half, 3)
    // A word that the dialect keeps for itself.
    const named =
      "SELECT at, at AT TIME ZONE 'UTC' AS zoned FROM crm.people WHERE at IS NOT NULL AND id = $1 ORDER BY at"
    assert.equal((await wire.query(named, [7])).fields[0]?.name, 'at')
    const parts = await wire.query({
      text: 'SELECT id FROM crm.people ORDER BY id',
      values: [],
      rows: 100,
    } as pg.QueryConfig)
    assert.deepEqual(
      parts.rows.map(({ id }) => id),
      Array.from({ length: ROWS + 2 }, (_, at) => at - 1),
    )
    await wire.query('BEGIN')
    await wire.query('DECLARE c CURSOR FOR SELECT id FROM crm.people ORDER BY id')
    const fetched = [await wire.query('FETCH 2 FROM c'), await wire.query('FETCH NEXT FROM c')].flatMap(
      ({ rows }) => rows,
    )
    assert.deepEqual(
      fetched.map(({ id }) => id),
      [-1, 0, 1],
    )
    const seen = 'SELECT name, statement, creation_time IS NULL AS other FROM pg_catalog.pg_cursors'
    const declared = 'DECLARE c CURSOR FOR SELECT id FROM crm.people ORDER BY id'
    assert.deepEqual((await wire.query(seen)).rows, [{ name: 'c', statement: declared, other: false }])
    await wire.query('COMMIT')
    assert.deepEqual((await wire.query({ text: seen, name: 'seen' })).rows, [])
    assert.equal(await codeOf(wire.query('FETCH 1 FROM c')), '34000')
  })

  it('of a statement that its client cancels come no more, and the session goes on', async () => {
    const wire = await wireAs(viewerToken)
    const endless = wire.query('SELECT count(*) FROM range(1000000000000) r(a), crm.people p WHERE r.a * p.id = 3')
    const { processID, secretKey } = wire as unknown as { processID: number; secretKey: number }
    const cancel = async () => {
      const bytes = Buffer.alloc(16)
      for (const [at, value] of [16, 80_877_102, processID, secretKey].entries()) bytes.writeInt32BE(value, at * 4)
      const { connect } = await import('node:net')
      connect({ host: '127.0.0.1', port })
        .on('error', () => undefined)
        .end(bytes)
    }
    const timer = setInterval(() => void cancel(), 500)
    assert.equal(await codeOf(endless), '57014')
    clearInterval(timer)
    assert.equal((await wire.query('SELECT id FROM crm.people WHERE id = 1')).rows.length, 1)
  })

  it('that nobody takes are not kept in memory: the engine waits for its reader', async () => {
    const slow = await wireAs(viewerToken)
    const stream = (slow as unknown as { connection: { stream: { pause(): void; resume(): void } } }).connection.stream
    const asked = slow.query({
      text: 'SELECT p.*, r.a FROM crm.people p, range(20) r(a)',
      rowMode: 'array',
      types: asText,
    })
    stream.pause()
    const beside = await wireAs(viewerToken)
    for (let times = 0; times < 5; times += 1) {
      assert.equal((await beside.query('SELECT id FROM crm.people WHERE id = 1')).rows.length, 1)
    }
    stream.resume()
    assert.equal((await asked).rows.length, (ROWS + 2) * 20)
  })
})

describe('who may read', () => {
  it('is who has a token of the tenant, under TLS too', async () => {
    assert.equal(await codeOf(wireAs(viewerToken, other)), '28P01')
    assert.equal(await codeOf(wireAs('nothing')), '28P01')
    assert.equal(await codeOf(wireAs(await world.deployment.token(['--role', 'admin']))), '28P01')
    const secure = await wireAs(viewerToken, tenant, { ssl: { rejectUnauthorized: false } })
    assert.equal((await secure.query('SELECT id FROM crm.people WHERE id = 1')).rows.length, 1)
  })

  it('sees of the catalogue what he may read, and nothing of others', async () => {
    const wire = await wireAs(viewerToken)
    const names = async (client: pg.Client) =>
      (
        await client.query(
          "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')",
        )
      ).rows.map(({ name }) => name)
    assert.deepEqual(await names(wire), ['crm.people'])
    const stranger = await wireAs(await tokenOf(other, 'svc-viewers', 'otto'), other)
    assert.deepEqual(await names(stranger), [])
    assert.equal(await codeOf(stranger.query('SELECT * FROM crm.people')), '42P01')
    const everything = await stranger.query(
      'SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace',
    )
    assert.doesNotMatch(JSON.stringify(everything.rows), /people|crm|vault/)
    assert.equal((await stranger.query('SELECT current_database()')).rows[0].current_database, other)
    const databases = await stranger.query(
      'SELECT d.datname FROM pg_catalog.pg_database d, pg_database WHERE d.oid = pg_database.oid',
    )
    assert.deepEqual(databases.rows, [{ datname: other }])
    for (const sql of [
      'SELECT * FROM pg_shadow',
      'SELECT pg_stat_get_activity(null)',
      "SELECT pg_read_file('/etc/passwd')",
    ])
      assert.notEqual(await codeOf(stranger.query(sql)), 'done', sql)
    assert.deepEqual((await stranger.query('SELECT * FROM pg_stat_activity')).rows, [])
    const types = await wire.query(
      "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'people' ORDER BY ordinal_position",
    )
    assert.deepEqual(
      types.rows.map(({ column_name, data_type }) => [column_name, data_type]),
      COLUMNS.map(([name, , type]) => [name, type.replace(/\(.*/, '')]),
    )
  })

  it('waits for his turn where many ask for the catalogue', async () => {
    const many = await Promise.all(Array.from({ length: 8 }, () => wireAs(viewerToken)))
    const seen = await Promise.all(
      many.map((wire) => wire.query("SELECT relname FROM pg_class WHERE relname = 'people'")),
    )
    assert.deepEqual(
      seen.map(({ rows }) => rows.length),
      many.map(() => 1),
    )
    await Promise.all(many.map((wire) => wire.end()))
  })

  it('is never told of no rows where he asked for both at once', async () => {
    const wire = await wireAs(viewerToken)
    assert.equal(await codeOf(wire.query('SELECT * FROM crm.people, pg_catalog.pg_class')), '0A000')
  })

  it('reads until his grant is taken away, in the session that he has', async () => {
    const wire = await wireAs(viewerToken)
    assert.equal(await codeOf(wire.query('SELECT id FROM secretly.vault')), '42P01')
    const read = { subject: { user: 'vera' }, may: 'read' }
    const grant = await owner.post('/api/v1/products/vault/grants', read)
    assert.equal(grant.status, 201, JSON.stringify(grant.body))
    assert.equal(await codeOf(wire.query('SELECT id FROM secretly.vault')), 'done')
    const seen = "SELECT relname FROM pg_class WHERE relname = 'vault'"
    assert.equal((await wire.query(seen)).rows.length, 1)
    const removed = await owner.send(`/api/v1/products/vault/grants/${grant.body.id}`, { method: 'DELETE' })
    assert.ok(removed.status < 300, JSON.stringify(removed.body))
    assert.equal(await codeOf(wire.query('SELECT id FROM secretly.vault')), '42P01')
    assert.equal((await wire.query(seen)).rows.length, 0)
  })

  it('is at the end when his token is', async () => {
    const wire = await wireAs(await tokenOf(tenant, 'svc-viewers', 'kurt', '--ttl', '20s'))
    const ended = new Promise<pg.DatabaseError>((resolve) => wire.once('error', resolve))
    assert.equal((await wire.query('SELECT id FROM crm.people WHERE id = 1')).rows.length, 1)
    assert.equal(((await ended) as pg.DatabaseError).code, '28000')
    assert.notEqual(await codeOf(wire.query('SELECT 1')), 'done')
  })
})

const hasPsql = (await run('psql', ['--version']).catch(() => null)) !== null

describe('psql', { skip: hasPsql ? false : 'there is no psql on this machine' }, () => {
  it('lists and describes what there is', async () => {
    assert.match((await psql(viewerToken, '-c', '\\dt')).stdout, /crm\s+\| people\s+\| table/)
    assert.match((await psql(viewerToken, '-c', '\\dn')).stdout, /crm/)
    const { stdout, stderr } = await psql(viewerToken, '-c', '\\d+ crm.people')
    assert.match(stdout, /email\s+\| text.*masked for you/, stderr)
    assert.match(stdout, /amount\s+\| numeric\(12,3\)/)
  })

  it('copies out what it selects', async () => {
    const { stdout } = await psql(
      viewerToken,
      '-c',
      'COPY (SELECT id, city, big FROM crm.people WHERE id < 2 ORDER BY id) TO STDOUT (FORMAT csv, HEADER)',
    )
    assert.equal(stdout, 'id,city,big\n-1,"",-9223372036854775808\n0,,\n1,"it\'s, ""1""\n\\.",9007199254740994\n')
    const text = await psql(
      viewerToken,
      '-c',
      'COPY (SELECT id, city FROM crm.people WHERE id BETWEEN 0 AND 1 ORDER BY id) TO STDOUT',
    )
    assert.equal(text.stdout, '0\t\\N\n1\tit\'s, "1"\\n\\\\.\n')
  })

  it('is told why, what and what to do', async () => {
    const { stderr } = await psql(viewerToken, '-c', 'SELECT * FROM crm.nothing')
    assert.match(stderr, /there is no table crm.nothing[^]*code: table_not_found[^]*HINT/)
    assert.match((await psql(viewerToken, '-c', 'DELETE FROM crm.people')).stderr, /products are read only/)
  })
})

const PYTHON = process.env['SLUICE_TEST_POSTGRESQL_CLIENTS_PYTHON']

describe('clients in Python', {
  skip: PYTHON === undefined && 'there are no clients: npm run test:stack -- wire',
}, () => {
  for (const user of ['vera', 'clara']) {
    it(`read what ${user} is answered over HTTP, as values of their own, and find tables and columns`, async () => {
      const sql = 'SELECT email, big, amount, day, instant, mark, doc, bytes FROM crm.people WHERE id = 7'
      const { body } = await (await world.as(tenant, 'svc-viewers', user)).post('/api/v1/query', { sql })
      const [email, big, amount, day, instant, mark, doc, bytes] = body.rows[0]
      const token = await tokenOf(tenant, 'svc-viewers', user)
      const script = join(import.meta.dirname, 'clients.py')
      const { stdout } = await run(PYTHON as string, [script], { env: libpqOf(token) })
      const told = JSON.parse(stdout)
      const at = instant.replace('T', ' ').replace(/\.0+Z$/, '+00:00')
      const hex = Buffer.from(bytes, 'base64').toString('hex')
      const row = [7, email, Number(big), amount, false, day, at, mark]
      const { text, binary, parts, copied } = told.psycopg
      for (const one of [text, binary, told.psycopg2]) assert.deepEqual(one, [...row, doc, hex])
      const { row: other, count } = told.asyncpg
      assert.deepEqual([...other.slice(0, 8), JSON.parse(other[8]), other[9]], [...row, doc, hex])
      assert.equal(count, ROWS + 2)
      assert.deepEqual(parts, [
        [6, 7, 8],
        [9, 10],
      ])
      assert.equal(copied, '1\n2\n')
      for (const { schemas, tables, columns, email: reflected } of told.sqlalchemy) {
        assert.ok(schemas.includes('crm') && !schemas.includes('secretly'), JSON.stringify(schemas))
        assert.deepEqual([tables, reflected], [['people'], email])
        assert.deepEqual(columns['amount'], ['NUMERIC(12, 3)', null])
        assert.deepEqual(columns['email'], ['TEXT', user === 'vera' ? 'masked for you' : null])
      }
    })
  }
})
