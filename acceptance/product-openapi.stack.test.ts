/** The OpenAPI document of a product: that it is one, that answers are as it says, and that it says to each reader what he is shown. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Compile } from 'typebox/compile'
import { installed, runTool } from '../stack/cache.ts'
import { Client, type Json, manifests, ok } from './client.ts'
import { runSluice } from './sluice-command.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const VALIDATOR = '0.9.0'
const SCHEMATHESIS = '4.32.5'
const CONFIG = join(import.meta.dirname, 'schemathesis.toml')
const ROWS = 12

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: name, type: string, classification: pii.name, description: "</script><b> \\u202E *x*" }
  - { name: wage_hidden, type: integer, classification: pii.wage }
  - { name: born, type: date, classification: pii.birth }
  - { name: city, type: string, nullable: false }
  - { name: amount, type: "decimal(12,2)" }
  - { name: ratio, type: double }
  - { name: small, type: float }
  - { name: ok, type: boolean }
  - { name: seen_at, type: timestamptz, nullable: false }
  - { name: local_at, type: timestamp }
  - { name: mark, type: uuid }
  - { name: raw, type: binary }
  - { name: doc, type: json }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, city] }
  - type: realtime
    config: { key_template: "p:{id}", include_columns: [id, email, city, wage_hidden] }
  - type: timeseries
    config: { time_column: seen_at, continuous_aggregates: [{ interval: 1 day, columns: [amount] }] }
  - type: analytics
`
const HISTORY = `  - type: lookup
    config: { index_columns: [id], history_mode: type_2, tracked_columns: [city] }
  - type: analytics
`
/** Words of JSON Schema, and what every object of JavaScript has. */
const ODD_NAMES = [
  'properties',
  'type',
  'items',
  'required',
  'example',
  'anyOf',
  'ref',
  'toString',
  'constructor',
  'hasOwnProperty',
]
/** What a page or a generator could make something of. */
const SAID = '</script><img src=x onerror=alert(1)> ![x](https://x.test/y) \u202e "$ref": "#/x" \n---\n*/ '.padEnd(
  3900,
  'x',
)

let world: World
let folder = ''
let owner: Client
const clients = new Map<string, Client>()
const tokens = new Map<string, string>()

const PATH = '/api/v1/products/crm.people'
const DOCUMENT = `${PATH}/openapi.json`
const as = (user: string): Client => clients.get(user) as Client

