import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { ChangeEvent, ChangeStream } from '@sluice/sdk'
import { escapeLiteral } from 'pg'
import { gather } from '../source-host.ts'
import { type LogWorld, NEVER as signal, startLogWorld, stream, Tables } from './log-world.fixture.ts'

let world: LogWorld
before(async () => {
  world = await startLogWorld()
  await world.sql(TYPES)
})
after(() => world?.stop())

/** Types of a tenant's own, beside PostgreSQL's. The checks of domains ask what no other schema sees, and let pass what was there. */
const TYPES = `CREATE EXTENSION hstore; CREATE EXTENSION citext;
  CREATE TYPE mood AS ENUM ('so "so"', 'it''s, {bad}', 'NULL', ' blank ', '\\back', 'ünï😀', 'null');
  CREATE TYPE address AS (street text, no int, moods mood[], at timestamptz); CREATE TYPE moods AS RANGE (subtype = mood);
  CREATE FUNCTION allowed() RETURNS int LANGUAGE sql AS 'SELECT 5';
  CREATE FUNCTION is_short(int[]) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN cardinality($1) < allowed(); END';
  CREATE DOMAIN short AS int[] CHECK (is_short(VALUE)); CREATE DOMAIN texts AS text[]; CREATE DOMAIN shorter AS short; CREATE DOMAIN late AS int[];
  CREATE DOMAIN feeling AS mood; CREATE DOMAIN amount AS numeric; CREATE DOMAIN place AS address;
  CREATE DOMAIN price AS money`

const NUMBERS = [
  '0',
  '-0.0',
  '1.50',
  '1e-9',
  '1e-10',
  '1e-400',
  '99999999999999999999999999999',
  '1e29',
  '1e1000',
  'NaN',
  'Infinity',
  '-Infinity',
  `1${'0'.repeat(131071)}`,
  `0.${'0'.repeat(16382)}1`,
]
const TIMES = [
  '2024-02-29 12:00:00.000001',
  '0001-01-01',
  '0044-03-15 BC',
  '4713-01-01 BC',
  '9999-12-31 23:59:59.999999',
  '10000-01-01',
  '294276-12-31',
  'infinity',
  '-infinity',
  '1900-01-01',
  'epoch',
  '2024-06-30 24:00:00',
]
const DAYS = TIMES.map((text) => text.replace(/ \d.*/, ''))
const SPANS = [
  '1 year 2 mons -3 days 04:05:06.7',
  '-1 sec',
  '00:00:00',
  '24:00:00',
  '-0.000001 sec',
  '178000000 years',
  '1 day -1 us',
  '-1 mons 1 day',
  'infinity',
]
const TEXTS = [
  '',
  ' ',
  'NULL',
  'null',
  '"',
  '""',
  "'",
  '\\',
  '\\\\',
  ',',
  '{}',
  '{a,b}',
  '\n',
  '\r\n',
  '\t',
  '\u0001',
  'ünï😀',
  '\u2028',
  '\ufeffx',
  'e\u0301',
  '\\N',
  '\\.',
  '\\x41',
  'nan',
  'ÿ'.repeat(3000),
]
const DOCS = [
  '{"a":1,"a":2}',
  '{"b":1,"a":{"c":[]}}',
  '"\\u00e4\\ud83d\\ude00"',
  '1e400',
  '-0.0',
  '1.10',
  'null',
  '"null"',
  '[1, 2 ,3]',
  '{"\\u0061":"\\"\\\\"}',
  '12345678901234567890.1234567890',
  '"\\ud800"',
  '" \\u0001 "',
  '{"":""}',
]
const list = (values: readonly string[]) => `{${values.map((value) => `"${value.replace(/[\\"]/g, '\\$&')}"`).join()}}`
const lists = (values: readonly string[]) => [
  list(values),
  '{}',
  '{NULL}',
  `{{${list(values.slice(0, 1)).slice(1, -1)}},{NULL}}`,
  `[0:0]=${list(values.slice(0, 1))}`,
  '{"NULL",NULL,null,NuLl}',
]

