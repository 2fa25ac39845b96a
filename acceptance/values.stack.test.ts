/**
 * A value is spelled one way, whoever tells it, and what an answer says works as a filter, as a parameter and in a key.
 * The values are made here by type and scale; what each must be called follows from the type alone.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

/** What stands in the source, and how every door spells it. A number is one in JSON, too. */
type Told = readonly [source: string, told: string | number | boolean]

interface Tried {
  readonly column: string
  readonly type: string
  readonly source: string
  readonly values: readonly (Told | null)[]
}

/** The ends of a decimal's range and what lies beside zero, written in the source with as little or as much as it takes. */
function decimal(precision: number, scale: number, source = `numeric(${precision},${scale})`): Tried {
  const told = (units: bigint): string => {
    const digits = (units < 0n ? -units : units).toString().padStart(scale + 1, '0')
    const whole = digits.slice(0, digits.length - scale)
    return `${units < 0n ? '-' : ''}${whole}${scale > 0 ? `.${digits.slice(-scale)}` : ''}`
  }
  const most = 10n ** BigInt(precision) - 1n
  const tens = 10n ** BigInt(Math.max(precision - 1, 0))
  const units = [0n, 1n, -1n, most, -most, tens, -tens / 2n]
  const values = units.map((value): Told => [`${value}e-${scale}`, told(value)])
  return { column: `d${precision}_${scale}`, type: `decimal(${precision},${scale})`, source, values }
}

const same = (...texts: readonly string[]): readonly Told[] => texts.map((text) => [text, text])