before(async () => {
  // Of the runtime that is started here.
  process.env['SLUICE_MASKING__STRATEGIES__PII.WAGE'] = 'omit'
  process.env['SLUICE_MASKING__STRATEGIES__PII.NAME'] = 'redact'
  process.env['SLUICE_MASKING__STRATEGIES__PII.IDENTIFIER'] = 'hash'
  world = await openWorld()
  folder = await mkdtemp(join(tmpdir(), 'sluice-openapi-'))
  const [tenant, other] = world.tenants
  const odd = ODD_NAMES.map((name) => `"${name.replaceAll('"', '""')}" text DEFAULT 'v'`).join(', ')
  await world.source.query(`CREATE TABLE people (id bigint PRIMARY KEY, email text, name text, wage_hidden integer, born date, city text NOT NULL,
      amount numeric(12,2), ratio double precision, small real, ok boolean, seen_at timestamptz NOT NULL, local_at timestamp, mark uuid, raw bytea, doc json);
    INSERT INTO people SELECT i, 'e' || i, 'n' || i, 100 + i, '1990-01-01'::date + i, 'city ' || i % 3, i * 1.10,
      CASE WHEN i = 1 THEN 'NaN' ELSE i / 4.0 END, 0.1, i % 2 = 0, '2026-01-01T00:00Z'::timestamptz + make_interval(hours => i),
      '2026-01-01T00:00:00.5'::timestamp, gen_random_uuid(), '\\x0102', '{"$ref": "#/x"}' FROM generate_series(1, ${ROWS - 1}) i;
    INSERT INTO people (id, city, seen_at) VALUES (9007199254740993, 'far', '2026-02-01T00:00Z');
    CREATE TABLE odd (id integer PRIMARY KEY, ${odd}); INSERT INTO odd VALUES (1)`)
  await world.createTenant(tenant, 'enterprise')
  await world.createTenant(other)
  for (const [user, group, of] of [
    ['dora', 'svc-developers', tenant],
    ['vito', 'svc-viewers', tenant],
    ['vera', 'svc-viewers', tenant],
    ['clara', 'svc-viewers', tenant],
    ['sam', 'svc-viewers', tenant],
    ['noah', null, tenant],
    ['olga', 'svc-developers', other],
  ] as const) {
    const flags = ['--tenant', of, ...(group === null ? [] : ['--group', group]), '--user', user]
    tokens.set(user, await world.deployment.token(flags))
    clients.set(user, new Client(world.deployment.url, tokens.get(user) as string))
  }
  clients.set('anonymous', new Client(world.deployment.url, null))
  owner = as('dora')
  await connect(world, owner)
  await made('people', 'people', COLUMNS, ENDPOINTS, 'internal')
  await made('kept', 'people', COLUMNS, HISTORY, 'internal')
  await made('secret', 'people', COLUMNS, '  - type: lookup\n', 'confidential')
  const names = ODD_NAMES.map(
    (name) => `  - { name: ${JSON.stringify(name)}, type: string, description: ${JSON.stringify(SAID)} }\n`,
  ).join('')
  const oddColumns = `  - { name: id, type: integer, role: identity, nullable: false }\n${names}`
  await made('odd', 'odd', oddColumns, '  - type: lookup\n  - type: analytics\n', 'internal')
  await ok(owner.post('/api/v1/products', { name: 'draft', namespace: 'crm', archetype: 'source_aligned' }))
  const unmask = (user: string, classes: readonly string[], product: string) =>
    ok(owner.post(`/api/v1/products/crm.${product}/grants`, { subject: { user }, may: 'unmask', classes }))
  for (const product of ['people', 'kept']) {
    await unmask('clara', ['*'], product)
    await unmask('sam', ['pii.identifier'], product)
  }
  await syncNow(owner)
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

async function made(name: string, table: string, columns: string, endpoints: string, level: string): Promise<void> {
  await ok(owner.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }))
  const files = manifests(`public.${table}`, { columns, endpoints })
  const product = `${files.product.replace('name: people', `name: ${name}`)}classification: ${level}\n`
  const quality = 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n'
  await deployVersion(owner, `crm.${name}`, '1.0.0', { ...files, product, quality })
}

/** With what it refers to in its place, and closed: a member that no schema names is not as the document says. */
function closed(document: Json, node: Json): Json {
  if (Array.isArray(node)) return node.map((item) => closed(document, item))
  if (typeof node !== 'object' || node === null) return node
  if (typeof node.$ref === 'string') return closed(document, document.components.schemas[node.$ref.split('/').at(-1)])
  const made = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, closed(document, value)]))
  return made.type === 'object' && made.properties !== undefined ? { additionalProperties: false, ...made } : made
}

function faultsOf(document: Json, schema: Json, value: Json): readonly string[] {
  const errors = [...Compile(closed(document, schema)).Errors(value)]
  return errors.slice(0, 3).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

/** A request as the document has it; what it is answered is as the document says. */
async function answered(user: string, document: Json, path: string, query = ''): Promise<Json> {
  const { get } = document.paths[path]
  const { status, body } = await as(user).get(`${path}${query}`)
  const { schema } =
    get.responses[String(status)].content[status === 200 ? 'application/json' : 'application/problem+json']
  assert.deepEqual(
    faultsOf(document, schema, body),
    [],
    `${user} ${path}${query} ${JSON.stringify(body).slice(0, 500)}`,
  )
  assert.equal(status, 200, `${path}${query} ${JSON.stringify(body)}`)
  return body
}

const whole = (document: Json, name: string, rows: readonly Json[], what: string): void => {
  assert.ok(rows.length > 0, what)
  for (const row of rows) assert.deepEqual(faultsOf(document, document.components.schemas[name], row), [], what)
}

/** Of the first epoch, by the stream of changes. */
async function upserts(user: string): Promise<readonly Json[]> {
  const gone = new AbortController()
  const response = await as(user).begin(`${PATH}/changes?from=start`, {}, gone.signal)
  const rows: Json[] = []
  let text = ''
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString()
    if (text.includes('event: epoch')) break
  }
  gone.abort()
  for (const [, data = ''] of text.matchAll(/event: upsert\ndata: (.*)\n/g)) rows.push(JSON.parse(data))
  return rows
}

