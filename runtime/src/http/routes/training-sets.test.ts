import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { QueriesDeps } from '../../operations/queries/deps.ts'
import { offeredTypes } from '../media-types.ts'
import { trainingSetRoutes } from './training-sets.ts'

const [route] = trainingSetRoutes({} as QueriesDeps)
assert.ok(route)

it('comes as parquet where nobody chooses, and in every other form of rows', () => {
  const types = ['application/vnd.apache.parquet', 'application/json', 'application/x-ndjson', 'text/csv']
  assert.deepEqual(offeredTypes(route), types)
})

it('takes of the rate limit a request for each feature', () => {
  for (const count of [1, 3, 10]) assert.equal(route.tokens?.({ features: Array(count).fill({}) }), count)
})
