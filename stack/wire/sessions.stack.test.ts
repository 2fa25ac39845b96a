/**
 * What clients ask of a session besides rows, and their parameters: the same statements and the same program are given to a
 * runtime and to a PostgreSQL that has the same table, and both tell the same.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { type Client, manifests } from '../../acceptance/client.ts'
import { onboardPeople, openWorld, syncNow, type World } from '../../acceptance/world.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'

const run = promisify(execFile)

const COLUMNS = [
  ['id', 'integer', 'integer'],
  ['city', 'string', 'text'],
  ['big', 'long', 'bigint'],
  ['amount', '"decimal(12,3)"', 'numeric(12,3)'],
  ['ok', 'boolean', 'boolean'],
  ['ratio', 'double', 'double precision'],
  ['day', 'date', 'date'],
  ['moment', 'timestamp', 'timestamp'],
  ['instant', 'timestamptz', 'timestamptz'],
  ['mark', 'uuid', 'uuid'],
  ['bytes', 'binary', 'bytea'],
] as const

let world: World
let folder: string
let port: number
let tenant: string
let owner: Client
let token: string
let ours: pg.Client
let theirs: pg.Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-sessions-'))
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
  tenant = world.tenants[0]
  await world.source.query(
    `CREATE TABLE sessions (${COLUMNS.map(([name, , type]) => `${name} ${type}`).join(', ')}, PRIMARY KEY (id));
     INSERT INTO sessions SELECT i, 'city ' || i, 9007199254740993 + i, i * -1.5, i % 2 = 0, i / 7.0, date '2024-02-28' + i,
       timestamp '2024-02-29 10:00:00.5' + i * interval '1 hour', timestamptz '2024-02-29 10:00:00+00' + i * interval '1 hour',
       md5(i::text)::uuid, '\\x00'::bytea || set_byte('\\x00', 0, i % 256) || '\\xff' FROM generate_series(1, 2000) i;
     CREATE SCHEMA crm; CREATE TABLE crm.people AS SELECT * FROM sessions; SET TimeZone = 'UTC'`,
  )
  await world.createTenant(tenant)
  owner = await world.as(tenant, 'svc-developers', 'dora')
  const columns = COLUMNS.map(
    ([name, type]) =>
      `  - { name: ${name}, type: ${type}${name === 'id' ? ', role: identity, nullable: false' : ''} }\n`,
  ).join('')
  await onboardPeople(world, owner, manifests('public.sessions', { columns, endpoints: '  - type: analytics\n' }))
  token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-viewers', '--user', 'vera'])
  ours = clientOf()
  await ours.connect()
  theirs = world.source
})

after(async () => {
  await theirs?.query('ROLLBACK; DROP SCHEMA crm CASCADE; DROP TABLE sessions').catch(() => undefined)
  await ours?.end().catch(() => undefined)
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

function clientOf(): pg.Client {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'vera', database: tenant, password: token })
  client.on('error', () => undefined)
  return client
}

/** Every type as the text that came. */
const types = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig

async function told(client: pg.Client, statements: readonly string[], isExtended = false): Promise<readonly string[]> {
  const answers: string[] = []
  for (const text of statements) {
    const config = { text, rowMode: 'array', types, ...(isExtended ? { queryMode: 'extended' } : {}) } as const
    const answer = await client.query(config as pg.QueryArrayConfig).then(
      ({ command, fields, rows }) =>
        `${command} ${fields.map(({ name, dataTypeID }) => `${name} ${dataTypeID}`)} ${JSON.stringify(rows)}`,
      ({ code }: pg.DatabaseError) => `error ${code}`,
    )
    answers.push(`${text}: ${answer}`)
  }
  return answers
}

async function same(statements: readonly string[]): Promise<void> {
  for (const isExtended of [false, true]) {
    assert.deepEqual(await told(ours, statements, isExtended), await told(theirs, statements, isExtended))
  }
}

const PEOPLE = 'SELECT id, city FROM crm.people ORDER BY id'