async function tool(name: string, wanted: string): Promise<string> {
  const environment = await installed(name, async (at) => {
    await runTool('python3', ['-m', 'venv', at])
    await runTool(join(at, 'bin/python'), ['-m', 'pip', 'install', '--quiet', wanted])
  })
  return join(environment, 'bin/python')
}

function run(program: string, words: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve) => {
    execFile(program, words, { cwd: folder, maxBuffer: 64 << 20 }, (error, out, err) =>
      resolve({ code: error === null ? 0 : 1, output: `${out}${err}` }),
    )
  })
}

describe('the document of a product', () => {
  it('is valid OpenAPI 3.1 for each reader, by a validator of somebody else', async () => {
    const python = await tool(`openapi-spec-validator-${VALIDATOR}`, `openapi-spec-validator==${VALIDATOR}`)
    const files: string[] = []
    for (const user of ['vito', 'clara', 'sam', 'dora']) {
      for (const product of ['people', 'kept', 'odd']) {
        const { status, text } = await as(user).text(`/api/v1/products/crm.${product}/openapi.json`)
        assert.equal(status, 200, text)
        files.push(`${user}-${product}.json`)
        await writeFile(join(folder, `${user}-${product}.json`), text)
      }
    }
    const { code, output } = await run(python, ['-m', 'openapi_spec_validator', '--schema', '3.1', ...files])
    assert.equal(code, 0, output)
  })

  it('says what reads answer, for who is shown all, some and masks', async () => {
    for (const user of ['vito', 'clara', 'sam', 'dora']) {
      const document = await ok(as(user).get(DOCUMENT))
      const read = await answered(user, document, `${PATH}/latest`, '?limit=100')
      whole(document, 'Row', read.data, `${user} latest`)
      const columns = document.paths[`${PATH}/latest`].get.parameters.find((one: Json) => one.name === 'columns')
      const asked = columns.schema.items.enum
      assert.deepEqual(Object.keys(read.data[0]), asked)
      await answered(user, document, `${PATH}/latest`, `?columns=${asked.join(',')}&filter=city:far`)
      await answered(user, document, `${PATH}/latest`, '?columns=id&filter=id.in:1,2')
      const range = await answered(user, document, `${PATH}/timeseries`, '?from=2026-01-01&to=2026-02-02')
      whole(document, 'Row', range.data, `${user} timeseries`)
      assert.equal(range.data.length, ROWS)
      const days = await answered(user, document, `${PATH}/timeseries`, '?interval=1%20day&limit=1')
      assert.ok(days.data[0].bucket)
      for (const id of ['1', '9007199254740993']) {
        const { data } = await answered(user, document, `${PATH}/realtime`, `?key=p:${id}`)
        whole(document, 'RealtimeRow', data, `${user} realtime`)
      }
      const items = [
        { product: 'crm.people', store: 'lookup', keys: [1, { id: '9007199254740993' }, 4711] },
        { product: 'crm.people', store: 'realtime', keys: [{ id: 1 }], columns: ['city'] },
      ]
      const { post } = document.paths['/api/v1/read']
      assert.deepEqual(faultsOf(document, post.requestBody.content['application/json'].schema, { items }), [])
      const many = await ok(as(user).post('/api/v1/read', { items }))
      assert.deepEqual(faultsOf(document, post.responses['200'].content['application/json'].schema, many), [], user)
      whole(document, 'Row', many.data[0].rows.slice(0, 2), `${user} keys`)
      const { text } = await as(user).text('/api/v1/query', {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/x-ndjson' },
        body: JSON.stringify({ sql: 'SELECT * FROM crm.people' }),
      })
      whole(
        document,
        'Row',
        text
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line)),
        `${user} query`,
      )
      whole(document, 'Row', await upserts(user), `${user} changes`)
      const kept = await ok(as(user).get('/api/v1/products/crm.kept/openapi.json'))
      const states = await answered(user, kept, '/api/v1/products/crm.kept/latest', '?history=true')
      whole(kept, 'LookupRow', states.data, `${user} history`)
    }
  })

  it('has an example of each request that the server takes', async () => {
    for (const product of ['people', 'odd']) {
      const document = await ok(as('vito').get(`/api/v1/products/crm.${product}/openapi.json`))
      for (const [path, methods] of Object.entries<Json>(document.paths)) {
        if (path.endsWith('/changes')) continue
        for (const [method, { parameters, requestBody }] of Object.entries<Json>(methods)) {
          const query = parameters.filter((one: Json) => one.in === 'query' && one.example !== undefined)
          const search = new URLSearchParams(
            query.flatMap(({ name, example }: Json) => [example].flat().map((v) => [name, v])),
          )
          const body = requestBody?.content['application/json'].example
          const answer = await (method === 'get' ? as('vito').get(`${path}?${search}`) : as('vito').post(path, body))
          assert.ok(
            answer.status === 200 || answer.body.code === 'key_not_found',
            `${path} ${JSON.stringify(answer.body)}`,
          )
        }
      }
    }
  })

  it('is refused in the form that it says', async () => {
    const document = await ok(as('vito').get(DOCUMENT))
    const { get } = document.paths[`${PATH}/latest`]
    const { status, body } = await as('vito').get(`${PATH}/latest?filter=email:x`)
    assert.deepEqual([status, body.code], [403, 'column_masked'])
    assert.ok(Compile(document.components.schemas.Problem).Check(body))
    assert.match(get.responses['403'].description, /`column_masked`/)
    assert.ok(document['x-error-codes'].column_masked.remedy)
  })

  it('is the same to the byte for who is shown the same, and names no column that a reader is not shown', async () => {
    const of = async (user: string) => (await as(user).text(DOCUMENT)).text
    const [vito, vera, clara, sam] = [await of('vito'), await of('vera'), await of('clara'), await of('sam')]
    assert.equal(vito, vera)
    assert.equal(new Set([vito, clara, sam]).size, 3)
    for (const text of [vito, sam]) assert.ok(!/wage_hidden|pii\.wage/.test(text))
    assert.ok(clara.includes('wage_hidden'))
    for (const text of [vito, vera, clara, sam])
      for (const user of ['vito', 'vera', 'clara', 'sam', 'dora', world.tenants[0]])
        assert.ok(!new RegExp(`\\b${user}\\b`).test(text), user)
    const kept = (await as('vito').text('/api/v1/products/crm.kept/openapi.json')).text
    assert.ok(!kept.includes('wage_hidden'))
    assert.ok(!/<\/|\u202e/.test(vito))
    const odd = await ok(as('vito').get('/api/v1/products/crm.odd/openapi.json'))
    assert.deepEqual(Object.keys(odd.components.schemas.Row.properties), ['id', ...ODD_NAMES])
  })

  it('has an ETag, which a grant makes another', async () => {
    const first = await as('vera').get(DOCUMENT)
    const etag = first.headers.get('etag') as string
    const again = await as('vera').text(DOCUMENT, { headers: { 'if-none-match': etag } })
    assert.deepEqual([again.status, again.text], [304, ''])
    assert.equal((await as('clara').get(DOCUMENT, { 'if-none-match': etag })).status, 200)
    const { id } = await ok(owner.post(`${PATH}/grants`, { subject: { user: 'vera' }, may: 'unmask', classes: ['*'] }))
    const { text } = await as('vera').text(DOCUMENT, { headers: { 'if-none-match': etag } })
    assert.equal(text, (await as('clara').text(DOCUMENT)).text)
    await owner.send(`${PATH}/grants/${id}`, { method: 'DELETE' })
    assert.equal((await as('vera').text(DOCUMENT, { headers: { 'if-none-match': etag } })).status, 304)
  })

  it('is for who may read the product', async () => {
    const told = async (user: string, product: string) => {
      const { status, body } = await as(user).get(`/api/v1/products/crm.${product}/openapi.json`)
      return [status, body.code]
    }
    assert.deepEqual(await told('olga', 'people'), [404, 'product_not_found'])
    assert.deepEqual(await told('vito', 'nothing'), [404, 'product_not_found'])
    assert.deepEqual(await told('vito', 'secret'), [403, 'product_forbidden'])
    assert.deepEqual(await told('dora', 'draft'), [409, 'not_deployed'])
    assert.equal((await told('noah', 'people'))[0], 403)
    assert.equal((await told('anonymous', 'people'))[0], 401)
  })

  it('has for a key what the key was made for', async () => {
    const idsOf = async (operations: readonly string[]) => {
      const asked = { name: operations.join('-'), operations, products: ['crm.people'] }
      const { token } = await ok(owner.post('/api/v1/application-keys', asked))
      const key = new Client(world.deployment.url, token)
      assert.equal((await key.get('/api/v1/products/crm.odd/openapi.json')).status, 404)
      const { paths } = await ok(key.get(DOCUMENT))
      return Object.values<Json>(paths).flatMap((one) => Object.values<Json>(one).map(({ operationId }) => operationId))
    }
    const reads = ['readLookup', 'readTimeseries', 'readRealtime', 'readKeys', 'followChanges']
    assert.deepEqual(await idsOf(['read']), reads)
    assert.deepEqual(await idsOf(['query']), ['query'])
  })

  it('comes by the command as it is', async () => {
    const { url } = world.deployment
    const token = tokens.get('vito') as string
    const { text } = await as('vito').text(DOCUMENT)
    const written = await runSluice(['product', 'openapi', 'crm.people', '--out', 'people.json'], {
      url,
      token,
      cwd: folder,
    })
    assert.equal(written.code, 0, written.err)
    assert.equal(await readFile(join(folder, 'people.json'), 'utf8'), text)
    const shown = await runSluice(['product', 'openapi', 'crm.people'], { url, token, cwd: folder })
    assert.deepEqual(JSON.parse(shown.out), JSON.parse(text))
    const refused = await runSluice(['product', 'openapi', 'crm.secret', '--out', 'no.json'], {
      url,
      token,
      cwd: folder,
    })
    assert.match(refused.err, /you may not read crm\.secret/)
    await assert.rejects(readFile(join(folder, 'no.json')))
  })

  it('holds against requests that are made up from it', async () => {
    const python = await tool(`schemathesis-${SCHEMATHESIS}`, `schemathesis==${SCHEMATHESIS}`)
    const sent = ['-H', `Authorization: Bearer ${tokens.get('vito')}`]
    const { code, output } = await run(python, [
      ...['-m', 'schemathesis.cli', '--config-file', CONFIG, 'run', `${world.deployment.url}${DOCUMENT}`, ...sent],
      // A stream ends only with its token; who asks for an epoch that does not come waits 20 seconds.
      ...['--checks', 'all', '--exclude-operation-id', 'followChanges', '--phases', 'examples,coverage,fuzzing'],
      ...['--max-time', '30', '--max-examples', '15', '--suppress-health-check', 'all', '--request-timeout', '90'],
      ...['--max-response-time', '90', '--seed', '1', '--warnings', 'off', '--continue-on-failure'],
    ])
    assert.equal(code, 0, output.slice(0, 20_000))
  })
})
