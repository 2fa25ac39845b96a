/** Sources that misbehave: values that cannot be carried, and a server that goes away while it is read. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { escapeKeyPart } from '@sluice/sdk'
import pg from 'pg'
import { Client, type Json, manifests } from './client.ts'
import { type Deployment, openDeployment } from './deployment.ts'

const tenant = `sources-${randomBytes(4).toString('hex')}`
const ROWS = 20_000

let deployment: Deployment
let admin: Client
let developer: Client
let source: pg.Client
let line: Line

before(async () => {
  deployment = await openDeployment()
  source = new pg.Client(deployment.source)
  await source.connect()
  line = await Line.open(deployment.source)
  admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  const flags = ['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora']
  developer = new Client(deployment.url, await deployment.token(flags))
  await admin.post('/api/v1/tenants', { slug: tenant, display_name: tenant, tier: 'standard' })
  await connection('db', line.port)
  await connection('odd', deployment.source.port)
})

after(async () => {
  await admin?.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
  await line?.close()
  await source?.end()
  await deployment?.stop()
})

/** The way to the source, which can be cut when so many bytes have come. */
class Line {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #bytes = 0
  #cutAfterBytes = Number.POSITIVE_INFINITY

  private constructor(server: Server) {
    this.#server = server
  }

  static async open(to: { readonly host: string; readonly port: number }): Promise<Line> {
    const server = createServer()
    const line = new Line(server)
    server.on('connection', (client) => line.#join(client, connect(to.port, to.host)))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return line
  }

  get port(): number {
    return (this.#server.address() as { readonly port: number }).port
  }

  /** From then on nobody gets through. */
  cutAfter(bytes: number): void {
    this.#bytes = 0
    this.#cutAfterBytes = bytes
  }

  mend(): void {
    this.#cutAfterBytes = Number.POSITIVE_INFINITY
  }

  get isCut(): boolean {
    return this.#bytes >= this.#cutAfterBytes
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #join(client: Socket, server: Socket): void {
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        this.#sockets.delete(one)
        other.destroy()
      })
    }
    client.pipe(server)
    server.pipe(client)
    server.on('data', (chunk) => {
      this.#bytes += chunk.length
      if (this.isCut) client.destroy()
    })
    if (this.isCut) client.destroy()
  }
}

async function connection(name: string, port: number): Promise<void> {
  const { host, user, password, database } = deployment.source
  const config_encrypted = JSON.stringify({ host, port, user, password, database, ssl_mode: 'disable' })
  const made = await developer.post('/api/v1/connections', { name, connector_type: 'postgresql', config_encrypted })
  assert.equal(made.status, 201, JSON.stringify(made.body))
}

async function deploy(
  name: string,
  from: string,
  table: string,
  columns: string,
  endpoints = '  - type: lookup\n  - type: analytics\n',
  { version = '1.0.0', mode = 'mode: full', transform = '' } = {},
): Promise<void> {
  await developer.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned' })
  const files = manifests(table, { columns, endpoints })
  const uploaded = await developer.upload(`/api/v1/products/${name}/manifests`, {
    ...files,
    product: files.product.replace('name: people', `name: ${name}`),
    inputs: files.inputs.replace('connection: db', `connection: ${from}`).replace('mode: full', mode),
    ...(transform === '' ? {} : { compute: `${files.compute}transform: ${JSON.stringify(transform)}\n` }),
  })
  assert.equal(uploaded.status, 200, JSON.stringify(uploaded.body))
  const deployed = await developer.post(`/api/v1/products/${name}/deploy`, { version, dry_run: false })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
}

async function sync(name: string): Promise<Json> {
  const { body } = await developer.post(`/api/v1/connections/${name}/sync`)
  return developer.untilEnded(body.id)
}

