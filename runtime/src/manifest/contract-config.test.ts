import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractConfig } from './contract-config.ts'

test('members of a config mean something to the platform at types of the contract alone', () => {
  const config = { include_columns: ['id'], key_template: '{id}' }
  for (const type of ['lookup', 'timeseries', 'analytics', 'realtime']) {
    assert.equal(contractConfig(type, config), config)
  }
  for (const type of ['search', 'Lookup', '']) assert.deepEqual(contractConfig(type, config), {})
})
