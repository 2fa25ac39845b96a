import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSigned, TOLERANCE_MS, webhookHeaders } from './webhook.ts'

/** The example of the specification. */
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const HEADERS = {
  'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  'webhook-timestamp': '1614265330',
  'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const BODY = Buffer.from('{"test": 2432232314}')
const AT = 1_614_265_330_000

const holds = (headers: Readonly<Record<string, string>>, { body = BODY, secret = SECRET, nowMs = AT } = {}) => {
  const found = webhookHeaders(headers)
  return found !== null && isSigned(found, body, secret, nowMs)
}

test('a signature of the specification holds, among others and for five minutes', () => {
  assert.ok(holds(HEADERS))
  assert.ok(holds({ ...HEADERS, 'webhook-signature': `v1,AAAA v1a,${'x'.repeat(80)} ${HEADERS['webhook-signature']}` }))
  for (const ms of [-TOLERANCE_MS, TOLERANCE_MS]) assert.ok(holds(HEADERS, { nowMs: AT + ms }))
})

test('anything else does not', () => {
  for (const ms of [-TOLERANCE_MS - 1, TOLERANCE_MS + 1]) assert.ok(!holds(HEADERS, { nowMs: AT + ms }))
  assert.ok(!holds(HEADERS, { body: Buffer.from('{"test": 2432232315}') }))
  for (const secret of ['', 'whsec_', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_AAKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'])
    assert.ok(!holds(HEADERS, { secret }), secret)
  for (const signature of ['', 'v1,', 'v1', 'v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='])
    assert.ok(!holds({ ...HEADERS, 'webhook-signature': signature }), signature)
  for (const time of ['', '-1', '1e9', '1614265331', '99999999999999'])
    assert.ok(!holds({ ...HEADERS, 'webhook-timestamp': time }))
  for (const id of ['', 'a b', 'msg_p5jXN8AQM9LWM0D4loKWxJeK', 'x'.repeat(256)])
    assert.ok(!holds({ ...HEADERS, 'webhook-id': id }))
  for (const name of Object.keys(HEADERS)) {
    const { [name as keyof typeof HEADERS]: _, ...others } = HEADERS
    assert.equal(webhookHeaders(others), null)
  }
})
