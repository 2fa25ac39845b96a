import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { OutOfTime } from '../server/deadline.ts'
import { sourceFailure } from './failure.ts'

function coded(code: string, message = 'password "hunter2" of row 4111'): Error {
  return Object.assign(new Error(message), { code, detail: 'Key (card)=(4111)' })
}

const CASES: readonly (readonly [unknown, string, string])[] = [
  [coded('28P01'), 'PERMISSION', 'source_login_refused'],
  [coded('28XYZ'), 'PERMISSION', 'source_login_refused'],
  [coded('42501'), 'PERMISSION', 'source_permission_denied'],
  [coded('3D000'), 'CONFIG', 'source_database_missing'],
  [coded('42P01'), 'INVALID_DATA', 'source_table_missing'],
  [coded('42703'), 'TRANSIENT', 'source_changed'],
  [coded('22P02'), 'INVALID_DATA', 'source_value_invalid'],
  [coded('53300'), 'TRANSIENT', 'source_busy'],
  [coded('57P01'), 'TRANSIENT', 'source_lost'],
  [coded('57014'), 'TRANSIENT', 'source_timeout'],
  [coded('40001'), 'TRANSIENT', 'source_conflict'],
  [coded('ECONNREFUSED'), 'TRANSIENT', 'source_unreachable'],
  [coded('ENOTFOUND'), 'TRANSIENT', 'source_unreachable'],
  [coded('EPIPE'), 'TRANSIENT', 'source_lost'],
  [new Error('Connection terminated unexpectedly'), 'TRANSIENT', 'source_lost'],
  [new Error('SASL: hunter2 4111'), 'PERMISSION', 'source_login_refused'],
  [new OutOfTime(5), 'TRANSIENT', 'source_timeout'],
  [new TypeError('hunter2 4111 is not a function'), 'INTERNAL', 'connector_defect'],
  [undefined, 'INTERNAL', 'connector_defect'],
]

test('every failure has a kind, a code and a remedy, and says nothing that the source said', () => {
  for (const [error, kind, code] of CASES) {
    const failure = sourceFailure(error, 'table "a"."b"')
    assert.deepEqual([failure.kind, failure.code], [kind, code])
    assert.ok(failure.message.startsWith('table "a"."b": ') && failure.remedy)
    const shown = JSON.stringify([failure, failure.message, failure.remedy, String(failure.cause)])
    assert.doesNotMatch(shown, /hunter2|4111/)
  }
})

test('what the caller stopped is an abort, whatever broke by it; what ran out of time is not', () => {
  const stopped = new AbortController()
  stopped.abort(new Error('hunter2'))
  const failure = sourceFailure(coded('57014'), 'x', stopped.signal)
  assert.equal(failure.code, 'aborted')
  assert.doesNotMatch(String(failure.cause), /hunter2/)
  const late = new AbortController()
  late.abort(new OutOfTime(1))
  assert.equal(sourceFailure(late.signal.reason, 'x', late.signal).code, 'source_timeout')
})

test('an error that is one of ours already stays as it is', () => {
  const own = new SluiceError('PERMISSION', 'no', { code: 'address_refused' })
  assert.equal(sourceFailure(own, 'x'), own)
  const reason = new AbortController()
  reason.abort(own)
  assert.ok(isSluiceError(sourceFailure(new Error(), 'x', reason.signal), 'PERMISSION'))
})
