import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '@sluice/sdk'
import { Deadlines } from './deadlines.ts'

/** Time that stands still until it is moved, and the timers that run by it. */
function stillClock() {
  const timers = new Set<() => void | Promise<void>>()
  let nowMs = 0
  const clock: Clock = {
    nowMs: () => nowMs,
    every: (_, run) => {
      timers.add(run)
      return () => timers.delete(run)
    },
  }
  const advance = (byMs: number) => {
    nowMs += byMs
    for (const run of [...timers]) void run()
  }
  return { clock, timers, advance }
}

const caller = () => new AbortController()
const never = () => new Promise<never>(() => {})

test('one timer looks after all reads, and stops where it finds none', () => {
  const { clock, timers, advance } = stillClock()
  const deadlines = new Deadlines(clock)
  assert.equal(timers.size, 0)
  for (let time = 0; time < 3; time += 1) {
    const open = [100, 200].map((timeoutMs) => deadlines.start(timeoutMs, caller()))
    const looks: number[] = []
    const watched = { look: (nowMs: number) => looks.push(nowMs) }
    deadlines.watch(watched)
    assert.equal(timers.size, 1)
    for (const deadline of open) deadline.end()
    advance(25)
    assert.deepEqual([timers.size, looks.length], [1, 1])
    deadlines.unwatch(watched)
    advance(25)
    assert.deepEqual([timers.size, looks.length], [0, 1])
  }
})

test('once closed there is no timer without a read, not even until it would look', () => {
  const { clock, timers } = stillClock()
  const idle = new Deadlines(clock)
  idle.start(100, caller()).end()
  idle.close()
  assert.equal(timers.size, 0)
  const busy = new Deadlines(clock)
  const open = [100, 200].map((timeoutMs) => busy.start(timeoutMs, caller()))
  busy.close()
  assert.equal(timers.size, 1)
  for (const deadline of open) deadline.end()
  assert.equal(timers.size, 0)
  // What comes afterwards is refused elsewhere.
  busy.start(100, caller()).end()
  assert.equal(timers.size, 0)
})

test('reads that take too long or are called off are told so, and those that have time left are not', async () => {
  const { clock, timers, advance } = stillClock()
  const deadlines = new Deadlines(clock)
  const off = caller()
  const late = deadlines.start(25, caller())
  const called = deadlines.start(1000, off)
  const patient = deadlines.start(1000, caller())
  const ended = Promise.allSettled(
    [late, called].map(async (deadline) => await deadline.race(never()).finally(() => deadline.end())),
  )
  const answer = patient.race(Promise.resolve('answer')).finally(() => patient.end())
  off.abort()
  advance(25)
  const codes = (await ended).map((one) => one.status === 'rejected' && one.reason.code)
  assert.deepEqual([codes, await answer], [['deadline_exceeded', 'aborted'], 'answer'])
  // A plan that was called off before it began.
  const gone = deadlines.start(1000, off)
  await assert.rejects(gone.race(never()), { code: 'aborted' })
  gone.end()
  advance(25)
  assert.equal(timers.size, 0)
})