const TRIED: readonly Tried[] = [
  decimal(1, 0),
  decimal(1, 1),
  decimal(5, 2),
  decimal(18, 6),
  decimal(19, 19),
  decimal(38, 0),
  decimal(38, 9, 'numeric'),
  decimal(38, 38),
  {
    column: 'l',
    type: 'long',
    source: 'bigint',
    values: [
      ['0', 0],
      ['9007199254740991', 9007199254740991],
      ['-9007199254740991', -9007199254740991],
      ...same('9007199254740992', '-9007199254740992', '9223372036854775807', '-9223372036854775808'),
    ],
  },
  {
    column: 'i',
    type: 'integer',
    source: 'integer',
    values: [0, 2147483647, -2147483648, 1, -1, 10, 100].map((value): Told => [String(value), value]),
  },
  {
    column: 'ok',
    type: 'boolean',
    source: 'boolean',
    values: [['t', true], ['f', false], ['1', true], ['off', false], null, ['yes', true], ['n', false]],
  },
  {
    column: 'f',
    type: 'float',
    source: 'real',
    values: [
      ['0', 0],
      // Everywhere the same zero.
      ['-0', 0],
      ['0.1', 0.1],
      ['70365616', 70365620],
      ['-Infinity', '-Infinity'],
      ['1e-7', 1e-7],
      ['NaN', 'NaN'],
    ],
  },
  {
    column: 'g',
    type: 'double',
    source: 'double precision',
    values: [
      ['0', 0],
      // Everywhere the same zero.
      ['-0', 0],
      ['1e15', 1e15],
      // Of which DuckDB's own text is another number.
      ['2417851639229258349412352', 2 ** 81],
      ['5e-324', 5e-324],
      ['9007199254740993', 9007199254740992],
      ['Infinity', 'Infinity'],
    ],
  },
  {
    column: 'day',
    type: 'date',
    source: 'date',
    values: same('0001-01-01', '9999-12-31', '1582-10-10', '1970-01-01', '2024-02-29', '1969-12-31', '1900-01-01'),
  },
  {
    column: 'ts',
    type: 'timestamp',
    source: 'timestamp',
    values: [
      ['0001-01-01', '0001-01-01T00:00:00.000000'],
      ['9999-12-31 23:59:59.999999', '9999-12-31T23:59:59.999999'],
      ['1970-01-01 00:00:00.000001', '1970-01-01T00:00:00.000001'],
      ['2024-02-29 12:00', '2024-02-29T12:00:00.000000'],
      ['2024-02-29 12:00:00.1', '2024-02-29T12:00:00.100000'],
      ['1969-12-31 23:59:59.90', '1969-12-31T23:59:59.900000'],
      ['1582-10-10 01:02:03', '1582-10-10T01:02:03.000000'],
    ],
  },
  {
    column: 'z',
    type: 'timestamptz',
    source: 'timestamptz',
    values: [
      ['0001-01-01 00:00+00', '0001-01-01T00:00:00.000000Z'],
      ['9999-12-31 23:59:59.999999+00', '9999-12-31T23:59:59.999999Z'],
      ['1970-01-01 00:00:00.000001+00', '1970-01-01T00:00:00.000001Z'],
      ['2024-02-29 12:00+05:30', '2024-02-29T06:30:00.000000Z'],
      ['2024-02-29 12:00:00.1-08', '2024-02-29T20:00:00.100000Z'],
      ['1969-12-31 23:59:59.9Z', '1969-12-31T23:59:59.900000Z'],
      ['1582-10-10 01:02:03+00', '1582-10-10T01:02:03.000000Z'],
    ],
  },
  {
    column: 'u',
    type: 'uuid',
    source: 'uuid',
    values: [
      ['00000000000000000000000000000000', '00000000-0000-0000-0000-000000000000'],
      ['FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
      ['{6F9619FF-8B86-D011-B42D-00C04FC964FF}', '6f9619ff-8b86-d011-b42d-00c04fc964ff'],
      ...same(...['a', 'b', 'c', 'd'].map((end) => `6f9619ff-8b86-d011-b42d-00c04fc964f${end}`)),
    ],
  },
  {
    column: 'b',
    type: 'binary',
    source: 'bytea',
    values: [
      ['\\x', ''],
      ['\\x00', 'AA=='],
      ['\\xff', '/w=='],
      ['\\x00ff10', 'AP8Q'],
      ['\\xfbff', '+/8='],
      ['abc', 'YWJj'],
      ['\\x0A0D', 'Cg0='],
    ],
  },
  {
    column: 's',
    type: 'string',
    source: 'text',
    values: same('', ' ', '1.10', 'a,b:c"d|e', '日本\u202e', "it's 100%", 'NULL'),
  },
]
const ROWS = 7
/** Documents are told as they were written; numbers in them have digits that no JavaScript number has. */
const DOCUMENTS = [
  '{"b":1,"a":[1.10,1e400,9007199254740993]}',
  'null',
  '"x"',
  '1.0',
  '{"k":"\\u00e9"}',
  '[1, 2,\n3]',
  '-0',
]

const FILTERED = TRIED.filter(({ column }) => column !== 'ok').map(({ column }) => column)
const KEYED = TRIED.filter(({ type }) => !['float', 'double', 'binary', 'boolean'].includes(type))
const KEY_TEMPLATE = KEYED.map(({ column }) => `{${column}}`).join('|')

const ENDPOINTS = {
  spelled: `  - type: lookup
    config: { index_columns: [id, ${FILTERED.join(', ')}] }
  - type: timeseries
    config: { time_column: z }
  - type: realtime
    config: { key_template: "${KEY_TEMPLATE}" }
  - type: analytics
`,
  remembered: `  - type: lookup
    config: { index_columns: [id, ${FILTERED.join(', ')}], history_mode: type_2, tracked_columns: [d5_2, f, g] }
`,
} as const

let world: World
let dora: Client

before(async () => {
  world = await openWorld()
  const list = TRIED.map(({ column, source }) => `${column} ${source}`).join(', ')
  await world.source.query(`CREATE TABLE spelled (id integer PRIMARY KEY, ${list}, j json)`)
  const places = TRIED.map(({ source }, at) => `$${at + 2}::text::${source}`)
  for (let row = 0; row < ROWS; row += 1) {
    const values = [row, ...TRIED.map(({ values }) => values[row]?.[0] ?? null), DOCUMENTS[row]]
    await world.source.query(
      `INSERT INTO spelled VALUES ($1, ${places.join(', ')}, $${values.length}::text::json)`,
      values,
    )
  }
  const [tenant] = world.tenants
  await world.createTenant(tenant)
  dora = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, dora)
  const columns = [
    { column: 'id', type: 'integer', more: ', role: identity, nullable: false' },
    ...TRIED.map(({ column, type }) => ({ column, type, more: '' })),
    { column: 'j', type: 'json', more: '' },
  ].map(({ column, type, more }) => `  - { name: ${column}, type: "${type}"${more} }\n`)
  for (const [name, endpoints] of Object.entries(ENDPOINTS)) {
    const made = manifests('public.spelled', { columns: columns.join(''), endpoints })
    const wanted = { name, namespace: 'crm', archetype: 'source_aligned', description: '' }
    const { id } = (await dora.post('/api/v1/products', wanted)).body
    await deployVersion(dora, id, '1.0.0', { ...made, product: made.product.replace('name: people', `name: ${name}`) })
  }
  await syncNow(dora)
})

