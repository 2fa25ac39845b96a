import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RecordingLogger } from '@sluice/conformance'
import { SluiceError } from '@sluice/sdk'
import { faultLog } from './fault-log.ts'

test('what fails every request fills no log: of one code the first are told, and later how many were not', () => {
  const logger = new RecordingLogger()
  let nowMs = 0
  const tell = faultLog(logger, () => nowMs)
  const away = new SluiceError('TRANSIENT', 'away', { code: 'database_unavailable', cause: new Error('refused') })
  const fail = (error: unknown) => tell(error, { requestId: 'r', traceparent: null } as never)
  for (let request = 0; request < 10_000; request += 1) fail(away)
  assert.equal(logger.lines.length, 20)
  const [first] = logger.lines
  assert.equal(first?.fields['request_id'], 'r')
  assert.match(String(first?.fields['cause']), /refused/)
  fail(new TypeError('another'))
  assert.equal(logger.lines.length, 21, 'another fault is told')
  nowMs += 10_000
  fail(away)
  fail(away)
  assert.deepEqual(
    logger.lines.slice(21).map(({ fields }) => fields['left_out']),
    [9_980, undefined],
  )
})