describe('a session tells and does what that of a PostgreSQL does', () => {
  it('with statements that are prepared by SQL', () =>
    same([
      'PREPARE one (int, text) AS SELECT id, city FROM crm.people WHERE id = $1 OR city = $2 ORDER BY id',
      "EXECUTE one (7, 'city 9')",
      'EXECUTE one (null, null)',
      'EXECUTE one (7)',
      'PREPARE one AS SELECT 1 AS a',
      'PREPARE other AS SELECT count(*) FROM crm.people WHERE id < $1',
      'EXECUTE other (5)',
      "SELECT name, statement, parameter_types, from_sql FROM pg_prepared_statements WHERE name = 'one'",
      'DEALLOCATE one',
      'EXECUTE one (1, 1)',
      'DEALLOCATE ALL',
      'SELECT count(*) FROM pg_catalog.pg_prepared_statements WHERE from_sql',
    ]))

  it('with cursors, which end with the savepoint that they were declared after', () =>
    same([
      'BEGIN',
      `DECLARE a CURSOR FOR ${PEOPLE}`,
      'SAVEPOINT s',
      `DECLARE b CURSOR FOR ${PEOPLE}`,
      'MOVE 3 FROM b',
      'FETCH 2 FROM b',
      'MOVE ALL FROM b',
      'FETCH 1 FROM b',
      'FETCH 1 FROM a',
      'ROLLBACK TO s',
      'FETCH 1 FROM a',
      "SELECT name FROM pg_cursors WHERE name <> ''",
      'SAVEPOINT t',
      `DECLARE c CURSOR FOR ${PEOPLE}`,
      'RELEASE t',
      'FETCH 1 FROM c',
      'ROLLBACK TO s',
      'FETCH 1 FROM c',
      'ROLLBACK TO s',
      'CLOSE a',
      'FETCH 1 FROM a',
      'ROLLBACK',
      'MOVE 1 FROM a',
    ]))

  it('with settings, by SET, by set_config and by pg_settings', () =>
    same([
      'SET search_path TO crm, public',
      'SHOW search_path',
      'SELECT current_schema(), current_schemas(false)',
      "SELECT 'people'::regclass",
      "SELECT pg_table_is_visible('crm.people'::regclass)",
      "SELECT set_config('search_path', 'public', false)",
      "SELECT current_setting('search_path') AS path",
      "SET search_path TO crm, 'A b'",
      'SHOW search_path',
      "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new",
      'SHOW jit',
      'BEGIN',
      "SELECT set_config('application_name', 'inside', true)",
      "SELECT name, setting FROM pg_settings WHERE name IN ('application_name', 'statement_timeout', 'server_encoding', 'jit') ORDER BY name",
      'ROLLBACK',
      "SELECT current_setting('nothing.known', true)",
      "SELECT current_setting('nothing.known')",
      "SET client_min_messages TO 'warning'",
      'SHOW client_min_messages',
      'SET lock_timeout = 5000',
      'SHOW lock_timeout',
      "SELECT setting, unit FROM pg_catalog.pg_settings WHERE name = 'lock_timeout'",
      'SET extra_float_digits = 3',
      'RESET client_min_messages',
      'SHOW client_min_messages',
      'RESET search_path',
      'RESET jit',
      'RESET lock_timeout',
    ]))

  it('with levels of isolation, which are set before the first statement that reads', () =>
    same([
      'SHOW transaction_isolation',
      'BEGIN ISOLATION LEVEL REPEATABLE READ',
      'SHOW TRANSACTION ISOLATION LEVEL',
      'SELECT count(*) FROM crm.people',
      'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ',
      'SHOW transaction_isolation',
      'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      'ROLLBACK',
      'SHOW transaction_isolation',
      'START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE',
      'SAVEPOINT a',
      'SELECT count(*) FROM crm.people',
      'SELECT * FROM crm.nothing',
      'ROLLBACK TO a',
      'SELECT max(id) FROM crm.people',
      'SHOW transaction_isolation',
      'COMMIT',
      'BEGIN',
      "SET transaction_isolation TO 'repeatable read'",
      `DECLARE a CURSOR FOR ${PEOPLE}`,
      'FETCH 2 FROM a',
      'SELECT count(*) FROM crm.people',
      'FETCH 2 FROM a',
      'COMMIT',
      'BEGIN',
      'SAVEPOINT a',
      'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      'ROLLBACK',
      'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      'SHOW default_transaction_isolation',
      'SHOW transaction_isolation',
      'BEGIN',
      "SET default_transaction_isolation TO 'read committed'",
      'SHOW transaction_isolation',
      'SELECT count(*) FROM crm.people',
      'COMMIT',
      'SHOW transaction_isolation',
      "SET default_transaction_isolation = 'chaos'",
      'BEGIN ISOLATION LEVEL CHAOS',
      'BEGIN READ WRITE',
      'SELECT count(*) FROM crm.people',
      'COMMIT',
      'RESET default_transaction_isolation',
    ]))

  it('with arrays that are written in braces', () =>
    same([
      "SELECT id FROM crm.people WHERE id = ANY('{1,2,NULL}'::int4[]) ORDER BY id",
      'SELECT id FROM crm.people WHERE city = ANY (E\'{"city 3","it\'\'s, \\\\"4"}\'::text[])',
      "SELECT id FROM crm.people WHERE amount = ANY (CAST('{-1.5,-3.0004}' AS numeric[]))",
      "SELECT id FROM crm.people WHERE mark = ANY ( ' {c4ca4238-a0b9-2382-0dcc-509a6f75849b} '::uuid [] ) AND ok = ANY('{t,f}'::boolean[])",
      "SELECT id FROM crm.people WHERE day = ANY('{2024-03-01}'::date[]) AND bytes <> ALL ('{\"\\\\x00\"}'::bytea[])",
      "SELECT id FROM crm.people WHERE big <> ALL('{}'::bigint[]) ORDER BY id LIMIT 1",
      "SELECT id FROM crm.people WHERE id = ANY('{1,x}'::int[])",
      "SELECT '{1,2}'::text AS text FROM crm.people WHERE id = 1",
      ...['\\143\\x69ty\\u0020\\U00000033', '\\UFFFFFFFF', '\\ud800', '\\u12', '\\000', '\\xff'].map(
        (text) => `SELECT id FROM crm.people WHERE city = ANY(E'{${text}}'::text[])`,
      ),
    ]))

  it('with parameters beside such arrays, of the types that are asked of them', async () => {
    const text = "SELECT id FROM crm.people WHERE id = ANY('{1,2,12}'::int4[]) AND id > $1 AND day > $2 AND amount < $3"
    const [mine, other] = await Promise.all([ours, theirs].map((client) => parameterTypes(client, text)))
    assert.deepEqual(mine, [23, 1082, 1700])
    assert.deepEqual(mine, other)
    const { rows } = await ours.query(text, ['3', '2024-02-01', '0'])
    assert.deepEqual(rows, [{ id: 12 }])
  })

  it('with the time that a client may say nothing', async () => {
    for (const [statements, code] of [
      [['SET idle_session_timeout = 300'], '57P05'],
      [['SET idle_in_transaction_session_timeout = 300', 'BEGIN'], '25P03'],
      [['SET idle_in_transaction_session_timeout = 300', 'BEGIN', 'SELECT * FROM crm.nothing'], '25P03'],
    ] as const) {
      const ends = [clientOf(), new pg.Client(world.deployment.source)].map(async (client) => {
        const ended = new Promise<pg.DatabaseError>((resolve) => client.on('error', resolve as (error: Error) => void))
        await client.connect()
        for (const sql of statements) await client.query(sql).catch(() => undefined)
        return (await ended).code
      })
      assert.deepEqual(await Promise.all(ends), [code, code])
    }
  })

  it('with its own database, by each of its names', async () => {
    const { rows } = await ours.query({
      text: 'SELECT current_catalog, current_database(), (SELECT catalog_name FROM information_schema.schemata LIMIT 1)',
      rowMode: 'array',
    })
    assert.deepEqual(rows, [[tenant, tenant, tenant]])
    const found = await ours.query('SELECT count(*)::int AS count FROM pg_database WHERE datname = current_catalog')
    assert.equal(found.rows[0].count, 1)
  })

  it('but for more parameters than it takes', async () => {
    await assert.rejects(ours.query({ text: 'SELECT $40000', name: 'many' }), { code: '54000' })
    assert.equal((await ours.query('SELECT 1 AS one')).rows.length, 1)
  })
})

