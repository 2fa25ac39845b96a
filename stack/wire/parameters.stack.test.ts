/**
 * Parameters without types: by every operator, type of a column and form that a client may write, a runtime tells of a statement's
 * parameters and columns the types that a PostgreSQL with the same rows tells, takes the same values, in text and in binary, and gives
 * the same rows.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { type Client, manifests } from '../../acceptance/client.ts'
import { onboardPeople, openWorld, type World } from '../../acceptance/world.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'

interface Typed {
  readonly name: string
  readonly type: string
  /** In a manifest. */
  readonly declared: string
  /** Of a row, by its number `i`. */
  readonly value: string
  /** As they are sent, the least first. */
  readonly sent: readonly [string, string]
  readonly operators?: readonly string[]
  readonly operand?: string
}

const COMPARED = ['=', '<>', '<', '>=', 'IS DISTINCT FROM']
const COUNTED = ['+', '-', '*']

const TYPES: readonly Typed[] = [
  {
    name: 'id',
    type: 'integer',
    declared: 'integer',
    value: 'i',
    sent: ['3', '5'],
    operators: [...COUNTED, '%'],
    operand: '2',
  },
  {
    name: 'big',
    type: 'bigint',
    declared: 'long',
    value: '9007199254740993 + i',
    sent: ['9007199254740996', '9007199254740999'],
    operators: [...COUNTED, '%'],
    operand: '3',
  },
  {
    name: 'amount',
    type: 'numeric(12,3)',
    declared: '"decimal(12,3)"',
    value: 'i * -1.5',
    sent: ['-4.5', '0.0004'],
    operators: COUNTED,
    operand: '0.25',
  },
  {
    name: 'ratio',
    type: 'double precision',
    declared: 'double',
    value: 'i / 8.0',
    sent: ['0.25', '0.5'],
    operators: [...COUNTED, '/'],
    operand: '0.5',
  },
  {
    name: 'small',
    type: 'real',
    declared: 'float',
    value: 'i / 8.0',
    sent: ['0.25', '0.5'],
    operators: COUNTED,
    operand: '0.5',
  },
  {
    name: 'city',
    type: 'text',
    declared: 'string',
    value: `'c,"\\' || i`,
    sent: ['c,"\\2', 'c,"\\4'],
    operators: ['||', 'LIKE', 'ILIKE'],
    operand: 'C%',
  },
  {
    name: 'ok',
    type: 'boolean',
    declared: 'boolean',
    value: 'i % 2 = 0',
    sent: ['false', 'true'],
    operators: ['AND', 'OR'],
    operand: 'true',
  },
  { name: 'day', type: 'date', declared: 'date', value: "date '2024-02-27' + i", sent: ['2024-02-29', '2024-03-02'] },
  {
    name: 'moment',
    type: 'timestamp',
    declared: 'timestamp',
    value: "timestamp '2024-02-29 10:00:00.5' + i * interval '1 hour'",
    sent: ['2024-02-29 12:00:00.5', '2024-02-29 15:00:00.5'],
  },
  {
    name: 'instant',
    type: 'timestamptz',
    declared: 'timestamptz',
    value: "timestamptz '2024-02-29 10:00:00+00' + i * interval '1 hour'",
    sent: ['2024-02-29 13:00:00+01', '2024-02-29 15:00:00+00'],
  },
  {
    name: 'mark',
    type: 'uuid',
    declared: 'uuid',
    value: 'lpad(i::text, 32, i::text)::uuid',
    sent: ['22222222-2222-2222-2222-222222222222', '44444444-4444-4444-4444-444444444444'],
  },
  {
    name: 'bytes',
    type: 'bytea',
    declared: 'binary',
    value: "'\\x00'::bytea || decode(md5(i::text), 'hex')",
    sent: ['\\x00ff', '\\x01'],
  },
]

type Case = readonly [sql: string, values: readonly (string | null)[]]

const FROM = 'FROM crm.people'
const list = (...values: readonly (string | null)[]): string =>
  `{${values.map((one) => (one === null ? 'NULL' : `"${one.replace(/["\\]/g, '\\$&')}"`)).join(',')}}`

