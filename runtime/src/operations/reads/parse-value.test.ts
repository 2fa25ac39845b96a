import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseMoment, parseTimeBound } from './parse-value.ts'

const midnight = '2026-03-01T00:00:00.000000Z'

test('a moment and the bounds of a range are times, or days with their beginning or their end', () => {
  const told = [
    parseMoment('2026-03-01', 'at'),
    parseTimeBound('2026-03-01', 'timestamptz', 'from'),
    parseTimeBound('2026-02-28', 'timestamptz', 'to'),
    parseMoment('2026-03-01T01:00:00+01:00', 'at'),
  ]
  assert.deepEqual(told, [midnight, midnight, midnight, midnight])
})

test('one that is no time is refused by the name of its own parameter', () => {
  const readers = {
    at: (text: string) => parseMoment(text, 'at'),
    from: (text: string) => parseTimeBound(text, 'timestamptz', 'from'),
    to: (text: string) => parseTimeBound(text, 'date', 'to'),
  }
  for (const [parameter, read] of Object.entries(readers)) {
    for (const text of ['x', '', '2026-02-30', '2026-03-01T25:00:00Z']) {
      assert.throws(() => read(text), { code: 'invalid_value', message: `"${parameter}" is not a valid timestamptz` })
    }
  }
})
