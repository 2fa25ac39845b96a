/**
 * COPY … TO STDOUT in binary, and the clients that read by it: they get from a real runtime what they get from a PostgreSQL that
 * has the same rows, byte by byte and value by value.
 */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { manifests } from '../../acceptance/client.ts'
import { onboardPeople, openWorld, type World } from '../../acceptance/world.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { FAR_VALUES } from './far-values.ts'

const run = promisify(execFile)
const HIDDEN = 'hidden-part'
const ROWS = 3_000
const MOST_ROWS = 40_000

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
  ['moment', 'timestamp', 'timestamp without time zone'],
  ['instant', 'timestamptz', 'timestamp with time zone'],
  ['mark', 'uuid', 'uuid'],
  ['doc', 'json', 'json'],
  ['bytes', 'binary', 'bytea'],
] as const

/** In both dialects. */
const VALUES = [
  "interval '1 month 3 days'",
  "interval '-1 month'",
  "interval '-14 month'",
  "interval '1 year -2 days 03:04:05.5'",
  "interval '-1 day' + interval '1 hour'",
  "-interval '1 hour 2 seconds'",
  "interval '0 days'",
  "interval '1000000 hours'",
  "time '24:00:00'",
  "time '00:00:00.000001'",
  "'12:00:00.5+05:30'::timetz",
  "'12:00:00-05:30:15'::timetz",
  "'infinity'::timestamptz",
  "'-infinity'::timestamp",
  "'-infinity'::date",
  "date '5874897-12-31'",
  "date '0004-02-29'",
  "date '0001-01-01' - 1",
  "timestamp '0001-01-01 00:00:00.5' - interval '50 years'",
  "timestamp '294246-12-31 04:00:54.775806'",
  "timestamptz '1999-12-31 23:59:59.999999+00'",
  "'infinity'::float8",
  "'-infinity'::real",
  "'nan'::float8",
  "'-0'::float8",
  '1e308::float8',
  '1e-45::real',
  '99999999999999999999999999999999999999::decimal(38,0)',
  '0.00::decimal(5,2)',
  '-0.0001::decimal(5,4)',
  '10000.00::decimal(9,2)',
  '9223372036854775807::bigint',
  '(-2147483648)::integer',
  "'00000000-0000-0000-0000-000000000001'::uuid",
  "''::text",
  'NULL::text',
  'NULL::numeric(5,2)',
]

let world: World
let port: number
let tenant: string
let clara: NodeJS.ProcessEnv
let vera: NodeJS.ProcessEnv
let source: NodeJS.ProcessEnv

before(async () => {
  port = await freePort()
  Object.assign(process.env, {
    SLUICE_WIRE__PORT: String(port),
    SLUICE_LIMITS__QUERY_TIMEOUT_MS: '600000',
    SLUICE_LIMITS__EXPORT_ROWS: String(MOST_ROWS),
  })
  world = await openWorld()
  ;[tenant] = world.tenants
  const columnsOf = (json: string) => COLUMNS.map(([name, , type]) => `${name} ${type === 'json' ? json : type}`).join()
  await world.source.query(
    `CREATE TABLE wired (${columnsOf('jsonb')}, PRIMARY KEY (id));
     INSERT INTO wired SELECT i, '${HIDDEN}-' || i, 'it''s, "' || i || E'"\\n\\\\.', 9007199254740993 + i, i * -1.5, i % 2 = 0, i / 7.0, i / 7.0,
       date '2024-02-28' + i, timestamp '2024-02-29 10:00:00.5' + i * interval '1 hour', timestamptz '1999-02-28 10:00:00+02' + i * interval '1 day',
       md5(i::text)::uuid, jsonb_build_object('a', i, 'b', array['x', 'é']), decode(md5(i::text), 'hex') FROM generate_series(1, ${ROWS}) i;
     INSERT INTO wired (id) VALUES (0);
     INSERT INTO wired (id, city, bytes, ratio, small, big) VALUES (-1, '', '', 'NaN', '-Infinity', -9223372036854775808);
     CREATE SCHEMA crm; CREATE TABLE crm.people (${columnsOf('json')}); INSERT INTO crm.people SELECT * FROM wired`,
  )
  await world.createTenant(tenant)
  const owner = await world.as(tenant, 'svc-developers', 'dora')
  const columns = COLUMNS.map(([name, type]) => {
    const classed = name === 'email' ? ', classification: pii.identifier' : ''
    return `  - { name: ${name}, type: ${type}${name === 'id' ? ', role: identity, nullable: false' : ''}${classed} }\n`
  }).join('')
  await onboardPeople(world, owner, manifests('public.wired', { columns, endpoints: '  - type: analytics\n' }))
  const unmask = { subject: { user: 'clara' }, may: 'unmask', classes: ['*'] }
  const given = await world.admin.post('/api/v1/products/people/grants', unmask, { 'x-tenant-id': tenant })
  assert.equal(given.status, 201, JSON.stringify(given.body))
  clara = await wireOf('clara')
  vera = await wireOf('vera')
  const { host, port: sourcePort, user, password, database } = world.deployment.source
  source = loginOf(host, Number(sourcePort), database, String(user), String(password))
})