after(() => world?.close())

const path = (rest: string) => `/api/v1/products/crm.${rest}`
const SELECT = 'SELECT * FROM crm.spelled ORDER BY id'

/** As text, so that no digit is lost. */
async function asked(rest: string): Promise<string> {
  const { status, text } = await dora.text(path(rest))
  assert.equal(status, 200, `${rest}: ${text}`)
  return text
}

function rowsOf(text: string): Json[] {
  const { data } = JSON.parse(text)
  return data.toSorted((one: Json, other: Json) => one.id - other.id)
}

function assertTold(door: string, rows: readonly Json[]): void {
  assert.equal(rows.length, ROWS, door)
  for (const { column, values } of TRIED) {
    for (const [row, value] of values.entries()) {
      const told = rows[row][column]
      assert.ok(Object.is(told, value === null ? null : value[1]), `${door}: ${column} of ${value?.[0]} is ${told}`)
    }
  }
}

/** A number has the same digits at every door. */
const digitsOf = (told: string | number | boolean) => String(told)

function assertDigits(door: string, text: string): void {
  for (const { column, values } of TRIED.filter(({ type }) => type === 'float' || type === 'double')) {
    for (const value of values) {
      if (typeof value?.[1] !== 'number') continue
      assert.match(
        text,
        new RegExp(`"${column}":${digitsOf(value[1])}[,}]`.replace('+', '[+]')),
        `${door}: ${value[0]}`,
      )
    }
  }
}

function csvRows(text: string): readonly (readonly string[])[] {
  const rows: string[][] = [[]]
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)/g)) {
    rows.at(-1)?.push(quoted === undefined ? (plain ?? '') : quoted.replaceAll('""', '"'))
    if (end === '\n') rows.push([])
  }
  return rows
}