/** Until the run has said of its table why it could not be read. */
async function untilTold(runId: string): Promise<Json> {
  for (;;) {
    const { body } = await developer.get(`/api/v1/ingestion/${runId}`)
    if (body.tables.some((table: Json) => table.error !== null)) return body
    assert.ok(body.state === 'queued' || body.state === 'running', JSON.stringify(body))
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function sumOf(product: string): Promise<Json> {
  const { body } = await developer.post('/api/v1/query', { sql: `SELECT count(*), sum(n) FROM crm.${product}` })
  return body.rows?.[0].map(Number) ?? body
}

describe('a source that goes away while it is read', () => {
  it('is told with a cause and a remedy, takes nothing away, and is read whole by the same run when it is back', async () => {
    await source.query(`DROP TABLE IF EXISTS big; CREATE TABLE big (id integer PRIMARY KEY, n integer, pad text);
      INSERT INTO big SELECT i, 1, repeat('x', 200) FROM generate_series(1, ${ROWS}) i`)
    const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: n, type: long }
  - { name: pad, type: string }
`
    await deploy('big', 'db', 'public.big', columns)
    assert.equal((await sync('db')).state, 'succeeded')
    assert.deepEqual(await sumOf('big'), [ROWS, ROWS])
    await source.query('UPDATE big SET n = 2')
    line.cutAfter(1_000_000)
    const begun = await developer.post('/api/v1/connections/db/sync')
    const [table] = (await untilTold(begun.body.id)).tables
    assert.ok(line.isCut)
    assert.equal(table.state, 'failed')
    assert.match(table.error.message, /public.*big/)
    assert.match(table.error.remedy, /\w/)
    assert.ok(!JSON.stringify(table).includes(String(deployment.source.password)))
    assert.deepEqual(await sumOf('big'), [ROWS, ROWS])
    assert.equal((await developer.get('/api/v1/products/big/latest?filter=id:7')).body.data[0].n, 1)
    line.mend()
    const ended = await developer.untilEnded(begun.body.id)
    assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
    assert.ok(ended.attempt > 1)
    assert.deepEqual(await sumOf('big'), [ROWS, 2 * ROWS])
    assert.equal((await developer.get('/api/v1/products/big/latest?filter=id:7')).body.data[0].n, 2)
  })
})

describe('a source that says what no server would', () => {
  const lengthOf = (bytes: number) => [0, 0, 0, bytes]
  const messages: Readonly<Record<string, readonly number[]>> = {
    'a request for a login without a length': [82, ...lengthOf(0)],
    'a request for a login without its kind': [82, ...lengthOf(4)],
    'a key that is none': [82, ...lengthOf(8), 0, 0, 0, 0, 75, ...lengthOf(4)],
    'columns that are not there': [82, ...lengthOf(8), 0, 0, 0, 0, 84, ...lengthOf(6), 3, 232],
    'what is no message': [...Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')],
  }
  let said: readonly number[] = []
  const liar = createServer((line) => {
    line.on('error', () => {}).once('data', () => line.end(Buffer.from(said)))
  })

  before(async () => {
    await new Promise<void>((resolve) => liar.listen(0, '127.0.0.1', resolve))
    await connection('liar', (liar.address() as { readonly port: number }).port)
    await source.query('CREATE TABLE IF NOT EXISTS plain (id integer)')
  })

  after(() => void liar.close())

  it('fails its own calls with a remedy, and nobody else’s', async () => {
    for (const [name, bytes] of Object.entries(messages)) {
      said = bytes
      const tested = await developer.post('/api/v1/connections/liar/test')
      assert.deepEqual([tested.status, tested.body.ok], [200, false], `${name}: ${JSON.stringify(tested.body)}`)
      assert.match(tested.body.remedy, /\w/, name)
      const found = await developer.get('/api/v1/connections/liar/discover')
      assert.ok([422, 503].includes(found.status), `${name}: ${JSON.stringify(found.body)}`)
      assert.match(found.body.remedy, /\w/, name)
      const other = await developer.post('/api/v1/connections/odd/test')
      assert.equal(other.body.ok, true, `${name}: ${JSON.stringify(other.body)}`)
    }
  })
})

describe('names that nobody would choose', () => {
  const names = ['a"b', "a'b", 'a\nb', '\t', '\u0007', '\u001b[31m', '\u202egnp.exe', 'ä'.repeat(31), '{id}', '--']
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

  it('are told as they are, and the rows under them are read', async () => {
    await source.query(`DROP TABLE IF EXISTS named; CREATE TABLE named (id integer PRIMARY KEY, n integer);
      INSERT INTO named VALUES (1, 5); DROP TABLE IF EXISTS wide`)
    for (const name of names) {
      await source.query(`ALTER TABLE named ADD COLUMN ${quoted(name)} text DEFAULT 'x'`)
      await source.query(`DROP TABLE IF EXISTS ${quoted(name)}; CREATE TABLE ${quoted(name)} (id integer)`)
    }
    await source.query(`CREATE TABLE wide (${Array.from({ length: 1600 }, (_, at) => `c${at} integer`).join(', ')})`)
    const { body } = await developer.get('/api/v1/connections/odd/discover')
    const found = new Map<string, Json>(body.tables.map((table: Json) => [table.name, table]))
    for (const name of names) assert.ok(found.has(name), JSON.stringify(name))
    assert.deepEqual(
      found.get('named')?.columns.map((column: Json) => column.name),
      ['id', 'n', ...names],
    )
    assert.equal(found.get('wide')?.columns.length, 1600)
    await deploy(
      'named',
      'odd',
      'public.named',
      '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: n, type: long }\n',
    )
    assert.equal((await sync('odd')).state, 'succeeded')
    assert.deepEqual(await sumOf('named'), [1, 5])
    await source.query(`DROP TABLE ${[...names, 'wide'].map(quoted).join(', ')}`)
  })
})

describe('values of every type', () => {
  const types = {
    ...{ b: 'binary', ok: 'boolean', l: 'long', f: 'float', d: 'double', n: '"decimal(38,10)"', day: 'date' },
    ...{ at: 'timestamp', z: 'timestamptz', u: 'uuid', j: 'json', t: 'string' },
  }
  const names = ['id', ...Object.keys(types)]
  const expected: readonly Json[][] = [
    [
      1,
      'AP9ceA==',
      true,
      '9223372036854775807',
      'NaN',
      'Infinity',
      '9999999999999999999999999999.9999999999',
      '0001-01-01',
      '9999-12-31T23:59:59.999999',
      '1969-12-31T23:59:59.999999Z',
      'ffffffff-ffff-ffff-ffff-ffffffffffff',
      { a: [1, null, 'ä'] },
      'a\t"b",\n\\N',
    ],
    [
      2,
      '',
      false,
      '-9223372036854775808',
      1e-45,
      5e-324,
      '-0.0000000001',
      '9999-12-31',
      '0001-01-01T00:00:00.000000',
      '0001-01-01T00:00:00.000000Z',
      '00000000-0000-0000-0000-000000000000',
      [],
      '',
    ],
    [3, null, null, null, null, null, null, null, null, null, null, null, null],
    [
      4,
      null,
      null,
      null,
      '-Infinity',
      'NaN',
      null,
      null,
      '2026-01-01T00:00:00.000000',
      '9999-12-31T23:59:59.999999Z',
      null,
      null,
      null,
    ],
    [5, null, null, null, 'Infinity', '-Infinity', null, null, '2026-01-02T00:00:00.000000', null, null, null, null],
  ]
  const path = '/api/v1/products/crm.every'
  const rowsIn = ({ body }: Json): Json[][] =>
    body.data?.map((row: Json) => names.map((name) => row[name])).toSorted((a: Json[], b: Json[]) => a[0] - b[0]) ??
    body

  before(async () => {
    await source.query(`DROP TABLE IF EXISTS every; CREATE TABLE every (id integer PRIMARY KEY, b bytea, ok boolean, l bigint,
        f real, d double precision, n numeric(38,10), day date, at timestamp, z timestamptz, u uuid, j jsonb, t text);
      INSERT INTO every VALUES
        (1, '\\x00ff5c78', true, 9223372036854775807, 'NaN', 'Infinity', 9999999999999999999999999999.9999999999,
          '0001-01-01', '9999-12-31 23:59:59.999999', '1969-12-31 23:59:59.999999+00',
          'ffffffff-ffff-ffff-ffff-ffffffffffff', '{"a": [1, null, "ä"]}', E'a\\t"b",\\n\\\\N'),
        (2, '\\x', false, -9223372036854775808, 1e-45, 5e-324, -0.0000000001, '9999-12-31', '0001-01-01', '0001-01-01 00:00:00+00',
          '00000000-0000-0000-0000-000000000000', '[]', ''),
        (3, null, null, null, null, null, null, null, null, null, null, null, null),
        (4, null, null, null, '-Infinity', 'NaN', null, null, '2026-01-01', '9999-12-31 23:59:59.999999+00', null, null, null),
        (5, null, null, null, 'Infinity', '-Infinity', null, null, '2026-01-02', null, null, null, null)`)
    const columns = Object.entries(types).map(([name, type]) => `  - { name: ${name}, type: ${type} }\n`)
    await deploy(
      'every',
      'odd',
      'public.every',
      `  - { name: id, type: integer, role: identity, nullable: false }\n${columns.join('')}`,
      `  - type: lookup
    config: { index_columns: [id, ok, l, f, d, n, day, at, z, u, t] }
  - type: analytics
  - type: timeseries
    config: { time_column: at, continuous_aggregates: [{ interval: 1 day, columns: [f, d, n] }] }
  - type: realtime
    config: { key_template: "every-{id}" }
`,
    )
    assert.equal((await sync('odd')).state, 'succeeded')
  })

  it('arrive as they are in the source, whatever path they are read by', async () => {
    const sql = 'SELECT * FROM crm.every ORDER BY id'
    const queried = await developer.post('/api/v1/query', { sql })
    assert.deepEqual(queried.body.rows, expected)
    const { body: lines } = await developer.post('/api/v1/query', { sql }, { accept: 'application/x-ndjson' })
    const found = lines
      .trimEnd()
      .split('\n')
      .map((line: string) => Object.values(JSON.parse(line)))
    assert.deepEqual(found, expected)
    const { body: csv } = await developer.post(
      '/api/v1/query',
      { sql: 'SELECT f, d FROM crm.every ORDER BY id' },
      { accept: 'text/csv' },
    )
    assert.deepEqual(csv.trimEnd().split('\n').slice(1), [
      'NaN,Infinity',
      '1e-45,5e-324',
      ',',
      '-Infinity,NaN',
      'Infinity,-Infinity',
    ])
    assert.deepEqual(rowsIn(await developer.get(`${path}/latest`)), expected)
    for (const row of expected) {
      assert.deepEqual(rowsIn(await developer.get(`${path}/realtime?key=every-${row[0]}`)), [row])
    }
  })

  it('are found by the words that answers spell them in', async () => {
    for (const [at, name] of names.entries()) {
      if (name === 'b' || name === 'j') continue
      for (const row of expected.filter((one) => one[at] !== null)) {
        const filter = encodeURIComponent(`${name}:${row[at]}`)
        const { body } = await developer.get(`${path}/latest?columns=id&filter=${filter}`)
        assert.deepEqual(body.data, [{ id: row[0] }], JSON.stringify([name, row[at], body]))
      }
    }
    const none = [
      'f:nan',
      'f:1e39',
      'n:NaN',
      'day:infinity',
      'day:10000-01-01',
      'day:0044-03-15 BC',
      'at:infinity',
      'z:-infinity',
    ]
    for (const filter of none) {
      const { status, body } = await developer.get(`${path}/latest?filter=${encodeURIComponent(filter)}`)
      assert.deepEqual([status, body.code], [400, 'invalid_value'], filter)
    }
  })

  it('without a time are not in a timeseries, which has all others and says how many it lacks', async () => {
    const told = async () => {
      const { body } = await developer.get(path)
      return body.endpoints.map(({ type, state, rows_left_out }: Json) => [type, state, rows_left_out])
    }
    const others = [
      ['lookup', 'ok', 0],
      ['analytics', 'ok', 0],
    ]
    assert.deepEqual(await told(), [...others, ['timeseries', 'ok', 1], ['realtime', 'ok', 0]])
    assert.deepEqual(
      rowsIn(await developer.get(`${path}/timeseries`)),
      expected.filter(([id]) => id !== 3),
    )
    const { body } = await developer.get(`${path}/timeseries?interval=1%20day`)
    assert.deepEqual(
      body.data.map((row: Json) => [row.bucket.slice(0, 10), row.f_sum, row.d_max]),
      [
        ['0001-01-01', 1.401298464324817e-45, 5e-324],
        ['2026-01-01', '-Infinity', 'NaN'],
        ['2026-01-02', 'Infinity', '-Infinity'],
        ['9999-12-31', 'NaN', 'Infinity'],
      ],
    )
    await source.query("UPDATE every SET at = NULL WHERE id IN (1, 5); UPDATE every SET at = '2026-01-03' WHERE id = 3")
    assert.equal((await sync('odd')).state, 'succeeded')
    assert.deepEqual(await told(), [...others, ['timeseries', 'ok', 2], ['realtime', 'ok', 0]])
    const ids = rowsIn(await developer.get(`${path}/timeseries`)).map(([id]) => id)
    assert.deepEqual(ids, [2, 3, 4])
    const days = (await developer.get(`${path}/timeseries?interval=1%20day`)).body.data
    assert.deepEqual(
      days.map((row: Json) => row.bucket.slice(0, 10)),
      ['0001-01-01', '2026-01-01', '2026-01-03'],
    )
  })
})

describe('texts of every character', () => {
  const characters = Array.from({ length: 0x2fe }, (_, index) => `${String.fromCharCode(index + 1)}`)
  const texts = [
    ...characters,
    '',
    'No. #1',
    '%23',
    'a:b',
    '\u2028',
    '\ufeff',
    '😀é',
    'NULL',
    '\\N',
    ' x ',
    "'; --",
    '{id}',
  ]
  const sorted = texts.toSorted()

  it('are the same on every path', async () => {
    await source.query(
      'DROP TABLE IF EXISTS signs; CREATE TABLE signs (id text PRIMARY KEY, n integer, at timestamptz NOT NULL)',
    )
    await source.query(
      `INSERT INTO signs SELECT id, n, timestamptz '2026-01-01Z' + n * interval '1 second'
       FROM unnest($1::text[]) WITH ORDINALITY AS one(id, n)`,
      [texts],
    )
    const columns = [
      'id, type: string, role: identity, nullable: false',
      'n, type: integer',
      'at, type: timestamptz, nullable: false',
    ]
    const endpoints = [
      'lookup',
      'analytics',
      'timeseries\n    config: { time_column: at, chunk_interval: 1 day }',
      'realtime\n    config: { key_template: "sign-{id}-" }',
    ]
    await deploy(
      'signs',
      'odd',
      'public.signs',
      columns.map((column) => `  - { name: ${column} }\n`).join(''),
      endpoints.map((endpoint) => `  - type: ${endpoint}\n`).join(''),
    )
    const run = await sync('odd')
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    const path = '/api/v1/products/crm.signs'
    const [looked, timed] = [`${path}/latest`, `${path}/timeseries?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z`]
    assert.deepEqual((await allOf(looked)).toSorted(), sorted)
    assert.deepEqual((await allOf(timed)).toSorted(), sorted)
    const sql = 'SELECT id FROM crm.signs'
    const queried = await developer.post('/api/v1/query', { sql })
    assert.deepEqual(queried.body.rows.flat().toSorted(), sorted)
    const lines = await developer.post('/api/v1/query', { sql }, { accept: 'application/x-ndjson' })
    assert.deepEqual(
      (lines.body as string)
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).id)
        .toSorted(),
      sorted,
    )
    for (const text of texts) {
      const key = encodeURIComponent(`sign-${escapeKeyPart(text)}-`)
      const { body } = await developer.get(`${path}/realtime?key=${key}`)
      assert.equal(body.data?.[0]?.id ?? body.data?.id, text, JSON.stringify([key, body]))
      const one = await developer.get(`${path}/latest?filter=${encodeURIComponent(`id:${text}`)}`)
      assert.deepEqual(
        one.body.data?.map(({ id }: Json) => id),
        [text],
        JSON.stringify([text, one.body]),
      )
    }
    for (const text of ['No. #1', "'; --", 'a:b', ' x ']) {
      const asked = await developer.post('/api/v1/query', { sql: `${sql} WHERE id = $1`, params: [text] })
      assert.deepEqual(asked.body.rows, [[text]], JSON.stringify(asked.body))
    }
  })

  async function allOf(path: string): Promise<readonly string[]> {
    const found: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const after: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
      const { body } = await developer.get(`${path}${path.includes('?') ? '&' : '?'}limit=300${after}`)
      found.push(...body.data.map(({ id }: Json) => id))
      cursor = body.next_cursor
    }
    return found
  }
})

describe('a product with the longest name that there may be', () => {
  it('has all its copies, in the lake and in the stores', async () => {
    await source.query(`DROP TABLE IF EXISTS long_named; CREATE TABLE long_named (id integer PRIMARY KEY, email text);
      INSERT INTO long_named VALUES (1, 'a@example.com')`)
    const name = 'n'.repeat(200)
    await deploy(
      name,
      'odd',
      'public.long_named',
      '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: email, type: string, classification: pii.identifier }\n',
    )
    const run = await sync('odd')
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    const read = await developer.get(`/api/v1/products/${name}/latest`)
    assert.equal(read.body.data?.length, 1, JSON.stringify(read.body))
    assert.ok(!JSON.stringify(read.body.data).includes('@'))
    const queried = await developer.post('/api/v1/query', { sql: `SELECT id FROM crm.${name}` })
    assert.deepEqual(queried.body.rows, [[1]], JSON.stringify(queried.body))
  })
})

const BY_TIME = 'mode: incremental, cursor_column: at'

describe('values that no type here can hold', () => {
  it('are counted and named by column, and the other rows are there', async () => {
    await source.query(`DROP TABLE IF EXISTS odd; CREATE TABLE odd (id integer PRIMARY KEY, n numeric, d date, t text,
      at timestamptz NOT NULL DEFAULT now());
      INSERT INTO odd VALUES (1, 1, '2026-01-01', E'quo"te,\\n\\\\N'), (2, 'NaN', null, null), (3, 3, 'infinity', null),
        (4, ('1' || repeat('0', 999))::numeric, null, null), (5, null, '0044-03-15 BC', null), (6, 6, null, repeat('x', 1000000))`)
    const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: n, type: "decimal(38,9)" }
  - { name: t, type: string }
`
    await deploy('odd', 'odd', 'public.odd', columns, '  - type: analytics\n', { mode: BY_TIME })
    const run = await sync('odd')
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    const table = run.tables.find(({ name }: Json) => name === 'public.odd')
    const kept = await developer.post('/api/v1/query', { sql: 'SELECT id, length(t) FROM crm.odd ORDER BY id' })
    const ids: readonly number[] = kept.body.rows.map((row: Json) => row[0])
    assert.deepEqual(ids, [1, 3, 5, 6], 'a column that the product has not costs no row')
    assert.deepEqual([table.rows_read, table.rows_written, table.rows_rejected], [6, 6, 0])
    const warnings = run.log.filter((entry: Json) => entry.level === 'warn').map((entry: Json) => entry.message)
    for (const name of ['n', 'd']) {
      const line = `public.odd: 2 rows came without ${name}, and are left out of products that use it`
      assert.ok(warnings.includes(line), JSON.stringify(warnings))
    }
    const { body } = await developer.get('/api/v1/connections/odd/quarantine?table=public.odd')
    const nines = `1${'0'.repeat(999)}`
    assert.deepEqual(
      body.data.map(({ column, key, raw, carried }: Json) => [column, key, raw, carried]).toSorted(byKey),
      [
        ['n', { id: '2' }, 'NaN', true],
        ['d', { id: '3' }, 'infinity', true],
        ['n', { id: '4' }, nines, true],
        ['d', { id: '5' }, '0044-03-15 BC', true],
      ],
    )
    assert.ok(body.data.every((row: Json) => row.run_id === run.id && row.table === 'public.odd' && row.reason !== ''))
    assert.equal((await developer.get('/api/v1/connections/odd/quarantine?limit=1')).body.data.length, 1)
    const { quality } = (await developer.get('/api/v1/products/crm.odd')).body
    const carried = quality.checks.find(({ name }: Json) => name === 'rows_carried')
    assert.deepEqual([carried.passed, carried.violations, carried.dimension], [false, 10, 'completeness'])
    assert.equal(quality.by_dimension.completeness, 28.57)
    assert.ok(quality.score > 28 && quality.score < 100, JSON.stringify(quality))
  })
})

function byKey(a: Json[], b: Json[]): number {
  return Number(a[1]?.id) - Number(b[1]?.id)
}

describe('a column that a product has from now on', () => {
  it('costs the product the rows whose value cannot be carried, at once, and is not read as null', async () => {
    const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: d, type: date }
`
    const raw = await developer.post('/api/v1/query', { sql: 'SELECT id, d FROM raw_odd.odd ORDER BY id' })
    assert.deepEqual(
      raw.body.rows,
      [1, 2, 3, 4, 5, 6].map((id) => [id, id === 1 ? '2026-01-01' : null]),
    )
    assert.deepEqual(raw.body.meta.columns_without_values, { 'raw_odd.odd': ['d', 'n'] }, 'null is not what it has')
    for (const accept of ['text/csv', 'application/x-ndjson', 'application/vnd.apache.parquet']) {
      const told = async (sql: string) =>
        (await developer.post('/api/v1/query', { sql }, { accept })).headers.get('columns-without-values')
      assert.deepEqual(
        JSON.parse((await told('SELECT id FROM raw_odd.odd')) ?? ''),
        { 'raw_odd.odd': ['d', 'n'] },
        accept,
      )
      assert.equal(await told('SELECT id FROM crm.odd'), null, 'a product has no such values')
    }
    await deploy('odd', 'odd', 'public.odd', columns, '  - type: analytics\n', {
      version: '2.0.0',
      mode: BY_TIME,
    })
    const ids = async () =>
      (await developer.post('/api/v1/query', { sql: 'SELECT id FROM crm.odd ORDER BY id' })).body.rows.flat()
    const made = await developer.post('/api/v1/products/crm.odd/materialize', {})
    assert.equal((await developer.untilEnded(made.body.id)).state, 'succeeded', 'of the table as it was read')
    assert.deepEqual(await ids(), [1, 2, 4, 6])
    assert.equal((await sync('odd')).state, 'succeeded')
    assert.deepEqual(await ids(), [1, 2, 4, 6])
  })

  it('costs them no more when nobody uses it again, though nothing has changed in the source', async () => {
    const columns = '  - { name: id, type: integer, role: identity, nullable: false }\n'
    await deploy('odd', 'odd', 'public.odd', columns, '  - type: analytics\n', {
      version: '3.0.0',
      mode: BY_TIME,
    })
    const run = await sync('odd')
    const { body } = await developer.post('/api/v1/query', { sql: 'SELECT id FROM crm.odd ORDER BY id' })
    assert.deepEqual([run.state, body.rows.flat()], ['succeeded', [1, 2, 3, 4, 5, 6]])
    const { quality } = (await developer.get('/api/v1/products/crm.odd')).body
    assert.equal(
      quality.checks.find(({ name }: Json) => name === 'rows_carried'),
      undefined,
    )
    const raw = await developer.post('/api/v1/query', { sql: 'SELECT count(*) FROM raw_odd.odd' })
    assert.deepEqual(raw.body.meta.columns_without_values, { 'raw_odd.odd': ['d', 'n'] })
  })

  it('costs rows of that product, and of no other of the table', async () => {
    const columns = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: d, type: date }
`
    await deploy('odd_dates', 'odd', 'public.odd', columns, '  - type: analytics\n', { mode: BY_TIME })
    assert.equal((await sync('odd')).state, 'succeeded')
    const whole = [1, 2, 3, 4, 5, 6]
    for (const [name, has] of [
      ['odd', whole],
      ['odd_dates', [1, 2, 4, 6]],
    ] as const) {
      const { body } = await developer.post('/api/v1/query', { sql: `SELECT id FROM crm.${name} ORDER BY id` })
      assert.deepEqual(body.rows.flat(), has, name)
      const { quality } = (await developer.get(`/api/v1/products/crm.${name}`)).body
      const isTold = quality.checks.some(({ name: check }: Json) => check === 'rows_carried')
      assert.equal(isTold, has !== whole, name)
    }
  })
})

