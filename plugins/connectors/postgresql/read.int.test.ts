import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Connector, isSluiceError, type ReadRequest } from '@sluice/sdk'
import { escapeLiteral } from 'pg'
import { createConnector } from './connector.ts'
import { parseSettings } from './settings.ts'
import { gather, sourceHost } from './source-host.ts'
import { type SourceServer, startSource } from './source-server.ts'

let source: SourceServer
let connector: Connector

before(async () => {
  source = await startSource()
  connector = createConnector(parseSettings(source.settings), sourceHost())
})
after(async () => {
  await connector?.close()
  await source?.stop()
})

function request(table: string, other: Partial<ReadRequest> = {}): ReadRequest {
  return {
    schema: 'public',
    table,
    mode: 'full',
    columns: [],
    primaryKey: [],
    cursorColumn: null,
    state: null,
    signal: new AbortController().signal,
    ...other,
  }
}

const read = (table: string, other: Partial<ReadRequest> = {}) => gather(connector.read(request(table, other)))

async function give(sql: string): Promise<void> {
  await source.sql(`${sql}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${source.settings.user}`)
}

function failsWith(kind: Parameters<typeof isSluiceError>[1], code: string) {
  return (error: unknown) => {
    assert.ok(isSluiceError(error, kind), `${kind}: ${error}`)
    assert.equal(error.code, code)
    assert.ok(error.remedy)
    return true
  }
}

/** Type, logical type, and pairs of what is stored and what must travel. */
const TYPES: readonly (readonly [string, string, ...(readonly [string | null, string | null])[]])[] = [
  ['bool', 'boolean', ['true', 't'], ['false', 'f'], [null, null]],
  ['int2', 'integer', ['-32768', '-32768'], ['32767', '32767']],
  ['int4', 'integer', ['-2147483648', '-2147483648'], ['2147483647', '2147483647']],
  ['int8', 'long', ['-9223372036854775808', '-9223372036854775808'], ['9223372036854775807', '9223372036854775807']],
  ['oid', 'long', ['4294967295', '4294967295']],
  ['float4', 'float', ['NaN', 'NaN'], ['-0', '-0'], ['1e-45', '1e-45'], ['3.4028235e38', '3.4028235e+38']],
  [
    'float8',
    'double',
    ['0.1', '0.1'],
    ['-Infinity', '-Infinity'],
    ['1.7976931348623157e308', '1.7976931348623157e+308'],
  ],
  ['numeric(38,0)', 'decimal(38,0)', ['9'.repeat(38), '9'.repeat(38)]],
  ['numeric(10,2)', 'decimal(10,2)', ['-12.3', '-12.30'], ['0', '0.00']],
  ['numeric', 'decimal(38,9)', ['1.5', '1.5'], [`-${'9'.repeat(29)}.999999999`, `-${'9'.repeat(29)}.999999999`]],
  ['numeric(60,20)', 'string', ['NaN', 'NaN'], [`${'9'.repeat(40)}.5`, `${'9'.repeat(40)}.5${'0'.repeat(19)}`]],
  ['date', 'date', ['0001-01-01', '0001-01-01'], ['9999-12-31', '9999-12-31'], ['2024-02-29', '2024-02-29']],
  [
    'timestamp',
    'timestamp',
    ['0001-01-01 00:00', '0001-01-01 00:00:00'],
    ['9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999'],
  ],
  [
    'timestamptz',
    'timestamptz',
    ['2024-07-01 12:00:00.5+05:30', '2024-07-01 06:30:00.5+00'],
    ['9999-12-31 23:59:59Z', '9999-12-31 23:59:59+00'],
  ],
  [
    'text',
    'string',
    ['', ''],
    ['a"b""c', 'a"b""c'],
    ['line\r\nline\\.\t\u0001', 'line\r\nline\\.\t\u0001'],
    ['😀 ñ 中', '😀 ñ 中'],
    ['\\.', '\\.'],
    ['NULL', 'NULL'],
  ],
  ['varchar(3)', 'string', ['äöü', 'äöü']],
  ['char(3)', 'string', ['a', 'a  ']],
  ['uuid', 'uuid', ['A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']],
  ['bytea', 'binary', ['\\x00ff22', '\\x00ff22'], ['', '\\x']],
  ['json', 'json', ['{"a": [1, null],\n "a": "\\u00e4"}', '{"a": [1, null],\n "a": "\\u00e4"}'], ['null', 'null']],
  ['jsonb', 'json', ['{"b":1,"a":2.50}', '{"a": 2.50, "b": 1}']],
  ['int4[]', 'json', ['{1,NULL,3}', '[1,null,3]'], ['{}', '[]'], ['{{1,2},{3,4}}', '[[1,2],[3,4]]']],
  ['text[]', 'json', ['{"a\\"b","",NULL}', '["a\\"b","",null]']],
  ['money', 'decimal(23,4)', ['-92233720368547758.08', '-92233720368547758.0800'], ['12.34', '12.3400']],
  ['time', 'string', ['24:00:00', '24:00:00'], ['01:02:03.000004', '01:02:03.000004']],
  ['timetz', 'string', ['12:00:00+02', '12:00:00+02']],
  ['interval', 'string', ['1 year 2 months -3 days 04:05:06.7', 'P1Y2M-3DT4H5M6.7S']],
  ['bit(3)', 'string', ['101', '101']],
  ['varbit', 'string', ['', ''], ['10', '10']],
  ['inet', 'string', ['10.0.0.1/8', '10.0.0.1/8'], ['::1', '::1']],
  ['macaddr', 'string', ['08:00:2b:01:02:03', '08:00:2b:01:02:03']],
  ['int4range', 'string', ['[1,5)', '[1,5)'], ['empty', 'empty']],
  ['point', 'string', ['(1,2.5)', '(1,2.5)']],
  ['tsvector', 'string', ['a:1 b:2', "'a':1 'b':2"]],
  ['mood', 'string', ['so "so"', 'so "so"']],
  ['address', 'json', ['("Main St",7)', '{"street":"Main St","no":7}']],
  ['positive', 'decimal(8,3)', ['1.5', '1.500']],
  ['hstore', 'json', ['a=>1,b=>NULL', '{"a": "1", "b": null}']],
  ['citext', 'string', ['AbC', 'AbC']],
]

