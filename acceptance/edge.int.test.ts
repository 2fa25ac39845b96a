/** What holds of every operation of the document, whatever it is about. HTTP only. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { type Client, type Json, manifests } from './client.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

let world: World
let developer: Client
let operations: readonly Operation[]

interface Operation {
  readonly id: string
  readonly method: string
  /** With something in the place of each parameter. */
  readonly path: string
  /** Media types of its good answers. */
  readonly types: readonly string[]
  readonly document: Json
}

before(async () => {
  world = await openWorld()
  await world.source.query(`DROP TABLE IF EXISTS edge_people;
    CREATE TABLE edge_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO edge_people SELECT i, 'e' || i || '@edge.test', 'city ' || i % 3 FROM generate_series(1, 30) i`)
  await world.createTenant(world.tenants[0], 'enterprise')
  developer = await world.as(world.tenants[0], 'svc-developers', 'dora')
  await onboardPeople(world, developer, manifests('public.edge_people'))
  operations = operationsOf((await developer.get('/openapi.json')).body)
})

after(() => world?.close())

function operationsOf(document: Json): readonly Operation[] {
  return Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => ({
      id: operation.operationId,
      method: method.toUpperCase(),
      path: path.replace('{task}', 'check').replace(/\{\w+\}/g, 'none'),
      types: [...new Set(goodAnswers(operation).flatMap(({ content }) => Object.keys(content ?? {})))],
      document: operation,
    })),
  )
}

const goodAnswers = (operation: Json): readonly Json[] =>
  Object.entries<Json>(operation.responses).flatMap(([status, answer]) => (status.startsWith('2') ? [answer] : []))

/** As whoever may: the developer, or an administrator where it takes one. */
async function ask({ method, path }: Operation, accept: string, body?: string): Promise<Response> {
  const headers = { accept, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
  const init = { method, ...(body === undefined ? {} : { body }) }
  const gone = new AbortController()
  const first = await developer.begin(path, headers, gone.signal, init)
  const response = first.status === 403 ? await world.admin.begin(path, headers, gone.signal, init) : first
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) gone.abort()
  return response
}

describe('Accept', () => {
  it('is refused by every operation that cannot honour it, before it does anything', async () => {
    const impossible = ['application/x-nothing', '*/*;q=0', 'image/*, nonsense', 'application/json;profile=other']
    for (const operation of operations) {
      for (const accept of impossible) {
        const response = await ask(operation, accept)
        const what = `${operation.id} ${accept}`
        if (operation.types.length === 0) {
          assert.notEqual(response.status, 406, what)
          continue
        }
        assert.equal(response.status, 406, what)
        assert.match(response.headers.get('content-type') ?? '', /^application\/problem\+json/, what)
        const { code, types } = (await response.json()) as Json
        assert.deepEqual([code, types], ['not_acceptable', operation.types], what)
      }
    }
  })

  it('is honoured by every operation, in each of its types', async () => {
    for (const operation of operations) {
      for (const type of operation.types) {
        const ranges = [type, type.replace(/\/.*/, '/*'), `${type};q=0.2, application/x-nothing`, '*/*']
        for (const accept of ranges) {
          const isRead = operation.method === 'GET'
          const body = operation.id === 'query' ? JSON.stringify({ sql: 'SELECT 1 AS one' }) : '{"nothing":0}'
          const response = await ask(operation, accept, isRead ? undefined : body)
          const what = `${operation.id} ${accept}: ${response.status}`
          assert.notEqual(response.status, 406, what)
          const given = (response.headers.get('content-type') ?? '').split(';')[0] ?? ''
          if (!response.ok) assert.equal(given, 'application/problem+json', what)
          else if (accept.startsWith(type)) assert.equal(given, type, what)
          else assert.ok(operation.types.includes(given), what)
          await response.body?.cancel().catch(() => undefined)
        }
      }
    }
  })
})

describe('bodies of requests', () => {
  it('are refused in any encoding, by every operation that takes one, before they are unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, ' '))
    const taking = operations.filter(({ document }) => document.requestBody !== undefined)
    assert.ok(taking.length > 10)
    for (const { id, method, path, document } of taking) {
      const [type = ''] = Object.keys(document.requestBody.content)
      const others = id === 'query' ? ['GZIP', 'br', 'deflate', 'gzip, gzip', 'unheard-of'] : []
      for (const encoding of ['gzip', ...others]) {
        const headers = { 'content-type': `${type}; boundary=x`, 'content-encoding': encoding }
        const ask = (client: Client) => client.send(path, { method, headers, body: bomb })
        const first = await ask(developer)
        const { status, body } = first.status === 403 ? await ask(world.admin) : first
        assert.deepEqual([status, body.code], [415, 'unsupported_media_type'], `${id} ${encoding}`)
      }
    }
  })
})
