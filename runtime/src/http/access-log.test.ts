import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Logger } from '@sluice/sdk'
import { Type } from 'typebox'
import { until } from '../../../test/until.ts'
import { accessLog } from './access-log.ts'
import { defineRoute } from './route.ts'
import { startTestServer } from './test-server.ts'

it('a request is one line, without the values of its path, query and body', async () => {
  const lines: string[] = []
  const logger = { info: (message: string, fields: object) => lines.push(JSON.stringify({ message, ...fields })) }
  const change = defineRoute({
    method: 'PUT',
    path: '/api/v1/people/{name}',
    name: 'changePerson',
    summary: 'Change',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ name: Type.String() }),
    query: Type.Object({ filter: Type.String() }),
    body: Type.Object({ salary: Type.String() }),
    responses: { 200: { description: 'Done.' } },
    handler: () => ({ body: 'done' }),
  })
  await using server = await startTestServer([change], { onFinished: accessLog(logger as unknown as Logger) })
  const body = JSON.stringify({ salary: 'hidden-3' })
  const headers = { 'content-type': 'application/json', 'x-request-id': 'r1' }
  await server.ask('/api/v1/people/hidden-1?filter=hidden-2', { method: 'PUT', body, headers })
  await fetch(`${server.url}/hidden-4?x=hidden-5`, { headers: { authorization: 'Bearer hidden-6' } })
  await until('both are told', () => lines.length === 2)
  const [first, second] = lines.map((line) => JSON.parse(line))
  const { ms, ...told } = first
  assert.ok(ms >= 0)
  assert.deepEqual(told, {
    message: 'request',
    request_id: 'r1',
    method: 'PUT',
    route: '/api/v1/people/{name}',
    status: 200,
    bytes: 6,
    tenant: 'acme',
    subject: 'ann',
  })
  assert.deepEqual([second.route, second.status, second.subject], ['', 404, null])
  assert.doesNotMatch(lines.join(''), /hidden/)
})