test('every type travels exactly, extremes included', async () => {
  await source.sql(`CREATE TYPE mood AS ENUM ('so "so"'); CREATE TYPE address AS (street text, no int);
    CREATE DOMAIN amount AS numeric(8,3); CREATE DOMAIN positive AS amount CHECK (VALUE > 0);
    CREATE EXTENSION hstore; CREATE EXTENSION citext`)
  const client = await source.session()
  for (const [index, [type, logical, ...pairs]] of TYPES.entries()) {
    const table = `type_${index}`
    await give(`CREATE TABLE ${table} (id int PRIMARY KEY, value ${type})`)
    for (const [id, [stored]] of pairs.entries()) {
      await client.query(`INSERT INTO ${table} VALUES ($1, $2::text::${type})`, [id, stored])
    }
    const { schema, rows, rejects, last } = await read(table)
    assert.equal(schema.columns[1]?.type, logical, type)
    assert.deepEqual(
      rows,
      pairs.map(([, travels], id) => [String(id), travels]),
      type,
    )
    assert.deepEqual([rejects.length, last.rows], [0, pairs.length], type)
  }
})

test('what the login or database has set changes nothing', async () => {
  await give(`CREATE TABLE styled AS SELECT '2024-07-01 12:00:00+02'::timestamptz AS at, '\\x01'::bytea AS raw,
    0.1::float8 + 0.2 AS f, '1 day'::interval AS span, 1::numeric AS n;
    CREATE FUNCTION abs(numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT 1e30'`)
  await source.sql(`ALTER ROLE ${source.settings.user} SET DateStyle = 'SQL, DMY';
    ALTER ROLE ${source.settings.user} SET TimeZone = 'Asia/Tokyo'; ALTER ROLE ${source.settings.user} SET bytea_output = 'escape';
    ALTER ROLE ${source.settings.user} SET extra_float_digits = -3; ALTER ROLE ${source.settings.user} SET IntervalStyle = 'postgres_verbose';
    ALTER ROLE ${source.settings.user} SET search_path = public, pg_catalog`)
  assert.deepEqual((await read('styled')).rows, [
    ['2024-07-01 10:00:00+00', '\\x01', '0.30000000000000004', 'P1D', '1'],
  ])
  await source.sql(`ALTER ROLE ${source.settings.user} RESET ALL`)
})

