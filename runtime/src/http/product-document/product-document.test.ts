import assert from 'node:assert/strict'
import { describe as group, it } from 'node:test'
import fc from 'fast-check'
import { Compile } from 'typebox/compile'
import { type DescribedProduct, describe, type ProductAnswer } from '../../operations/products/product-schema.ts'
import { column, hostileProduct, key, product, TYPES } from '../../operations/products/products.fixture.ts'
import type { ReadableWays } from '../../operations/products/readable-ways.ts'
import { readingsOf } from '../../operations/products/readings.ts'
import type { OfferedOperation } from '../../operations/reads/read-operation.ts'
import { defineRoute, type Route } from '../route.ts'
import { changeRoutes } from '../routes/changes.ts'
import { queryRoutes } from '../routes/query.ts'
import { readRoutes } from '../routes/reads.ts'
import { type DocumentSources, productDocument } from './product-document.ts'

// biome-ignore lint/suspicious/noExplicitAny: what is parsed may be anything
type Json = any

const nothing = {} as never
const routes: readonly Route[] = [
  ...readRoutes(nothing, nothing),
  ...changeRoutes(nothing, nothing),
  ...queryRoutes(nothing),
]
const sources: DocumentSources = { routes, declared: [], url: 'https://sluice.example.com' }

const template = { parts: [{ before: 'k:', column: 'id' }], after: '' }

function waysOf(answer: ProductAnswer): ReadableWays {
  const described: DescribedProduct = describe(answer)
  const endpoints = new Set(answer.endpoints.map(({ type }) => type))
  return { described, readings: readingsOf(described.schema), endpoints, keyTemplate: template }
}

const documentOf = (answer: ProductAnswer, of = sources): Json => JSON.parse(productDocument(waysOf(answer), of))

const ALL = [
  { type: 'lookup', config: { index_columns: ['id', 'city'] } },
  { type: 'realtime', config: { key_template: 'k:{id}', include_columns: ['id', 'city'] } },
  { type: 'timeseries', config: { time_column: 'seen', continuous_aggregates: [{ interval: '1 day', columns: [] }] } },
]
const PEOPLE = [
  key('id', 'long'),
  column('city', 'string', { nullable: false, description: 'Where they live.' }),
  column('email', 'string', { classification: 'pii.email', mask: 'hash' }),
  column('secret_pay', 'decimal(12,2)', { classification: 'pii.pay', mask: 'omit' }),
  column('born', 'date', { classification: 'pii.birth', mask: 'null' }),
  column('seen', 'timestamptz', { nullable: false }),
]

/** With everything that it refers to in its place. */
function resolved(document: Json, node: Json): Json {
  if (Array.isArray(node)) return node.map((item) => resolved(document, item))
  if (typeof node !== 'object' || node === null) return node
  if (typeof node.$ref === 'string') {
    const [, , , name] = node.$ref.split('/')
    assert.ok(Object.hasOwn(document.components.schemas, name), node.$ref)
    return resolved(document, document.components.schemas[name])
  }
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, resolved(document, value)]))
}

const idsOf = ({ paths }: Json): string[] =>
  Object.values<Json>(paths).flatMap((methods) => Object.values<Json>(methods).map((one) => one.operationId))

const operationOf = ({ paths }: Json, id: string): Json =>
  Object.values<Json>(paths)
    .flatMap((methods) => Object.values<Json>(methods))
    .find((one) => one.operationId === id)

const parameterOf = (operation: Json, name: string): Json => operation.parameters.find((one: Json) => one.name === name)

/** Every example is of the schema beside it. */
function exampleFaults(document: Json): readonly string[] {
  const faults: string[] = []
  const check = (what: string, { schema, example }: Json) => {
    if (example === undefined) return
    for (const { instancePath, message } of Compile(resolved(document, schema)).Errors(example)) {
      faults.push(`${what} ${instancePath} ${message} ${JSON.stringify(example).slice(0, 200)}`)
    }
  }
  for (const id of idsOf(document)) {
    const { parameters, requestBody, responses } = operationOf(document, id)
    for (const one of parameters) check(`${id} ${one.name}`, one)
    for (const [type, one] of Object.entries(requestBody?.content ?? {})) check(`${id} ${type}`, one)
    for (const [type, one] of Object.entries(responses['200'].content)) check(`${id} 200 ${type}`, one)
  }
  return faults
}

