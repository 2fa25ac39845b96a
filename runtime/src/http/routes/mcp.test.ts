import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { AgentsDeps } from '../../operations/agents/deps.ts'
import { mcpRoutes } from './mcp.ts'

const deps = { config: { mcp: { enabled: true }, cors: { origins: [], tenants: {} } } } as unknown as AgentsDeps
const [route] = mcpRoutes(deps, { url: 'https://sluice.test', issuers: [], release: '0.0.0' })

it('a training set takes of the rate limit a request for each feature, as by REST; all else takes one', () => {
  const called = (name: unknown, given: unknown) =>
    route?.tokens?.({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: given } })
  for (const count of [1, 3, 10]) assert.equal(called('make_training_set', { features: Array(count).fill({}) }), count)
  // More are refused when they are read.
  assert.equal(called('make_training_set', { features: Array(5_000).fill({}) }), 10)
  for (const given of [undefined, null, 7, [], {}, { features: 'ten' }, { features: { length: 9 } }])
    assert.equal(called('make_training_set', given), 1)
  assert.equal(called('query', { features: [1, 2] }), 1)
  assert.equal(called(['make_training_set'], { features: [1, 2] }), 1)
  assert.equal(route?.tokens?.({ jsonrpc: '2.0', id: 1, method: 'tools/list' }), 1)
})