/** By type, texts of values that it takes; those that it does not are left out. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  bool: ['t', 'f'],
  int2: ['-32768', '32767'],
  int4: ['-2147483648', '2147483647'],
  int8: ['-9223372036854775808', '9223372036854775807'],
  float4: ['1e-45', '3.4028235e38', '0.1', 'NaN', 'Infinity', '-Infinity', '-0', '16777217'],
  float8: [
    '5e-324',
    '1.7976931348623157e308',
    '0.30000000000000004',
    'NaN',
    'Infinity',
    '-Infinity',
    '-0',
    '1e23',
    '9007199254740993',
  ],
  numeric: NUMBERS,
  'numeric(5,2)': ['1.005', 'NaN', '-999.99'],
  'numeric(38,37)': ['9.5', 'NaN'],
  'numeric(50,3)': ['1.5', 'NaN'],
  'numeric(3,5)': ['0.00123'],
  'numeric(5,-3)': ['12345678'],
  amount: NUMBERS,
  text: TEXTS,
  'varchar(5)': TEXTS,
  'char(5)': TEXTS,
  '"char"': ['a', '\\303', ''],
  name: TEXTS,
  citext: TEXTS,
  bytea: ['\\x', '\\x00ff5c', 'abc', '\\\\000'],
  date: DAYS,
  timestamp: TIMES,
  timestamptz: [
    ...TIMES,
    '2024-01-01 00:00+14',
    '0001-01-01 00:00+01',
    '9999-12-31 23:59:59-01',
    '1890-01-01 00:00 Europe/Amsterdam',
  ],
  'timestamp(0)': TIMES,
  time: ['24:00:00', '00:00', '23:59:59.999999'],
  timetz: ['24:00:00-15:59', '00:00+05:30'],
  interval: SPANS,
  'interval(0)': SPANS,
  uuid: ['A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'],
  json: DOCS,
  jsonb: DOCS,
  xml: ['<a/>', '<a/><b/>', 'x', '<?xml version="1.0" encoding="LATIN1"?><a>ü</a>'],
  money: ['-1.5', '92233720368547758.07', '0'],
  price: ['12.34'],
  inet: ['10.0.0.1/8', '::1'],
  cidr: ['10.0.0.0/8'],
  macaddr: ['08:00:2b:01:02:03'],
  macaddr8: ['08:00:2b:01:02:03:04:05'],
  bit: ['1'],
  'bit(3)': ['101'],
  varbit: ['', '10'],
  point: ['(1e-300,0.1)'],
  box: ['(1,1),(0,0)'],
  path: ['[(0,0),(1,1)]'],
  circle: ['<(0,0),1>'],
  line: ['{1,2,3}'],
  int4range: ['[1,5)', 'empty', '(,)'],
  numrange: ['[1.10,NaN]'],
  tsrange: ['[2024-01-01,infinity]', '["0044-03-15 BC",)'],
  tstzrange: ['[2024-01-01 00:00+02,)'],
  daterange: ['[-infinity,infinity]'],
  int4multirange: ['{[1,3),[5,7)}', '{}'],
  datemultirange: ['{[2024-01-01,2025-01-01)}'],
  tsvector: ["a:1 'b c':2A"],
  tsquery: ["a & !'b c'"],
  oid: ['4294967295'],
  pg_lsn: ['16/B374D848'],
  int2vector: ['1 2', ''],
  oidvector: ['1 2'],
  jsonpath: ['$.a[*] ? (@ > 1)'],
  regtype: ['integer', 'mood'],
  regclass: ['pg_class', 'nothing_42'],
  mood: ['so "so"', "it's, {bad}", 'NULL', ' blank ', '\\back', 'ünï😀', 'null'],
  feeling: ['NULL'],
  moods: ['["NULL","null"]'],
  address: ['("Main ""St""",7,"{NULL,""NULL""}","2024-01-01 00:00+02")', '(,,,)', '(NULL,1,{},infinity)'],
  place: ['("x,y",1,,)'],
  hstore: ['a=>1,b=>NULL,"NULL"=>"NULL"', ''],
  short: ['{1,2}', '{1,2,3,4,NULL}', '{}'],
  shorter: ['{1}'],
  late: ['{1}', '{1,2,3}'],
  texts: lists(TEXTS),
}
const ELEMENTS = [
  'bool',
  'int2',
  'int8',
  'float4',
  'float8',
  'numeric',
  'numeric(5,2)',
  'text',
  'varchar(5)',
  'char(5)',
  'name',
  'citext',
  'bytea',
  'date',
  'timestamp',
  'timestamptz',
  'time',
  'timetz',
  'interval',
  'uuid',
  'json',
  'jsonb',
  'xml',
  'money',
  'inet',
  'bit(3)',
  'point',
  'int4range',
  'tstzrange',
  'datemultirange',
  'mood',
  'feeling',
  'address',
  'hstore',
  '"char"',
  'moods',
]

const cases = [
  ...Object.entries(VALUES),
  ...ELEMENTS.map(
    (type) => [`${type}[]`, lists(VALUES[type] ?? []).concat((VALUES[type] ?? []).map((one) => list([one])))] as const,
  ),
]
const streams = cases.map((_, at) => stream(`t${at}`, 'id'))

/** What a login or database may have set, by which values are written, or read again, in another way. */
const SETTINGS: readonly Readonly<Record<string, string>>[] = [
  {},
  {
    ...{
      array_nulls: 'off',
      xmloption: 'document',
      xmlbinary: 'hex',
      DateStyle: 'German',
      IntervalStyle: 'sql_standard',
    },
    ...{ TimeZone: 'Asia/Kolkata', bytea_output: 'escape', extra_float_digits: '-15', search_path: 'nowhere' },
    ...{ standard_conforming_strings: 'off', backslash_quote: 'off', quote_all_identifiers: 'on', row_security: 'off' },
  },
  {
    ...{
      DateStyle: 'SQL, DMY',
      IntervalStyle: 'postgres_verbose',
      TimeZone: 'America/St_Johns',
      client_encoding: 'LATIN1',
    },
    ...{ default_transaction_read_only: 'on', default_transaction_isolation: 'serializable' },
    ...{
      default_transaction_deferrable: 'on',
      transform_null_equals: 'on',
      statement_timeout: '1s',
      lock_timeout: '1s',
    },
  },
]