function casesOf({ name, type, sent, operators = [], operand = '' }: Typed): readonly Case[] {
  const [low, high] = sent
  const base = type.replace(/\(.*/, '')
  const ids = (condition: string): string => `SELECT id ${FROM} WHERE ${condition} ORDER BY id`
  const column = (expression: string): string => `SELECT ${expression} AS told ${FROM} ORDER BY id`
  return [
    ...COMPARED.flatMap((operator): readonly Case[] => [
      [ids(`${name} ${operator} $1`), [low]],
      [ids(`$1 ${operator} ${name}`), [high]],
    ]),
    ...operators.flatMap((operator): readonly Case[] => [
      [column(`${name} ${operator} $1`), [operand]],
      [column(`$1 ${operator} ${name}`), [operand]],
    ]),
    [ids(`${name} = $1`), [null]],
    [ids(`${name} IN ($1, $2)`), [low, high]],
    [ids(`${name} NOT IN ($1, $2)`), [low, high]],
    [ids(`${name} BETWEEN $1 AND $2`), [low, high]],
    [ids(`${name} = ANY($1)`), [list(low, null, high)]],
    [ids(`${name} = ANY ($1)`), ['{}']],
    [ids(`${name} <> ALL($1)`), [list(low, high)]],
    [ids(`${name} = ANY($1::${base}[])`), [list(high)]],
    [ids(`${name} = ANY(CAST($1 AS ${base}[]))`), [null]],
    [`SELECT unnest($1::${base}[]) AS told`, [list(low, null, high)]],
    [ids(`${name} = $1::${base}`), [low]],
    [ids(`${name} = CAST($1 AS ${base})`), [high]],
    [column(`coalesce(${name}, $1)`), [low]],
    [column(`nullif(${name}, $1)`), [low]],
    [column(`CASE WHEN id > 3 THEN ${name} ELSE $1 END`), [high]],
    [column(`CASE $1 WHEN ${name} THEN 1 ELSE 0 END`), [high]],
    ...(name === 'ok' || name === 'mark' || name === 'bytes'
      ? []
      : ([[`SELECT max(${name}) AS told ${FROM} HAVING max(${name}) > $1`, [low]]] as const)),
    [
      `SELECT p.id ${FROM} p JOIN (SELECT id, ${name} AS own ${FROM}) q ON p.${name} = q.own AND q.own >= $1 ORDER BY p.id`,
      [low],
    ],
    [
      `WITH some AS (SELECT id, ${name} ${FROM} WHERE ${name} <= $1) SELECT id FROM some WHERE id <> $2 ORDER BY id`,
      [high, '3'],
    ],
    [ids(`(${name}, id) = ($1, $2)`), [low, '2']],
    [ids(`id IN (SELECT id ${FROM} WHERE ${name} > $1) OR ${name} = $1`), [low]],
  ]
}

const OTHERS: readonly Case[] = [
  [`SELECT id ${FROM} ORDER BY id LIMIT $1 OFFSET $2`, ['2', '1']],
  [`SELECT id ${FROM} ORDER BY id LIMIT $1`, [null]],
  [`SELECT count(*) AS count ${FROM} WHERE id > $1 AND city <> $2 AND day >= $3`, ['1', 'x', '2024-01-01']],
  [`SELECT city ${FROM} GROUP BY city HAVING count(*) >= $1 ORDER BY city`, ['1']],
  [`SELECT id, $1 AS own ${FROM} ORDER BY id`, ['a']],
  [`SELECT city || $1 AS told, amount + $2 AS other ${FROM} ORDER BY id`, [null, null]],
  [`SELECT id ${FROM} WHERE amount < $1::numeric OR amount > CAST($2 AS numeric) ORDER BY id`, ['-8.9996', '-1.5004']],
  [`SELECT upper($1) || city AS told ${FROM} ORDER BY 1`, ['four']],
  [`SELECT id ${FROM} WHERE $1 ORDER BY id`, ['t']],
  [`SELECT id ${FROM} WHERE ok = $1 OR NOT $2 ORDER BY id`, ['t', 'f']],
  [`SELECT id ${FROM} WHERE $1::int > id ORDER BY id`, ['3']],
  [`SELECT id ${FROM} WHERE id = $1 OR big = $2 ORDER BY id`, ['3', '9007199254740999']],
]

const PYTHON = process.env['SLUICE_TEST_POSTGRESQL_CLIENTS_PYTHON']
const isSkipped = PYTHON === undefined && 'there are no clients: npm run test:stack -- wire'

let world: World
let port: number
let tenant: string
let owner: Client
let token: string

before(async () => {
  if (PYTHON === undefined) return
  port = await freePort()
  Object.assign(process.env, { SLUICE_WIRE__PORT: String(port), SLUICE_LIMITS__QUERY_TIMEOUT_MS: '600000' })
  world = await openWorld()
  tenant = world.tenants[0]
  await world.source.query(
    `CREATE TABLE asked (${TYPES.map(({ name, type }) => `${name} ${type}`).join(', ')}, PRIMARY KEY (id));
     INSERT INTO asked SELECT ${TYPES.map(({ value }) => value).join(', ')} FROM generate_series(1, 6) i;
     INSERT INTO asked (id) VALUES (7);
     CREATE SCHEMA crm; CREATE TABLE crm.people AS SELECT * FROM asked`,
  )
  await world.createTenant(tenant)
  owner = await world.as(tenant, 'svc-developers', 'dora')
  const columns = TYPES.map(
    ({ name, declared }) =>
      `  - { name: ${name}, type: ${declared}${name === 'id' ? ', role: identity, nullable: false' : ''} }\n`,
  ).join('')
  await onboardPeople(world, owner, manifests('public.asked', { columns, endpoints: '  - type: analytics\n' }))
  token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-viewers', '--user', 'vera'])
})

after(async () => {
  await world?.source.query('DROP SCHEMA crm CASCADE; DROP TABLE asked').catch(() => undefined)
  await world?.close()
})

interface Told {
  readonly error?: string
  readonly parameters: readonly number[]
  readonly columns: readonly number[]
  readonly text: readonly (readonly (string | null)[])[]
  readonly binary: readonly (readonly (string | null)[])[]
}

async function told(cases: readonly Case[]): Promise<readonly (readonly [Told, Told])[]> {
  const { host, port: theirPort, database, user, password } = world.deployment.source
  const child = spawn(PYTHON as string, [join(import.meta.dirname, 'parameters.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(
    JSON.stringify({
      ours: `host=127.0.0.1 port=${port} dbname=${tenant} user=vera password=${token}`,
      theirs: `host=${host} port=${theirPort} dbname=${database} user=${user} password=${password} options='-c TimeZone=UTC'`,
      cases,
    }),
  )
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (some: string) => {
    out += some
  })
  await new Promise((resolve) => child.once('close', resolve))
  return out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

const NUMERIC = 1700

/** A number without a column's places has those that it came with, or those of the column: it is the same number. */
function comparable({ error, parameters, columns, text, binary }: Told): unknown {
  if (error !== undefined) return 'refused'
  const rows = (all: Told['text'], told: (cell: string) => string): unknown =>
    // In place of rows there may be an error.
    'error' in all
      ? 'refused'
      : all.map((row) => row.map((cell, at) => (cell === null || columns[at] !== NUMERIC ? cell : told(cell))))
  const plain = (cell: string): string => cell.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '')
  const withoutPlaces = (cell: string): string => cell.slice(0, 12) + cell.slice(16)
  return { parameters, columns, text: rows(text, plain), binary: rows(binary, withoutPlaces) }
}

describe('parameters without types', { skip: isSkipped }, () => {
  it('are of the types that a PostgreSQL finds, and give its rows', async () => {
    const cases = [...TYPES.flatMap(casesOf), ...OTHERS]
    const answers = await told(cases)
    assert.equal(answers.length, cases.length)
    const differing = answers.flatMap(([ours, theirs], at) => {
      // What a PostgreSQL refuses may be understood here.
      if (theirs.error !== undefined || !Array.isArray(theirs.text)) return []
      const [own, other] = [comparable(ours), comparable(theirs)].map((one) => JSON.stringify(one))
      return own === other
        ? []
        : [
            `${cases[at]?.[0]} ${JSON.stringify(cases[at]?.[1])}\n  ${JSON.stringify(ours)}\n  ${JSON.stringify(theirs)}`,
          ]
    })
    const understood = answers.filter(([, theirs]) => theirs.error === undefined && Array.isArray(theirs.text)).length
    assert.ok(understood > 0.9 * cases.length, `${understood} of ${cases.length}`)
    assert.deepEqual(differing, [])
  })
})

describe('names of tables', { skip: isSkipped }, () => {
  let client: pg.Client

  before(async () => {
    client = new pg.Client({
      host: '127.0.0.1',
      port,
      user: 'vera',
      database: tenant,
      password: token,
      options: '-c search_path=public,crm',
    })
    await client.connect()
  })

  after(() => client?.end())

  const first = async (text: string, values: readonly unknown[] = []): Promise<unknown> =>
    (await client.query({ text, values: [...values], rowMode: 'array' })).rows[0]?.[0]
  const codeOf = (done: Promise<unknown>): Promise<unknown> =>
    done.then(
      () => 'done',
      ({ code }) => code,
    )

  it('are found by the path that a session was started with, or set', async () => {
    assert.equal(await first('SHOW search_path'), 'public, crm')
    assert.equal(await first('SELECT current_schema()'), 'public')
    assert.equal(await first('SELECT count(*)::int FROM people'), 7)
    assert.equal(
      await first('SELECT p.id FROM (people p JOIN People q ON p.id = q.id), "people" r WHERE p.id = $1', [3]),
      3,
    )
    assert.equal(
      await first('SELECT id FROM people WHERE people.id IN (SELECT id FROM people WHERE id = $1)', ['4']),
      4,
    )
    assert.equal(await first('WITH people AS (SELECT 42 AS id) SELECT id FROM people'), 42)
    await client.query('SET search_path TO sales')
    assert.equal(await codeOf(first('SELECT id FROM people')), '42P01')
    assert.equal(await first('SELECT count(*)::int FROM crm.people'), 7)
    await client.query('RESET search_path')
    assert.equal(await first('SELECT count(*)::int FROM people'), 7)
  })

  it('may stand behind the name of the database, and of no other', async () => {
    assert.equal(await first(`SELECT count(*)::int FROM "${tenant}".crm.people`), 7)
    assert.equal(await first(`SELECT "${tenant}"."crm"."people".id FROM "${tenant}"."crm"."people" WHERE id = 5`), 5)
    assert.equal(await first(`SELECT '"${tenant}"."crm"."people"'::regclass::text`), 'people')
    assert.equal(await codeOf(first('SELECT id FROM other.crm.people')), '0A000')
  })
})