test('rows that cannot be carried are rejected one by one, by column; all others arrive', async () => {
  await give(`CREATE TABLE odd (id int, d date, ts timestamp, tz timestamptz, n numeric, f numeric(5,2));
    INSERT INTO odd VALUES (1, '2024-01-01', '2024-01-01', '2024-01-01', 1, 1), (2, 'infinity', NULL, NULL, NULL, NULL),
      (3, '0044-03-15 BC', NULL, NULL, NULL, NULL), (4, NULL, '10000-01-01', NULL, NULL, NULL),
      (5, NULL, NULL, '-infinity', NULL, NULL), (6, NULL, NULL, NULL, 'NaN', NULL), (7, NULL, NULL, NULL, 1e29, NULL),
      (8, NULL, NULL, NULL, 0.0000000001, NULL), (9, NULL, NULL, NULL, 1.5000000000, 'NaN'), (10, NULL, NULL, NULL, NULL, NULL)`)
  const { rows, rejects, last } = await read('odd')
  assert.deepEqual(
    rows.map(([id]) => id),
    ['1', '10'],
  )
  assert.deepEqual(
    rejects.map(({ column }) => column),
    ['d', 'd', 'ts', 'tz', 'n', 'n', 'n', 'f'],
  )
  assert.ok(rejects.every(({ reason }) => reason.length > 10 && !/infinity|1e29/.test(reason)))
  assert.ok(rejects.every(({ key }) => key === undefined))
  const raw = ['infinity', '0044-03-15 BC', '10000-01-01 00:00:00', '-infinity', 'NaN']
  assert.deepEqual(
    rejects.slice(0, 5).map((reject) => reject.raw),
    raw,
  )
  assert.equal(last.rows, 2)
  const without = await read('odd', { columns: ['id'] })
  assert.deepEqual([without.rows.length, without.rejects.length], [10, 0])
})

test('a value that cannot be carried in a column that nobody uses does not cost its row', async () => {
  const columns = 'a int, d date, t text, n numeric, at timestamptz'
  await give(`CREATE TABLE unused (${columns}, PRIMARY KEY (a)); INSERT INTO unused
    SELECT i, CASE WHEN i % 3 = 0 THEN 'infinity'::date ELSE '2026-01-01' END, repeat(E'q"\\n,', i % 5000),
      CASE WHEN i % 5 = 0 THEN 'NaN'::numeric ELSE i END, CASE WHEN i % 7 = 0 THEN '-infinity'::timestamptz END
    FROM generate_series(1, 400) i`)
  const lacking = (id: number, optional: readonly string[]) => ({
    d: id % 3 === 0 && optional.includes('d'),
    n: id % 5 === 0 && optional.includes('n'),
    at: id % 7 === 0 && optional.includes('at'),
  })
  for (const mode of ['full', 'incremental'] as const) {
    for (const optional of [['d', 'n', 'at', 'a', 'none'], ['d', 'n'], ['at'], []]) {
      const { rows, rejects, last } = await read('unused', { optional, mode })
      const isLost = (id: number) =>
        Object.entries({ d: 3, n: 5, at: 7 }).some(([name, by]) => id % by === 0 && !optional.includes(name))
      const expected = Array.from({ length: 400 }, (_, at) => at + 1).filter((id) => !isLost(id))
      assert.deepEqual(
        rows,
        expected.map((id) => {
          const { d, n } = lacking(id, optional)
          return [String(id), d ? null : '2026-01-01', 'q"\n,'.repeat(id), n ? null : String(id), null]
        }),
        `${mode} ${optional}`,
      )
      assert.equal(last.rows, expected.length)
      assert.equal(
        new Set(rejects.filter(({ carried }) => !carried).map(({ key }) => key?.['a'])).size,
        400 - expected.length,
      )
      const named = rejects.filter(({ carried }) => carried).map(({ key, column, raw }) => [key?.['a'], column, raw])
      const values = { d: 'infinity', n: 'NaN', at: '-infinity' }
      assert.deepEqual(
        named,
        expected.flatMap((id) =>
          Object.entries(lacking(id, optional)).flatMap(([name, is]) =>
            is ? [[String(id), name, values[name as 'd']]] : [],
          ),
        ),
      )
    }
  }
})

test('a row says at its end which of its values cannot be carried, where that is asked for and may be', async () => {
  await give(`CREATE TABLE marked (a int PRIMARY KEY, d date, "q"",n" numeric, t text);
    INSERT INTO marked VALUES (1, '2026-01-01', 1, 'x'), (2, 'infinity', 'NaN', E'"\n,'), (3, 'infinity', 3, null), (4, null, null, null)`)
  const lines = async (marked: readonly string[]) => {
    const { rows, rejects, last, schema } = await read('marked', { marked })
    assert.equal(last.rows, rows.length)
    assert.equal(schema.columns.length, 4)
    return { rows, left: rejects.filter(({ carried }) => !carried).map(({ key }) => key?.['a']) }
  }
  const whole = ['1', '2026-01-01', '1', 'x', null]
  const empty = ['4', null, null, null, null]
  const odd = ['3', null, '3', null, '["d"]']
  assert.deepEqual(await lines(['d', 'q",n', 't', 'a']), {
    rows: [whole, ['2', null, null, '"\n,', JSON.stringify(['d', 'q",n'])], odd, empty],
    left: [],
  })
  assert.deepEqual(await lines(['d']), { rows: [whole, odd, empty], left: ['2'] })
  assert.deepEqual(await lines([]), { rows: [whole, empty], left: ['2', '3'] })
  assert.equal((await read('marked', {})).rows[0]?.length, 4, 'nothing is added that nobody asked for')
})