group('the document of a product', () => {
  const document = documentOf(product('crm.people', PEOPLE, ALL))

  it('has the ways that are open, at the addresses of the product', () => {
    assert.deepEqual(Object.keys(document.paths), [
      '/api/v1/products/crm.people/latest',
      '/api/v1/products/crm.people/timeseries',
      '/api/v1/products/crm.people/realtime',
      '/api/v1/read',
      '/api/v1/products/crm.people/changes',
      '/api/v1/query',
    ])
    assert.deepEqual(idsOf(documentOf(product('crm.people', PEOPLE))), ['followChanges', 'query'])
    const masked = PEOPLE.map((one) => (one.name === 'id' ? { ...one, mask: 'redact' } : one))
    const closed = documentOf(product('crm.people', masked, ALL))
    assert.deepEqual(idsOf(closed), ['readLookup', 'readTimeseries', 'query'])
    assert.match(closed.info.description, /Not for you: realtime: its key is masked\./)
    const forQueries = routes.filter(({ forKeys }) => forKeys === 'query')
    assert.deepEqual(idsOf(documentOf(product('crm.people', PEOPLE, ALL), { ...sources, routes: forQueries })), [
      'query',
    ])
  })

  it('types rows as they are told, masked as they are for the reader', () => {
    const { Row, RealtimeRow, Key } = document.components.schemas
    assert.deepEqual(Row.required, ['id', 'city', 'email', 'born', 'seen'])
    assert.deepEqual([Row.properties.born.type, Row.properties.city.type], ['null', 'string'])
    assert.match(Row.properties.email.description, /^string, class pii\.email, masked for you by hash: equal values/)
    assert.match(Row.properties.city.description, /Where they live\.$/)
    assert.deepEqual(Object.keys(RealtimeRow.properties), ['id', 'city'])
    assert.deepEqual(Object.keys(Key.properties), ['id'])
    const fits = Compile(resolved(document, Row))
    const row = { id: '9007199254740993', city: 'x', email: null, born: null, seen: '2026-01-01T00:00:00.000000Z' }
    assert.ok(fits.Check(row))
    for (const wrong of [{ id: null }, { id: 'x' }, { city: null }, { born: '2000-01-01' }, { seen: '2026' }])
      assert.ok(!fits.Check({ ...row, ...wrong }), JSON.stringify(wrong))
  })

  it('names the columns that a parameter takes', () => {
    const latest = operationOf(document, 'readLookup')
    const { schema, style, explode } = parameterOf(latest, 'columns')
    assert.deepEqual(schema.items.enum, ['id', 'city', 'email', 'born', 'seen'])
    assert.deepEqual([style, explode], ['form', false])
    const { pattern } = parameterOf(latest, 'filter').schema.items
    const texts = ['id:7', 'city.in:a,b', 'email:x', 'ids:7', 'id.like:7', 'born:2000-01-01']
    assert.deepEqual(
      texts.map((text) => new RegExp(pattern, 'u').test(text)),
      [true, true, false, false, false, false],
    )
    assert.deepEqual([parameterOf(latest, 'at'), parameterOf(latest, 'namespace')], [undefined, undefined])
    const range = operationOf(document, 'readTimeseries')
    assert.deepEqual(parameterOf(range, 'interval').schema.enum, ['1 day'])
    const { example, required, description } = parameterOf(operationOf(document, 'readRealtime'), 'key')
    assert.deepEqual([example, required], ['k:7', true])
    assert.match(description, /made of "id"/)
    const past = { type: 'lookup', config: { history_mode: 'type_2', tracked_columns: ['city'] } }
    const kept = documentOf(product('crm.people', PEOPLE, [past]))
    assert.ok(parameterOf(operationOf(kept, 'readLookup'), 'at'))
    assert.deepEqual(kept.components.schemas.LookupRow.required.slice(-3), ['valid_from', 'valid_to', 'is_current'])
  })

  it('says what its errors are, and of the table of codes no others', () => {
    const codes = Object.keys(document['x-error-codes'])
    assert.ok(codes.includes('filter_not_indexed') && codes.includes('token_expired'))
    assert.ok(!codes.includes('tenant_exists') && codes.length < 60, String(codes.length))
    for (const id of idsOf(document))
      assert.ok(operationOf(document, id).responses.default.content['application/problem+json'])
  })

  it('does not name what its reader is not shown', () => {
    assert.ok(!JSON.stringify(document).includes('secret_pay'))
    const endpoints = [
      {
        type: 'lookup',
        config: { index_columns: ['secret_pay'], history_mode: 'type_3', tracked_columns: ['secret_pay'] },
      },
      { type: 'realtime', config: { key_template: '{secret_pay}' } },
      { type: 'timeseries', config: { time_column: 'secret_pay' } },
    ]
    const asked = product('crm.people', PEOPLE, endpoints)
    const hidden = { parts: [{ before: '', column: 'secret_pay' }], after: '' }
    const text = productDocument({ ...waysOf(asked), keyTemplate: hidden }, sources)
    assert.ok(!text.includes('secret_pay'), text)
  })

  it('has what a store of an endpoint declares, where the product has that endpoint', () => {
    const declared = {
      summary: 'Rows that match words',
      inputSchema: { type: 'object' },
      example: { words: 'green tea' },
      adds: [{ name: 'score', type: 'double', nullable: false }],
    }
    const route = defineRoute({
      method: 'POST',
      path: '/api/v1/products/{name}/search',
      name: 'operationSearch',
      summary: 'Rows that match words',
      tags: ['Serving'],
      auth: 'tenant',
      responses: { 200: { description: 'Rows.' } },
      handler: () => ({ empty: true }),
    })
    const offered = { name: 'search', type: 'text', declared } as unknown as OfferedOperation
    const of = { ...sources, routes: [...routes, route], declared: [{ route, offered }] }
    assert.ok(!idsOf(documentOf(product('crm.people', PEOPLE, ALL), of)).includes('operationSearch'))
    const made = documentOf(product('crm.people', PEOPLE, [...ALL, { type: 'text', config: {} }]), of)
    assert.ok(made.paths['/api/v1/products/crm.people/search'].post)
    assert.ok(made.components.schemas.OperationSearchRow.required.includes('score'))
  })

  it('has examples of every type that fit their schemas', () => {
    for (const mask of [null, 'hash', 'redact', 'partial', 'null']) {
      const columns = TYPES.map((type, at) => column(`c${at}`, type, { mask, nullable: at % 2 === 0 }))
      assert.deepEqual(exampleFaults(documentOf(product('crm.all', [...PEOPLE, ...columns], ALL))), [])
    }
  })
})

