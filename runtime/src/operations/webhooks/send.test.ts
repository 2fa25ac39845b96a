import assert from 'node:assert/strict'
import { it } from 'node:test'
import { retryAfterMs } from './send.ts'

it('reads when a receiver wants to be asked again', () => {
  const now = Date.parse('2026-03-02T10:00:00Z')
  assert.equal(retryAfterMs(null, now), null)
  assert.equal(retryAfterMs('120', now), 120_000)
  assert.equal(retryAfterMs(' 0 ', now), 0)
  assert.equal(retryAfterMs('Mon, 02 Mar 2026 10:00:30 GMT', now), 30_000)
  assert.equal(retryAfterMs('Mon, 02 Mar 2026 09:00:00 GMT', now), 0, 'it has passed')
  assert.equal(retryAfterMs('999999999', now), 86_400_000, 'a day at most')
  assert.equal(retryAfterMs('soon', now), null)
  assert.equal(retryAfterMs('', now), null)
})