describe('dates that a transform makes', () => {
  it('are of the calendar, or nothing is published and the columns are named', async () => {
    await source.query(
      'DROP TABLE IF EXISTS far; CREATE TABLE far (id integer PRIMARY KEY); INSERT INTO far VALUES (1)',
    )
    const texts = ['infinity', '-infinity', '0001-12-31 (BC)', '10000-01-01']
    const wrong = ['date', 'timestamp', 'timestamptz'].flatMap((type) =>
      texts.map((text, index) => ({ name: `${type}_${index}`, type, value: `'${text}'::${type}` })),
    )
    const fine = [
      { name: 'first', type: 'date', value: "'0001-01-01'::date" },
      { name: 'last', type: 'timestamptz', value: "'9999-12-31 23:59:59.999999+00'::timestamptz" },
    ]
    const all = [...fine, ...wrong]
    const columns = [
      'id, type: integer, role: identity, nullable: false',
      ...all.map(({ name, type }) => `${name}, type: ${type}`),
    ]
    const transform = `SELECT id, ${all.map(({ name, value }) => `${value} AS ${name}`).join(', ')} FROM source`
    const schema = columns.map((column) => `  - { name: ${column} }\n`).join('')
    await deploy('far', 'odd', 'public.far', schema, '  - type: lookup\n', { transform })
    const run = await sync('odd')
    const { reason } = run.products.find(({ name }: Json) => name === 'crm.far')
    assert.deepEqual([run.state, reason?.code], ['failed', 'date_out_of_range'])
    const named = /for (.*) that are/.exec(reason.message)?.[1]?.split(', ')
    assert.deepEqual(
      named,
      wrong.map(({ name }) => name),
    )
    assert.equal((await developer.get('/api/v1/products/crm.far/latest')).body.code, 'not_materialized')
    assert.equal((await developer.send('/api/v1/products/crm.far', { method: 'DELETE' })).status, 204)
  })
})