group('names and words of somebody who means ill', () => {
  const UNSEEN = /[^ -~\p{L}\p{M}\p{N}\p{P}\p{S}]|</u

  it('do not break the document, whatever they are', () => {
    fc.assert(
      fc.property(hostileProduct, (answer) => {
        const text = productDocument(waysOf(answer), sources)
        assert.ok(!UNSEEN.test(text), 'a sign that is not seen, or the begin of a tag')
        const document = JSON.parse(text)
        assert.deepEqual(exampleFaults(document), [])
        const shown = waysOf(answer).readings.row.map(({ name }) => name)
        assert.deepEqual(Object.keys(document.components.schemas.Row.properties).toSorted(), shown.toSorted())
        for (const id of idsOf(document))
          for (const { schema } of operationOf(document, id).parameters)
            if (schema.items?.pattern !== undefined) new RegExp(schema.items.pattern, 'u')
      }),
      { numRuns: 300 },
    )
  })

  it('are no references, tags or pictures', () => {
    const columns = [
      key('$ref', 'string'),
      key('$id', 'string'),
      column('properties', 'json'),
      column('</script>', 'string'),
    ]
    const said = '</script><img src=x onerror=alert(1)> ![x](https://x.test/y) \u202e $ref '.padEnd(4000, 'x')
    const asked = { ...product('crm.people', columns, ALL), description: said }
    const text = productDocument(waysOf(asked), sources)
    assert.ok(!/<\/|\u202e/.test(text))
    const document = JSON.parse(text)
    assert.ok(document.info.description.includes('\\</script>\\<img src=x onerror=alert(1)> !\\[x\\](https'))
    assert.ok(document.info.description.length < 1000)
    assert.deepEqual(Object.keys(document.components.schemas.Row.properties), [
      '$ref',
      '$id',
      'properties',
      '</script>',
    ])
    const references: unknown[] = []
    JSON.stringify(document, (name, value) => {
      if (name === '$ref' && typeof value === 'string') references.push(value)
      return value
    })
    assert.deepEqual(
      references.filter((one) => !/^#\/components\/schemas\/\w+$/.test(String(one))),
      [],
    )
  })
})