describe('a transaction of REPEATABLE READ', () => {
  it('reads in each statement what was there at its first, of each table, and READ COMMITTED what is there', async () => {
    const counted = async (client: pg.Client) =>
      (await client.query('SELECT count(*)::int AS count, max(city) AS most FROM crm.people')).rows[0]
    const [committed, first, late] = [clientOf(), clientOf(), clientOf()]
    try {
      for (const client of [committed, first, late]) await client.connect()
      await committed.query('BEGIN')
      for (const client of [first, late]) await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      const before = await counted(committed)
      assert.deepEqual(await counted(first), before)
      // Its first statement reads no product, and its snapshot is of then all the same.
      await late.query('SELECT x FROM crm.nothing').catch(() => undefined)
      await late.query('ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT a')
      await late.query('SELECT id FROM crm.people WHERE id = 1')
      // In both, which later tests compare.
      for (const table of ['sessions', 'crm.people'])
        await world.source.query(`INSERT INTO ${table} (id, city) VALUES (9001, 'zzz')`)
      await syncNow(owner)
      const after = { count: before.count + 1, most: 'zzz' }
      assert.deepEqual(await counted(committed), after)
      assert.deepEqual(await counted(first), before)
      await late.query('ROLLBACK TO a')
      assert.deepEqual(await counted(late), before)
      for (const client of [committed, first, late]) await client.query('COMMIT')
      for (const client of [committed, first, late]) assert.deepEqual(await counted(client), after)
    } finally {
      for (const client of [committed, first, late]) await client.end()
    }
  })
})

