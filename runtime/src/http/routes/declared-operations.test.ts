import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildOpenApi } from '../openapi.ts'
import { defineRoute, type Route } from '../route.ts'
import { RouteTable } from '../route-table.ts'
import { declaredOperationRoutes } from './declared-operations.ts'

const search = {
  summary: 'Rows that match words',
  inputSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['words'],
    properties: { words: { type: 'string', minLength: 1 } },
  },
  example: { words: 'green tea' },
  adds: [{ name: 'score', type: 'double', nullable: false }],
}

interface Mounted {
  readonly operationId: string
  readonly description: string
  readonly requestBody: {
    readonly content: {
      readonly 'application/json': {
        readonly schema: { readonly properties: { readonly input: unknown } }
        readonly example: unknown
      }
    }
  }
}

const pluginsWith = (declared: object) => ({
  plugins: {
    servingTypes: () => [{ type: 'text', plugin: { capabilities: { declared } }, store: { operate: () => undefined } }],
  } as never,
})

const routesOf = (declared: object, others: readonly Route[] = []) =>
  declaredOperationRoutes(pluginsWith(declared), {} as never, others)

test('an operation has an address, its schema and its example in the document', () => {
  const document = buildOpenApi(routesOf({ search, find_near: search }), { title: 't', version: '1' })
  assert.deepEqual(Object.keys(document.paths), ['/api/v1/products/{name}/search', '/api/v1/products/{name}/find_near'])
  const { post } = document.paths['/api/v1/products/{name}/find_near'] as unknown as { readonly post: Mounted }
  assert.equal(post.operationId, 'operationFindNear')
  assert.match(post.description, /`score` \(double\)/)
  const { schema, example } = post.requestBody.content['application/json']
  assert.deepEqual([schema.properties.input, example], [search.inputSchema, { input: search.example }])
})

test('its input is held against its schema before the store sees it', () => {
  const table = new RouteTable([...routesOf({ search })])
  const body = table.match('/api/v1/products/crm.people/search', 'POST')?.compiled.body
  assert.deepEqual(body?.read({ input: { words: 'tea' } }), { input: { words: 'tea' }, limit: 20 })
  for (const input of [{}, { words: 1 }, { words: '' }, { words: 'tea', more: 1 }, null, []]) {
    assert.throws(() => body?.read({ input }), { code: 'validation_failed' }, JSON.stringify(input))
  }
})

test('an operation does not take an address that the runtime has, by whatever method', () => {
  const others = [
    defineRoute({
      ...{ method: 'GET', path: '/api/v1/products/{product_id}/search', name: 'own', summary: 's', tags: [] },
      ...{ auth: 'none', responses: {}, handler: () => ({ empty: true }) },
    }),
  ]
  assert.throws(() => routesOf({ search }, others), { code: 'plugin_invalid' })
  assert.equal(routesOf({ search_more: search }, others).length, 1)
})