describe('a row that can be carried no longer', () => {
  it('goes from the product that uses the value, however the table is read', async () => {
    await source.query(`DROP TABLE IF EXISTS fading;
      CREATE TABLE fading (id integer PRIMARY KEY, n numeric(9,2), at timestamptz NOT NULL DEFAULT now());
      INSERT INTO fading VALUES (1, 1), (2, 2), (3, 3)`)
    const columns =
      '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: n, type: "decimal(9,2)" }\n'
    const endpoints = '  - type: analytics\n'
    const incremental = { mode: BY_TIME }
    await deploy('fading', 'odd', 'public.fading', columns, endpoints, incremental)
    assert.equal((await sync('odd')).state, 'succeeded')
    await source.query(`UPDATE fading SET n = 'NaN', at = now() WHERE id = 2;
      UPDATE fading SET n = 30, at = now() WHERE id = 3; INSERT INTO fading VALUES (4, 'NaN'), (5, 5)`)
    const run = await sync('odd')
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
    const table = run.tables.find(({ name }: Json) => name === 'public.fading')
    assert.deepEqual([table.mode, table.rows_read - table.rows_written], ['incremental', 0])
    const warned = run.log.filter(({ level, message }: Json) => level === 'warn' && message.includes('fading'))
    assert.deepEqual(
      warned.map(({ message }: Json) => message),
      ['public.fading: 2 rows came without n, and are left out of products that use it'],
    )
    assert.deepEqual(await rowsOf('fading'), [
      [1, '1.00'],
      [3, '30.00'],
      [5, '5.00'],
    ])
    await deploy('fading', 'odd', 'public.fading', columns, endpoints, { version: '1.1.0' })
    assert.equal((await sync('odd')).state, 'succeeded')
    assert.deepEqual(
      (await rowsOf('fading')).map(([id]) => id),
      [1, 3, 5],
    )
  })
})

async function rowsOf(product: string): Promise<readonly Json[]> {
  const { body } = await developer.post('/api/v1/query', { sql: `SELECT id, n FROM crm.${product} ORDER BY id` })
  return body.rows ?? body
}