/** As they are told before anything is bound. */
function parameterTypes(client: pg.Client, text: string): Promise<readonly number[]> {
  return new Promise((resolve, reject) => {
    let told: readonly number[] = []
    client.query({
      submit(connection: pg.Connection) {
        connection.once('parameterDescription', ({ dataTypeIDs }: { dataTypeIDs: number[] }) => {
          told = dataTypeIDs
        })
        connection.parse({ name: '', text, types: [] }, true)
        connection.describe({ type: 'S', name: '' }, true)
        connection.sync()
      },
      handleRowDescription() {},
      handleReadyForQuery: () => resolve(told),
      handleError: reject,
    } as unknown as pg.Submittable)
  })
}

/** Two statements before one Sync, the other of which is sent when `between` is done; the first column of each row. */
function piped(client: pg.Client, sql: string, between: () => Promise<unknown>): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const rows: string[] = []
    let done = 0
    const send = (connection: pg.Connection) => {
      connection.parse({ name: '', text: sql, types: [] }, true)
      connection.bind({ portal: '', statement: '', values: [] }, true)
      connection.execute({ portal: '', rows: '' } as never, true)
    }
    let wire: pg.Connection
    client.query({
      submit(connection: pg.Connection) {
        wire = connection
        send(wire)
        wire.flush()
      },
      handleDataRow: ({ fields }: { fields: string[] }) => rows.push(String(fields[0])),
      handleCommandComplete() {
        done += 1
        if (done > 1) return
        between().then(() => {
          send(wire)
          wire.sync()
        }, reject)
      },
      handleReadyForQuery: () => resolve(rows),
      handleError: (error: Error) => {
        reject(error)
        wire.sync()
      },
      handleRowDescription() {},
      handleEmptyQuery() {},
    } as unknown as pg.Submittable)
  })
}

describe('statements before one Sync', () => {
  it('are one transaction, of the level that the session has for those to come', async () => {
    const sql = 'SELECT count(*) FROM crm.people'
    for (const [level, isOne] of [
      ['repeatable read', true],
      ['read committed', false],
    ] as const) {
      const insert = (table: string) =>
        world.source.query(`INSERT INTO ${table} (id, city) VALUES (${isOne ? 9101 : 9102}, 'piped')`)
      const pairs: [pg.Client, () => Promise<unknown>][] = [
        [clientOf(), () => insert('sessions').then(() => syncNow(owner))],
        [new pg.Client(world.deployment.source), () => insert('crm.people')],
      ]
      for (const [client, between] of pairs) {
        await client.connect()
        try {
          await client.query(`SET default_transaction_isolation = '${level}'`)
          const [first, second] = await piped(client, sql, between)
          assert.equal(Number(second) - Number(first), isOne ? 0 : 1)
          assert.equal(Number((await client.query(sql)).rows[0].count), Number(first) + 1)
        } finally {
          await client.end()
        }
      }
    }
  })
})

describe('an application key', () => {
  it('ends the session that it was the password of, when it is revoked', async () => {
    const key = await owner.post('/api/v1/application-keys', { name: 'reports', operations: ['query'] })
    assert.equal(key.status, 201, JSON.stringify(key.body))
    const idle = new pg.Client({ host: '127.0.0.1', port, user: 'app', database: tenant, password: key.body.token })
    const ended = new Promise<pg.DatabaseError>((resolve) => idle.on('error', resolve as (error: Error) => void))
    await idle.connect()
    assert.equal((await idle.query('SELECT id FROM crm.people WHERE id = 1')).rows.length, 1)
    assert.ok((await owner.send(`/api/v1/application-keys/${key.body.id}`, { method: 'DELETE' })).status < 300)
    assert.equal((await ended).code, '28000')
  })
})

const [JAVA, JAR] = [
  process.env['SLUICE_TEST_POSTGRESQL_CLIENTS_JAVA'],
  process.env['SLUICE_TEST_POSTGRESQL_CLIENTS_JDBC'],
]

describe('pgjdbc', { skip: JAR === undefined && 'there is no driver: npm run test:stack -- wire' }, () => {
  it('tells the same of both, in clear and under TLS, whatever the time zone of its machine', async () => {
    const { host, port: theirPort, database, user, password } = world.deployment.source
    const program = async (zone: string, url: string, ...login: readonly string[]) => {
      const own = [`-Duser.timezone=${zone}`, '-cp', JAR as string, join(import.meta.dirname, 'Jdbc.java')]
      const { stdout } = await run(JAVA as string, [...own, url, ...login], { timeout: 600_000 })
      return stdout.trim().split('\n')
    }
    for (const zone of ['Asia/Tokyo']) {
      const expected = await program(
        zone,
        `jdbc:postgresql://${host}:${theirPort}/${database}`,
        String(user),
        String(password),
      )
      assert.ok(expected.length > 42, expected.join('\n'))
      for (const mode of ['disable', 'require']) {
        const url = `jdbc:postgresql://127.0.0.1:${port}/${tenant}?sslmode=${mode}`
        assert.deepEqual(await program(zone, url, 'vera', token), expected, `${zone} ${mode}`)
      }
    }
  })
})