describe('a value', () => {
  it('is told alike by lookup, history, time series, values by key and queries, in every format', async () => {
    const doors: Readonly<Record<string, string>> = {
      lookup: await asked('spelled/latest?limit=100'),
      current: await asked('remembered/latest?limit=100'),
      history: await asked('remembered/latest?limit=100&history=true'),
      timeseries: await asked('spelled/timeseries?limit=100'),
    }
    for (const [door, text] of Object.entries(doors)) {
      assertTold(door, rowsOf(text))
      assertDigits(door, text)
      for (const document of DOCUMENTS) assert.ok(text.includes(`"j":${document}`), `${door}: ${document}`)
    }
    const query = async (accept: string) => (await dora.post('/api/v1/query', { sql: SELECT }, { accept })).body
    const { columns, rows } = await query('application/json')
    const named = (cells: readonly Json[]) => Object.fromEntries(cells.map((cell, at) => [columns[at].name, cell]))
    assertTold('query', rows.map(named))
    const lines: string = await query('application/x-ndjson')
    assertTold(
      'ndjson',
      lines
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    )
    assertDigits('ndjson', lines)
    const raw = await dora.post('/api/v1/query', { sql: 'SELECT * FROM raw_db.spelled ORDER BY id' })
    const ofRaw = (cells: readonly Json[]) =>
      Object.fromEntries(cells.map((cell, at) => [raw.body.columns[at].name, cell]))
    assertTold('raw table', raw.body.rows.map(ofRaw))
    const [header = [], ...cells] = csvRows(await query('text/csv'))
    for (const { column, values } of TRIED) {
      for (const [row, value] of values.entries()) {
        const cell = cells[row]?.[header.indexOf(column)] ?? ''
        assert.equal(cell, digitsOf(value?.[1] ?? ''), `CSV: ${column} of ${value?.[0]}`)
      }
    }
  })

  it('works as a filter as it was told, also in a page', async () => {
    for (const { column, values } of TRIED.filter((tried) => FILTERED.includes(tried.column))) {
      for (const [row, value] of values.entries()) {
        if (value === null) continue
        const text = digitsOf(value[1])
        for (const operator of ['', '.ge', '.le', ...(text.includes(',') ? [] : ['.in'])]) {
          for (const product of ['spelled', 'remembered']) {
            const found = rowsOf(
              await asked(`${product}/latest?filter=${encodeURIComponent(`${column}${operator}:${text}`)}`),
            )
            assert.ok(
              found.some(({ id }) => id === row),
              `${product} ${column}${operator}:${text}`,
            )
          }
        }
      }
      const seen: number[] = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Json = JSON.parse(await asked(`spelled/latest?limit=2&order=${column}${cursor}`))
        seen.push(...page.data.map(({ id }: Json) => id))
        cursor = page.next_cursor === null ? null : `&cursor=${encodeURIComponent(page.next_cursor)}`
      }
      assert.deepEqual(
        seen.toSorted(),
        Array.from({ length: ROWS }, (_, row) => row),
        column,
      )
    }
  })

  it('works in a key as it was told, and as the key is rendered', async () => {
    const everyRow: string[] = []
    for (let row = 0; row < ROWS; row += 1) {
      const texts = KEYED.map(({ values }) => String(values[row]?.[1]))
      // The last value is the only one that has no other behind it.
      const rendered = texts.map((text, at) => {
        const encoded = text.replace(/[%:]/g, encodeURIComponent)
        return at === texts.length - 1 ? encoded : encoded.replaceAll('|', '%7C')
      })
      for (const key of [texts.join('|'), rendered.join('|')]) {
        const text = await asked(`spelled/realtime?key=${encodeURIComponent(key)}`)
        everyRow.push(text)
        const [found] = rowsOf(text)
        assert.equal(found.id, row, key)
        for (const { column, values } of TRIED) {
          assert.ok(Object.is(found[column], values[row]?.[1] ?? null), `realtime: ${column} is ${found[column]}`)
        }
        assert.ok(text.includes(`"j":${DOCUMENTS[row]?.replace('\n', ' ')}`), text)
      }
    }
    assertDigits('realtime', everyRow.join('\n'))
  })

  it('works as a parameter of a query as it was told', async () => {
    // A float's shortest number is no double; bytes are told in base64.
    for (const { column, values } of TRIED.filter(({ type }) => !['float', 'binary'].includes(type))) {
      const conditions = values.flatMap((value, row) => (value === null ? [] : [{ row, told: value[1] }]))
      const sql = conditions.map((_, at) => `SELECT ${at} AS n, id FROM crm.spelled WHERE ${column} = $${at + 1}`)
      const params = conditions.map(({ told }) => told)
      const { status, body } = await dora.post('/api/v1/query', { sql: sql.join(' UNION ALL '), params })
      assert.equal(status, 200, `${column}: ${JSON.stringify(body)}`)
      for (const [at, { row, told }] of conditions.entries()) {
        assert.ok(
          body.rows.some(([n, id]: Json) => n === at && id === row),
          `${column} = ${told}`,
        )
      }
    }
  })
})