/** Gives how many values were taken. */
async function fill(): Promise<number> {
  const { user } = world.source.settings
  const client = await world.source.session()
  let taken = 0
  for (const [at, [type, values]] of cases.entries()) {
    await client.query(`CREATE TABLE t${at} (id int PRIMARY KEY, v ${type}); ALTER TABLE t${at} OWNER TO ${user};
      CREATE TABLE kept${at} (LIKE t${at}); INSERT INTO kept${at} VALUES (-1, NULL)`)
    for (const [id, value] of values.entries()) {
      const insert = `INSERT INTO kept${at} VALUES (${id}, ${escapeLiteral(value)}::${type})`
      taken += await client.query(insert).then(
        () => 1,
        () => 0,
      )
    }
  }
  // A check that is made later lets stand what is there.
  await client.query('ALTER DOMAIN late ADD CHECK (cardinality(VALUE) < 2) NOT VALID')
  await client.end()
  return taken
}

const asText = (rows: Iterable<readonly [string, unknown]>) =>
  [...rows].map(([id, value]) => `${id}: ${JSON.stringify(value)}`).toSorted()
const asFaults = (
  rejects: readonly { readonly column: string | null; readonly reason: string; readonly key?: unknown }[],
) => rejects.map(({ key, column, reason }) => JSON.stringify([key, column, reason])).toSorted()

async function readWhole(at: number) {
  const request = { mode: 'full', columns: [], cursorColumn: null, state: null, signal } as const
  const read = await gather(world.connector.read({ ...(streams[at] as ChangeStream), ...request }))
  const rows = asText(read.rows.map(([id, value]) => [String(id), value ?? null]))
  return { type: read.schema.columns[1]?.type, rows, faults: asFaults(read.rejects) }
}

function told(at: number, events: readonly ChangeEvent[], tables: Tables) {
  const rows = [...(tables.rows[at] ?? [])].map(([key, { v }]) => [String(JSON.parse(key)[0]), v ?? null] as const)
  const mine = events.filter((event) => 'stream' in event && event.stream === at)
  const type = mine.find((event) => event.kind === 'schema')?.schema.columns[1]?.type
  return { type, rows: asText(rows), faults: asFaults(mine.filter((event) => event.kind === 'reject')) }
}

test('rows of the log are those of a read, value by value, whatever the login has set', async () => {
  const { user } = world.source.settings
  assert.ok((await fill()) > 750)
  for (const settings of SETTINGS) {
    const { position, refused } = await world.log.prepare({ capture: 'values', streams, anew: true, signal })
    assert.deepEqual(refused, [])
    await world.sql(
      `TRUNCATE ${streams.map(({ table }) => table).join()}; ${cases.map((_, at) => `INSERT INTO t${at} SELECT * FROM kept${at}`).join(';')}`,
    )
    await world.sql(`ALTER ROLE ${user} RESET ALL`)
    for (const [name, value] of Object.entries(settings))
      await world.sql(`ALTER ROLE ${user} SET ${name} = ${escapeLiteral(value)}`)
    const { events } = await world.take('values', position, streams)
    const tables = new Tables(world.connector, streams)
    tables.apply(events)
    for (const [at, [type]] of cases.entries())
      assert.deepEqual(told(at, events, tables), await readWhole(at), `${type} ${JSON.stringify(settings)}`)
  }
  await world.sql(`ALTER ROLE ${user} RESET ALL`)
  await world.log.release({ capture: 'values', signal })
})
