/**
 * No input makes a server error: what a caller could write in the path, the query, the headers and the body of every
 * route, half of it fitting the document and half of it hostile, and in the texts that have a language of their own.
 * Schemathesis, beside this, holds answers against the document; it neither writes SQL, keys and filters, nor knows the
 * catalog's routes.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { type Client, type Json, manifests } from './client.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

const PER_OPERATION = 12
const PER_LANGUAGE = 120
const SEED = 7
/** Streams that last, and what would end the tenant that the others are tried in. */
const LEFT_OUT = ['followEvents', 'followChanges', 'deleteTenant']

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: day, type: date, role: time, nullable: false }
  - { name: at, type: timestamptz }
  - { name: amount, type: "decimal(12,2)" }
  - { name: ratio, type: double }
  - { name: city, type: string }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, day, at, amount, ratio, city] }
  - type: timeseries
    config: { time_column: day, continuous_aggregates: [] }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`

let world: World
let developer: Client
let viewer: Client
let operations: readonly Operation[]

interface Operation {
  readonly method: string
  readonly path: string
  readonly id: string
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly schema: Json }[]
  readonly body: Json | null
}

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`DROP TABLE IF EXISTS any_people;
    CREATE TABLE any_people (id integer PRIMARY KEY, day date, at timestamptz, amount numeric(12,2), ratio float8, city text);
    INSERT INTO any_people SELECT i, '2026-03-01'::date + i, now(), i, i / 3.0, 'city ' || i FROM generate_series(1, 30) i`)
  await world.createTenant(tenant, 'enterprise')
  developer = await world.as(tenant, 'svc-developers', 'dora')
  viewer = await world.as(tenant, 'svc-viewers', 'vito')
  await onboardPeople(world, developer, manifests('public.any_people', { columns: COLUMNS, endpoints: ENDPOINTS }))
  const { body } = await developer.get('/openapi.json')
  operations = Object.entries(body.paths as Json).flatMap(([path, methods]) =>
    Object.entries(methods as Json).map(([method, one]) => ({
      method: method.toUpperCase(),
      path,
      id: (one as Json).operationId,
      parameters: (one as Json).parameters ?? [],
      body: (one as Json).requestBody?.content?.['application/json']?.schema ?? null,
    })),
  )
})

after(() => world?.close())

const NASTY = [
  '',
  ' ',
  '.',
  '..',
  '%',
  '%00',
  '\u0000',
  '\ud800',
  '\u202e',
  '\ufeff',
  '\r\n',
  '/',
  '\\',
  "'",
  '"',
  "' OR 1=1 --",
  '-1',
  '0',
  '1e400',
  '-0',
  'NaN',
  'Infinity',
  '9223372036854775808',
  '99999999999999999999999999999999999999999',
  '9999-12-31',
  '10000-01-01',
  '-4713-01-01',
  '0000-00-00',
  '2026-02-30',
  '9999-12-31T23:59:59.999999999Z',
  '294276-12-31',
  'null',
  '[]',
  '{}',
  '__proto__',
  'constructor',
  'people',
  'crm.people',
  'db',
  'x'.repeat(600),
  '\u{1f600}'.repeat(40),
] as const

const text = fc.oneof(fc.constantFrom(...NASTY), fc.string({ maxLength: 20, unit: 'binary' }))

/** What a schema takes, or nearly: each part is now and then something else. */
function fitting(schema: Json, document: Json, depth = 0): fc.Arbitrary<unknown> {
  const other = fc.oneof(text, fc.double(), fc.constantFrom(null, true, [], {}, 2 ** 53, -(2 ** 31) - 1, '1e400'))
  return fc.oneof({ weight: 4, arbitrary: exactly(schema, document, depth) }, { weight: 1, arbitrary: other })
}

function exactly(schema: Json, document: Json, depth: number): fc.Arbitrary<unknown> {
  if (schema === undefined || depth > 5) return text
  if (schema.$ref !== undefined) {
    return exactly(document.components.schemas[String(schema.$ref).split('/').at(-1) as string], document, depth + 1)
  }
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (schema.anyOf !== undefined) {
    return fc.oneof(...schema.anyOf.map((one: Json) => exactly(one, document, depth + 1)))
  }
  switch (schema.type) {
    case 'object': {
      const entries = Object.entries(schema.properties ?? {}).map(
        ([name, one]) => [name, fitting(one, document, depth + 1)] as const,
      )
      const required = (schema.required ?? []) as string[]
      return entries.length === 0
        ? fc.dictionary(text, text, { maxKeys: 3 })
        : fc.record(Object.fromEntries(entries), { requiredKeys: required })
    }
    case 'array':
      return fc.array(fitting(schema.items, document, depth + 1), { maxLength: 3 })
    case 'integer':
      return fc.oneof(
        fc.integer({ min: schema.minimum ?? -5, max: Math.max(schema.minimum ?? -5, schema.maximum ?? 1000) }),
        fc.constantFrom(schema.minimum ?? 0, schema.maximum ?? 2 ** 53),
      )
    case 'number':
      return fc.double({ noNaN: true })
    case 'boolean':
      return fc.boolean()
    default:
      return text
  }
}

const HEADERS = [
  'accept',
  'x-tenant-id',
  'idempotency-key',
  'if-none-match',
  'traceparent',
  'last-event-id',
  'content-type',
]

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

function requests(operation: Operation, document: Json): fc.Arbitrary<Sent> {
  const of = (place: string) => operation.parameters.filter((one) => one.in === place)
  const params = fc.tuple(...of('path').map(({ name }) => text.map((value) => [name, value] as const)))
  const query = fc.tuple(
    ...of('query').map(({ name, schema }) =>
      fc.option(fitting(schema, document)).map((value) => [name, value] as const),
    ),
  )
  const headers = fc.dictionary(fc.constantFrom(...HEADERS), fc.string({ maxLength: 30 }), { maxKeys: 2 })
  const body = operation.body === null ? fc.constant(undefined) : fitting(operation.body, document)
  return fc.record({ params, query, headers, body }).map(({ params, query, headers, body }) => {
    const path = params.reduce((whole, [name, value]) => whole.replace(`{${name}}`, encoded(value)), operation.path)
    const search = query
      .flatMap(([name, value]) => (value === null ? [] : [value].flat().map((one) => `${name}=${encoded(plain(one))}`)))
      .join('&')
    const json = body === undefined ? {} : { 'content-type': 'application/json' }
    return {
      method: operation.method,
      path: search === '' ? path : `${path}?${search}`,
      headers: { ...json, ...Object.fromEntries(Object.entries(headers).filter(([, value]) => isHeader(value))) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }
  })
}

const plain = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
const isHeader = (value: string): boolean => /^[\t\x20-\x7e]*$/.test(value)
/** Lone surrogates have no encoding; they go as bytes that are none either. */
const encoded = (value: string): string => (value.isWellFormed() ? encodeURIComponent(value) : '%ED%A0%80')

async function harmless(client: Client, sent: Sent): Promise<void> {
  const { method, path, headers, body } = sent
  const answer = await client.send(path, { method, headers, ...(body === undefined ? {} : { body }) })
  assert.ok(answer.status < 500, `${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`)
}

/** Prints what was sent, as small as it still fails. */
async function neverFails(client: Client, sent: fc.Arbitrary<Sent>, numRuns: number): Promise<string | null> {
  const details = await fc.check(
    fc.asyncProperty(sent, (one) => harmless(client, one)),
    { numRuns, seed: SEED, endOnFailure: true },
  )
  if (!details.failed) return null
  return `${JSON.stringify(details.counterexample?.[0])} → ${(details.errorInstance as Error | null)?.message}`
}

async function failuresOf(cases: readonly (readonly [Client, fc.Arbitrary<Sent>, number])[]): Promise<string[]> {
  const failures: string[] = []
  for (const [client, sent, count] of cases) {
    const failure = await neverFails(client, sent, count)
    if (failure !== null) failures.push(failure)
  }
  return failures
}

describe('no input makes a server error', () => {
  it('of any operation of the document', async () => {
    const { body: document } = await developer.get('/openapi.json')
    const tried = operations.filter(({ id }) => !LEFT_OUT.includes(id))
    assert.ok(tried.length > 40)
    const cases = tried.map((one) => [developer, requests(one, document), PER_OPERATION] as const)
    assert.deepEqual(await failuresOf(cases), [])
  })

  it('of the catalog that the document leaves out', async () => {
    const at = fc.constantFrom(
      'namespaces',
      'namespaces/sandbox',
      'namespaces/sandbox/tables',
      'namespaces/sandbox/tables/t',
      'namespaces/crm/tables/people',
      'tables/rename',
      'transactions/commit',
      'namespaces/sandbox/tables/t/metrics',
      'views',
    )
    const json = fc.oneof(
      fc.json({ maxDepth: 3 }),
      fc
        .record({
          namespace: fc.array(text, { maxLength: 2 }),
          name: text,
          schema: fc.object(),
          properties: fc.object(),
        })
        .map((one) => JSON.stringify(one)),
      fc
        .record({
          requirements: fc.array(fc.object()),
          updates: fc.array(fc.record({ action: text, 'schema-id': fc.double() })),
        })
        .map((one) => JSON.stringify(one)),
    )
    const [tenant] = world.tenants
    const sent = fc
      .record({
        method: fc.constantFrom('GET', 'HEAD', 'POST', 'DELETE'),
        prefix: fc.constantFrom(tenant, '%00', 'x'),
        at,
        tail: text,
        json,
      })
      .map(
        ({ method, prefix, at: place, tail, json: body }): Sent => ({
          method,
          path: `/iceberg/v1/${prefix}/${place}${method === 'GET' ? `?pageToken=${encoded(tail)}` : ''}`,
          headers: { 'content-type': 'application/json' },
          ...(method === 'POST' ? { body } : {}),
        }),
      )
    assert.deepEqual(await failuresOf([[developer, sent, PER_LANGUAGE]]), [])
  })

  it('of messages of agents', async () => {
    const message = { jsonrpc: '2.0', id: 1 }
    const listed = await viewer.post('/mcp', { ...message, method: 'tools/list' })
    const cases = (listed.body.result.tools as readonly Json[]).map(({ name, inputSchema }) => {
      const sent = fitting(inputSchema, {}).map((given): Sent => {
        const body = JSON.stringify({ ...message, method: 'tools/call', params: { name, arguments: given } })
        return { method: 'POST', path: '/mcp', headers: { 'content-type': 'application/json' }, body }
      })
      return [developer, sent, PER_OPERATION] as const
    })
    assert.equal(cases.length, 6)
    const method = fc.oneof(fc.constantFrom('initialize', 'tools/call', 'tools/list', 'ping'), text)
    const other = fc.record({ jsonrpc: fc.constantFrom('2.0', '1.0'), id: fc.json(), method, params: fc.object() }).map(
      (one): Sent => ({
        method: 'POST',
        path: '/mcp',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(one),
      }),
    )
    assert.deepEqual(await failuresOf([...cases, [viewer, other, PER_LANGUAGE]]), [])
  })

  it('of texts with a language: keys, filters, times, orders, SQL', async () => {
    const column = fc.constantFrom('id', 'day', 'at', 'amount', 'ratio', 'city', 'none')
    const operator = fc.constantFrom('', '.eq', '.ne', '.lt', '.le', '.gt', '.ge', '.in', '.no')
    const filter = fc.tuple(column, operator, text).map(([name, op, value]) => `${name}${op}:${value}`)
    const read = fc
      .record({
        at: fc.constantFrom('latest', 'timeseries', 'realtime'),
        pairs: fc.array(
          fc.oneof(
            fc.tuple(fc.constant('filter'), filter),
            fc.tuple(fc.constantFrom('from', 'to', 'at', 'key', 'cursor', 'interval'), text),
            fc.tuple(
              fc.constant('order'),
              fc.tuple(column, text).map((parts) => parts.join(':')),
            ),
            fc.tuple(
              fc.constant('columns'),
              fc.array(column).map((names) => names.join(',')),
            ),
          ),
          { maxLength: 4 },
        ),
      })
      .map(
        ({ at, pairs }): Sent => ({
          method: 'GET',
          path: `/api/v1/products/people/${at}?${pairs.map(([name, value]) => `${name}=${encoded(value)}`).join('&')}`,
          headers: {},
        }),
      )
    const part = fc.oneof(text, fc.double(), fc.boolean(), fc.integer())
    const keys = fc
      .record({
        product: fc.oneof(fc.constant('people'), text),
        store: fc.constantFrom('lookup', 'realtime'),
        keys: fc.array(fc.oneof(part, fc.dictionary(fc.oneof(column, text), part, { maxKeys: 3 })), { maxLength: 4 }),
        columns: fc.option(fc.array(column, { maxLength: 3 }), { nil: undefined }),
      })
      .map(
        (item): Sent => ({
          method: 'POST',
          path: '/api/v1/read',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ items: [item] }),
        }),
      )
    const value = fc.oneof(
      fc.constantFrom(
        '1e400',
        '-1e400',
        "'NaN'::DOUBLE",
        "'infinity'::TIMESTAMP",
        'NULL',
        "x'00'",
        "'\\x00'::BLOB",
        'INTERVAL 1000000 YEAR',
        "DATE '290000-01-01'",
        '170141183460469231731687303715884105727',
        "'a'::JSON",
        'MAP {1: 2}',
        '[1, NULL]',
        "{'a': 1}",
        "TIME '24:00:00'",
        'uuid()',
        "'12'::BIT",
        '1/0',
        'ln(-1)',
        "repeat('x', 100)",
        'chr(0)',
        'union_value(a := 1)',
        '99999999999::DECIMAL(38,10)',
        'id',
        'amount',
        'sqrt(-1)',
      ),
      text.map((one) => `'${one.replaceAll("'", "''")}'`),
    )
    const sql = fc
      .record({
        values: fc.array(value, { minLength: 1, maxLength: 3 }),
        params: fc.array(fc.oneof(text, fc.double()), { maxLength: 2 }),
        asOf: fc.option(text, { nil: undefined }),
        accept: fc.constantFrom(
          'application/json',
          'text/csv',
          'application/x-ndjson',
          'application/vnd.apache.parquet',
        ),
      })
      .map(
        ({ values, params, asOf, accept }): Sent => ({
          method: 'POST',
          path: '/api/v1/query',
          headers: { 'content-type': 'application/json', accept },
          body: JSON.stringify({
            sql: `SELECT ${values.join(', ')} FROM crm.people LIMIT 2`,
            ...(params.length === 0 ? {} : { params }),
            ...(asOf === undefined ? {} : { as_of: asOf }),
          }),
        }),
      )
    assert.deepEqual(
      await failuresOf([
        [viewer, read, PER_LANGUAGE * 3],
        [viewer, keys, PER_LANGUAGE],
        [viewer, sql, PER_LANGUAGE],
      ]),
      [],
    )
  })
})
