import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toDatabaseError } from './errors.ts'

test('a database that answers is not told as one that cannot be reached, nor with what that would need', () => {
  for (const [state, says] of [
    ['53100', /no disk space/],
    ['53200', /no memory/],
    ['53300', /no connection left/],
    ['53400', /one of its limits/],
    ['25006', /takes no writes/],
    ['28000', /refused the login/],
    ['28P01', /refused the login/],
    ['3D000', /does not exist/],
    ['55P03', /busy/],
    ['57014', /too long/],
  ] as const) {
    const { message, remedy } = toDatabaseError(Object.assign(new Error('hush'), { code: state }), 'asking')
    assert.match(message, says)
    assert.doesNotMatch(`${message} ${remedy}`, /cannot be reached|Check that PostgreSQL runs/, state)
  }
})

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
