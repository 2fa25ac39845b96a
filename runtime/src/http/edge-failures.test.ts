import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineRoute } from './route.ts'
import { startTestServer } from './test-server.ts'

const route = (name: string, handler: () => { readonly body: unknown }) =>
  defineRoute({
    method: 'GET',
    path: `/api/v1/${name}`,
    name,
    summary: 'Test',
    tags: ['Test'],
    auth: 'tenant',
    responses: { 200: { description: 'Test.' } },
    handler,
  })

const failing = route('failing', () => {
  throw new Error('a secret')
})
const whole = route('whole', () => ({ body: 'whole' }))

test('where what hears of a failure fails itself, the client is told so, and nothing of either', async () => {
  const onFault = () => {
    throw new Error('another secret')
  }
  await using server = await startTestServer([failing, whole], { onFault })
  for (let times = 0; times < 2; times += 1) {
    const response = await server.ask('/api/v1/failing')
    const told = [response.status, response.headers.get('content-type'), await response.text()]
    assert.deepEqual(told, [500, 'text/plain; charset=utf-8', 'Internal Server Error'])
  }
  assert.equal(await (await server.ask('/api/v1/whole')).json(), 'whole')
})

test('where what hears of an answer fails, the client has its answer', async () => {
  const onFinished = () => {
    throw new Error('a secret')
  }
  await using server = await startTestServer([whole], { onFinished })
  for (let times = 0; times < 2; times += 1) {
    assert.equal(await (await server.ask('/api/v1/whole')).json(), 'whole')
  }
})
