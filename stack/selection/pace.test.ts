import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Pace } from './pace.ts'

test('begins what ends before the deadline', () => {
  const pace = new Pace(60_000)
  assert.ok(pace.hasTimeFor(60, 0))
  assert.ok(!pace.hasTimeFor(61, 0))
  assert.ok(!pace.hasTimeFor(60, 1))
  assert.ok(new Pace(Number.POSITIVE_INFINITY).hasTimeFor(1e6, 1e9))
})

test('expects of the next what the others needed, but never less than expected', () => {
  const pace = new Pace(60_000)
  pace.ended(10, 5)
  assert.equal(pace.slowness, 1)
  pace.ended(10, 35)
  assert.equal(pace.slowness, 2)
  assert.ok(pace.hasTimeFor(30, 0))
  assert.ok(!pace.hasTimeFor(31, 0))
})