after(async () => {
  await world?.close()
})

async function wireOf(user: string): Promise<NodeJS.ProcessEnv> {
  const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-viewers', '--user', user])
  return loginOf('127.0.0.1', port, tenant, user, token)
}

/** What libpq, and all that is like it, looks for. */
function loginOf(host: string, port: number, database: string, user: string, password: string): NodeJS.ProcessEnv {
  const login = { PGHOST: host, PGPORT: String(port), PGDATABASE: database, PGUSER: user, PGPASSWORD: password }
  return { ...process.env, ...login }
}

interface Said {
  readonly stdout: Buffer
  readonly stderr: string
}

/** Of statements one behind the other in one session. */
async function psql(env: NodeJS.ProcessEnv, ...statements: readonly string[]): Promise<Said> {
  const args = ['-XAtq', ...statements.flatMap((sql) => ['-c', sql])]
  const options = { env, encoding: 'buffer', maxBuffer: 2 ** 30 } as const
  const { stdout, stderr } = await run('psql', args, options).catch(
    (error: { stdout: Buffer; stderr: Buffer }) => error,
  )
  return { stdout, stderr: stderr.toString() }
}

/** Of its one row, as node-postgres is given them in the extended protocol; in hexadecimal. */
async function cellsOf(env: NodeJS.ProcessEnv, sql: string): Promise<Record<'text' | 'binary', readonly string[]>> {
  const { PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD } = env
  const login = { host: PGHOST, port: Number(PGPORT), database: PGDATABASE, user: PGUSER, password: PGPASSWORD }
  const client = new pg.Client(login as pg.ClientConfig)
  await client.connect()
  try {
    const told = async (binary: boolean): Promise<readonly string[]> => {
      const types = { getTypeParser: () => (cell: Buffer | string) => Buffer.from(cell as Buffer).toString('hex') }
      const query = { text: sql, values: [], rowMode: 'array', binary, types, queryMode: 'extended' }
      const { rows } = await client.query(query as unknown as pg.QueryArrayConfig)
      return (rows[0] as readonly (string | null)[]).map(String)
    }
    return { text: await told(false), binary: await told(true) }
  } finally {
    await client.end()
  }
}

const LIST = COLUMNS.map(([name]) => name).join(', ')
const ALL = `SELECT ${LIST} FROM crm.people ORDER BY id`
const END = Buffer.from([0xff, 0xff])

const hasPsql = (await run('psql', ['--version']).catch(() => null)) !== null

