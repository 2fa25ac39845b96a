import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConnectionSchedule, readSchedule, scheduleText } from './schedule.ts'

const read = (text: Parameters<typeof readConnectionSchedule>[0]) => readConnectionSchedule(text, 60_000)

test('a continuous schedule has a delay of its own, whatever lies between two runs of others', () => {
  assert.deepEqual(read({ continuous: {} }), { maxDelay: '1s', maxDelayMs: 1_000, catchUp: 'one' })
  assert.deepEqual(read({ continuous: { max_delay: '250ms' } }), { maxDelay: '250ms', maxDelayMs: 250, catchUp: 'one' })
  const schedule = read({ continuous: { max_delay: '5m' } })
  assert.ok('maxDelayMs' in schedule)
  assert.deepEqual(scheduleText(schedule), { continuous: { max_delay: '5m' } })
})

test('a delay that is none, too short or too long is refused', () => {
  for (const max_delay of ['', '0s', '99ms', '2h', '1', 'soon', '1e3ms', '-1s']) {
    const fault = read({ continuous: { max_delay } })
    assert.ok('message' in fault && fault.field === 'continuous', max_delay)
  }
})

test('it stands alone, and is of connections', () => {
  const field = (text: Parameters<typeof read>[0]) => {
    const fault = read(text)
    return 'message' in fault ? fault.field : 'none'
  }
  assert.equal(field({ continuous: {}, every: '1h' }), null)
  assert.equal(field({ continuous: {}, catch_up: 'all' }), 'catch_up')
  assert.equal(field({ continuous: {}, time_zone: 'UTC' }), 'time_zone')
  assert.ok('message' in readSchedule({ continuous: {} }, 60_000))
})