test('a row that is rejected is named by its key, and a value at fault that is long is cut', async () => {
  await give(`CREATE TABLE odd_keys (a text, b int, j json, filler text, PRIMARY KEY (b, a));
    INSERT INTO odd_keys VALUES (E'it''s "a",\n', 1, '"\\ud800"', 'x'), ('long', 2, ('"\\ud800' || repeat('y', 100000) || '"')::json, 'x'),
      (repeat('k', 2000), 3, '"\\ud800"', 'x')`)
  const { rejects } = await read('odd_keys')
  assert.deepEqual(
    rejects.map(({ column, key }) => [column, key]),
    [
      ['j', { b: '1', a: 'it\'s "a",\n' }],
      ['j', { b: '2', a: 'long' }],
      ['j', undefined],
    ],
  )
  assert.deepEqual(
    rejects.map(({ raw }) => raw?.length),
    [8, 1000, 8],
  )
  const named = await read('odd_keys', { primaryKey: ['a'], columns: ['j', 'a'] })
  assert.deepEqual(
    named.rejects.map(({ key }) => key?.['a']?.slice(0, 4)),
    ["it's", 'long', undefined],
  )
})

test('half of a surrogate pair in JSON keeps its row from being carried, and nothing that looks like one does', async () => {
  const whole = [
    String.raw`{"a":"\ud83d\uDE00"}`,
    String.raw`{"a":"\\ud800"}`,
    String.raw`{"a":"\n\\\ud83d\ude00"}`,
    '{"a":"\\u0041ud800"}',
  ]
  const half = [
    String.raw`{"a":"\ud800"}`,
    String.raw`{"a":"\uDFFF"}`,
    String.raw`{"\\\ud83d":1}`,
    String.raw`{"a":"\ude00\ud83d"}`,
    String.raw`{"a":"\ud83d\ud83d\ude00"}`,
    String.raw`{"a":"\ud83d\\\ude00"}`,
    String.raw`{"a":"\ud83d\u0041"}`,
  ]
  const rows = [...whole, ...half].map((text, id) => `(${id}, ${escapeLiteral(text)}::json)`)
  await give(`CREATE TABLE escaped (id int, v json); INSERT INTO escaped VALUES (-1, NULL), ${rows.join(', ')};
    CREATE TYPE holder AS (j json); CREATE TABLE held (id int, v json[], w holder);
    INSERT INTO held SELECT id, ARRAY[v], ROW(v)::holder FROM escaped;
    INSERT INTO held SELECT 100 + id, NULL, ROW(v)::holder FROM escaped`)
  for (const [table, times] of [
    ['escaped', 1],
    ['held', 2],
  ] as const) {
    const { rows, rejects } = await read(table)
    assert.equal(rows.length, times * (whole.length + 1), table)
    assert.equal(rejects.length, times * half.length, table)
    for (const [, value] of rows) if (value != null) assert.ok(String(JSON.parse(String(value))).isWellFormed())
  }
})

const HOSTILE = [
  'Select',
  'with space',
  'quo"te',
  "apo'strophe",
  'semi;DROP TABLE odd;--',
  'ünï😀',
  '$1',
  't',
  '\\backslash',
  '%s',
]

test('names are names, whatever they hold', async () => {
  const quoted = HOSTILE.map((name) => `"${name.replaceAll('"', '""')}"`)
  await give(
    quoted
      .map(
        (name) => `CREATE TABLE ${name} (${quoted.map((column) => `${column} text`).join(', ')}, at date);
    INSERT INTO ${name} VALUES (${quoted.map((_, index) => `'${index}'`).join(', ')}, '2024-01-01')`,
      )
      .join(';'),
  )
  for (const name of HOSTILE) {
    const { schema, rows } = await read(name)
    assert.deepEqual(
      schema.columns.map((column) => column.name),
      [...HOSTILE, 'at'],
    )
    assert.deepEqual(rows, [[...HOSTILE.map((_, index) => String(index)), '2024-01-01']])
    assert.deepEqual((await read(name, { columns: [name], mode: 'incremental' })).rows, [
      [String(HOSTILE.indexOf(name))],
    ])
  }
  await assert.rejects(read('nul\0'), failsWith('INVALID_DATA', 'source_table_missing'))
})