describe('rows in binary', { skip: hasPsql ? false : 'there is no psql on this machine' }, () => {
  const same = async (...statements: readonly string[]) => {
    const theirs = await psql(source, ...statements)
    const ours = await psql(clara, ...statements)
    assert.deepEqual([ours.stderr, theirs.stderr], ['', ''], statements.join(';'))
    assert.ok(ours.stdout.equals(theirs.stdout), statements.join(';'))
    return ours.stdout
  }

  it('are byte by byte those of a PostgreSQL, in either spelling, of a statement, a table, the catalogue and nothing', async () => {
    assert.ok((await same(`COPY (${ALL}) TO STDOUT (FORMAT binary)`)).length > ROWS * 100)
    await same(`COPY (${ALL}) TO STDOUT WITH BINARY`)
    await same("COPY (SELECT id FROM crm.people WHERE id < -5) TO STDOUT (FORMAT 'binary')")
    await same(`BEGIN; COPY (SELECT 1) TO STDOUT BINARY; COMMIT`)
    await same("COPY (SELECT relname, relkind FROM pg_class WHERE relname = 'pg_class') TO STDOUT (FORMAT binary)")
    const one = '(SELECT min(id) FROM crm.people)'
    await same(`COPY (SELECT id, email FROM crm.people WHERE id = ${one}) TO STDOUT (FORMAT binary)`)
    const sizes = await Promise.all(
      [source, clara].map(
        async (env) => (await psql(env, 'COPY crm.people (id, "email") TO STDOUT BINARY')).stdout.length,
      ),
    )
    assert.equal(sizes[0], sizes[1])
  })

  it('and in text have of each type the values that a PostgreSQL has, the farthest ones, too', async () => {
    const list = VALUES.map((value, at) => `${value} AS v${at}`).join(', ')
    for (const format of ['binary', 'text']) {
      await same(`COPY (SELECT ${list} FROM crm.people WHERE id < 3 ORDER BY id) TO STDOUT (FORMAT ${format})`)
    }
    const bits = "COPY (SELECT '1011000111'::X) TO STDOUT BINARY"
    const [ours, theirs] = [
      await psql(clara, bits.replace('X', 'bit')),
      await psql(source, bits.replace('X', 'varbit')),
    ]
    assert.ok(ours.stdout.equals(theirs.stdout), ours.stderr)
  })

  // One a statement says which it is; all of them together would say only that there is one.
  it('have the farthest values of each type, and those around which they are written otherwise, in each format', async () => {
    const different: string[] = []
    for (let at = 0; at < FAR_VALUES.length; at += 100) {
      const some = FAR_VALUES.slice(at, at + 100)
      const list = some.map((value, place) => `${value} AS v${place}`).join(', ')
      const sql = `SELECT ${list} FROM crm.people WHERE id = 1`
      for (const format of ['binary', 'text', 'csv']) {
        const copy = `COPY (${sql}) TO STDOUT (FORMAT ${format})`
        const [theirs, ours] = [await psql(source, copy), await psql(clara, copy)]
        assert.deepEqual([ours.stderr, theirs.stderr], ['', ''])
        if (!ours.stdout.equals(theirs.stdout)) different.push(`${format} ${at}`)
      }
      const [theirs, ours] = await Promise.all([source, clara].map((env) => cellsOf(env, sql)))
      for (const [place, value] of some.entries()) {
        for (const way of ['text', 'binary'] as const) {
          const [cell, other] = [ours?.[way][place], theirs?.[way][place]]
          if (cell !== other)
            different.push(`${way} of ${value.slice(0, 80)}: ${cell?.slice(0, 80)}, not ${other?.slice(0, 80)}`)
        }
      }
    }
    assert.deepEqual(different, [])
  })

  it('are masked for whom they are masked elsewhere', async () => {
    const copy = `COPY (SELECT * FROM crm.people) TO STDOUT (FORMAT binary)`
    assert.ok((await psql(clara, copy)).stdout.includes(HIDDEN))
    const masked = (await psql(vera, copy)).stdout
    assert.ok(masked.length > ROWS * 100 && !masked.includes(HIDDEN))
  })

  it('are refused where a value has no binary form, and never sent as text', async () => {
    for (const value of [
      "'2024-01-01 00:00:00.123456789'::timestamp_ns",
      "'5877642-06-25 (BC)'::date",
      "'290309-12-22 (BC) 00:00:00'::timestamp",
    ]) {
      const { stdout, stderr } = await psql(
        clara,
        `COPY (SELECT ${value} FROM crm.people WHERE id = 1) TO STDOUT BINARY`,
      )
      assert.match(stderr, /ERROR/)
      assert.ok(!stdout.subarray(-2).equals(END))
    }
  })

  it('break off with an error, and their session goes on: where a value fails, where there are too many', async () => {
    const rows = 'FROM crm.people p, range(10) r(a)'
    const failing = `SELECT (CASE WHEN p.id = ${ROWS} AND r.a = 9 THEN 'x' ELSE '1' END)::integer ${rows} ORDER BY r.a, p.id`
    const many = 'SELECT p.id FROM crm.people p, range(100) r(a)'
    for (const [sql, code] of [
      [failing, 'sql_conversion_error'],
      [many, 'query_result_too_large'],
    ] as const) {
      const { stdout, stderr } = await psql(clara, `COPY (${sql}) TO STDOUT (FORMAT binary)`, 'SELECT 41 + 1')
      assert.match(stderr, new RegExp(code))
      assert.equal(stdout.subarray(-3).toString(), '42\n')
      assert.ok(!stdout.subarray(0, -3).subarray(-2).equals(END))
    }
  })

  it('wait for a slow reader, and end when it cancels', async () => {
    const endless = 'SELECT p.* FROM crm.people p, range(1000000) r(a) WHERE p.id > 0'
    const child = spawn('psql', ['-XAtq', '-c', `COPY (${endless}) TO STDOUT (FORMAT binary)`], { env: clara })
    const ended = new Promise((resolve) => child.once('close', resolve))
    let stderr = ''
    child.stderr.on('data', (some) => (stderr += some))
    await new Promise((resolve) => child.stdout.once('readable', resolve))
    // Nobody takes anything of it meanwhile.
    for (let times = 0; times < 5; times += 1) assert.equal((await psql(clara, 'SELECT 1')).stdout.toString(), '1\n')
    const again = setInterval(() => child.kill('SIGINT'), 500)
    child.stdout.resume()
    await ended
    clearInterval(again)
    assert.match(stderr, /cancelled by its client|more rows than it may/)
  })
})

const PYTHON = process.env['SLUICE_TEST_POSTGRESQL_CLIENTS_PYTHON']

describe('clients that read tables at once', {
  skip: PYTHON === undefined && 'there are no clients: npm run test:stack -- wire',
}, () => {
  it('get values and types of a PostgreSQL, with what they ask of the catalogue', async () => {
    const uriOf = (env: NodeJS.ProcessEnv) =>
      `postgresql://${env['PGUSER']}:${env['PGPASSWORD']}@${env['PGHOST']}:${env['PGPORT']}/${env['PGDATABASE']}`
    const script = join(import.meta.dirname, 'table_clients.py')
    const args = [script, uriOf(source), uriOf(clara)]
    const { stdout } = await run(PYTHON as string, args, { maxBuffer: 2 ** 26 })
    const told: Record<string, unknown> = JSON.parse(stdout)
    for (const [name, difference] of Object.entries(told)) assert.equal(difference, null, name)
    assert.ok(Object.keys(told).length > 20)
  })
})
