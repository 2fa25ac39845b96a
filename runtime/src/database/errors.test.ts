import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toDatabaseError } from './errors.ts'

test('what a server cannot help is told by name, and is no fault of the runtime', () => {
  for (const [state, kind, code] of [
    ['53100', 'TRANSIENT', 'database_full'],
    ['53300', 'TRANSIENT', 'database_unavailable'],
    ['57P01', 'TRANSIENT', 'database_unavailable'],
    ['25006', 'TRANSIENT', 'database_read_only'],
    ['25P03', 'TRANSIENT', 'database_timeout'],
    ['58P01', 'CONFIG', 'database_damaged'],
    ['58030', 'CONFIG', 'database_damaged'],
    ['XX001', 'CONFIG', 'database_damaged'],
    ['42P01', 'INTERNAL', 'database_statement_failed'],
  ] as const) {
    const found = toDatabaseError(Object.assign(new Error('hush'), { code: state }), 'asking')
    assert.deepEqual([found.kind, found.code], [kind, code], state)
    assert.match(found.message, / while asking$/)
    assert.doesNotMatch(`${found.message} ${found.remedy}`, /hush/)
  }
})