test('columns come in the order asked for, keys as asked or as declared', async () => {
  await give(`CREATE TABLE keyed (b int, a int, c text, PRIMARY KEY (a, b)); INSERT INTO keyed VALUES (1, 2, 'x')`)
  const all = await read('keyed')
  assert.deepEqual(all.schema.primaryKey, ['a', 'b'])
  assert.deepEqual(all.kinds, ['schema', 'estimate', 'csv', 'state'])
  const some = await read('keyed', { columns: ['c', 'b'] })
  assert.deepEqual([some.rows, some.schema.primaryKey], [[['x', '1']], []])
  assert.deepEqual((await read('keyed', { primaryKey: ['c'] })).schema.primaryKey, ['c'])
  assert.deepEqual(
    all.schema.columns.map(({ nullable }) => nullable),
    [false, false, true],
  )
})

test('views, materialized views, partitioned tables and empty tables are read like tables', async () => {
  await give(`CREATE TABLE parted (id int, at date) PARTITION BY RANGE (at);
    CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
    INSERT INTO parted SELECT i, '2024-05-05' FROM generate_series(1, 3) i;
    CREATE VIEW seen AS SELECT id FROM parted WHERE id > 1; CREATE MATERIALIZED VIEW kept AS SELECT id FROM parted;
    CREATE MATERIALIZED VIEW unfilled AS SELECT id FROM parted WITH NO DATA; CREATE TABLE void (id int)`)
  assert.equal((await read('parted')).last.rows, 3)
  assert.equal((await read('seen')).last.rows, 2)
  assert.equal((await read('kept')).last.rows, 3)
  assert.deepEqual((await read('void')).kinds, ['schema', 'estimate', 'state'])
  await assert.rejects(read('unfilled'), failsWith('INVALID_DATA', 'source_not_populated'))
})

test('what is not there or not allowed says so', async () => {
  await give('CREATE TABLE open_table (id int, secret text)')
  await source.sql(`CREATE TABLE closed_table (id int); CREATE TABLE half (id int, secret text);
    CREATE SCHEMA hidden; CREATE TABLE hidden.inside (id int); INSERT INTO half VALUES (1, 's');
    GRANT SELECT ON hidden.inside TO ${source.settings.user}; GRANT SELECT (id) ON half TO ${source.settings.user};
    CREATE SEQUENCE counting; CREATE TABLE bare (); GRANT SELECT ON bare TO ${source.settings.user}`)
  await assert.rejects(read('absent'), failsWith('INVALID_DATA', 'source_table_missing'))
  await assert.rejects(read('x', { schema: 'absent' }), failsWith('INVALID_DATA', 'source_table_missing'))
  await assert.rejects(read('counting'), failsWith('PERMISSION', 'source_permission_denied'))
  await assert.rejects(read('closed_table'), failsWith('PERMISSION', 'source_permission_denied'))
  await assert.rejects(read('inside', { schema: 'hidden' }), failsWith('PERMISSION', 'source_permission_denied'))
  await assert.rejects(read('open_table', { columns: ['nope'] }), failsWith('INVALID_DATA', 'source_column_missing'))
  await assert.rejects(read('half', { columns: ['secret'] }), failsWith('INVALID_DATA', 'source_column_missing'))
  await assert.rejects(
    read('open_table', { columns: ['id'], primaryKey: ['secret'] }),
    failsWith('INVALID_DATA', 'source_key_not_read'),
  )
  await assert.rejects(read('bare'), failsWith('INVALID_DATA', 'source_table_empty'))
  assert.deepEqual((await read('half')).rows, [['1']])
})

test('a connection that offers some schemas reads no others', async () => {
  const narrow = createConnector(parseSettings({ ...source.settings, schemas: ['sales'] }), sourceHost())
  await assert.rejects(gather(narrow.read(request('keyed'))), failsWith('CONFIG', 'source_schema_not_offered'))
})

test('an error that a value causes at the source tells nothing of it', async () => {
  await give(`CREATE TABLE hidden_value (v text); INSERT INTO hidden_value VALUES ('4111-1111');
    CREATE VIEW broken AS SELECT v::int AS n FROM hidden_value`)
  await assert.rejects(read('broken'), (error: unknown) => {
    failsWith('INVALID_DATA', 'source_value_invalid')(error)
    const { message, remedy, cause } = error as Error & { remedy: string }
    assert.doesNotMatch(JSON.stringify([message, remedy, String(cause), error]), /4111/)
    return true
  })
})
