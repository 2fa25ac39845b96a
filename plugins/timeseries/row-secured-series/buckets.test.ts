import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseInterval } from '@sluice/sdk'
import { distinctTimes, parseTime } from './buckets.ts'
import { spansFor } from './spans.ts'

const DAY = 86_400_000

function interval(text: string) {
  const parsed = parseInterval(text)
  if (!parsed) throw new Error(text)
  return parsed
}

async function* csv(...chunks: string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk)
}

test('times are read with and without zones, whichever notation', () => {
  const noon = Date.UTC(2026, 2, 29, 12)
  for (const text of [
    '2026-03-29T12:00:00Z',
    '2026-03-29 12:00:00+00',
    '2026-03-29T13:00:00+01:00',
    '2026-03-29 06:30:00-0530',
  ]) {
    assert.deepEqual(parseTime(text), { ms: noon, rest: false }, text)
  }
  assert.deepEqual(parseTime('2026-03-29'), { ms: noon - DAY / 2, rest: false })
  assert.deepEqual(parseTime('2026-03-29T12:00:00.000001'), { ms: noon, rest: true })
  for (const text of ['infinity', 'now', '', '2026-3-9', '0044-03-15 BC']) assert.equal(parseTime(text), null, text)
})

test('each day of the rows is found once, wherever the stream is cut', async () => {
  const found = await distinctTimes(
    csv(
      '"2026-01-01T10:00:00.000000Z"\n"2026-01-0',
      '1T23:59:59.999999Z"\n"2026-01-01 23:30:00-01"\n',
      '"2026-01-02 00:00:00+00"',
    ),
    interval('1 day'),
  )
  assert.deepEqual(
    found.map((ms) => new Date(ms).toISOString().slice(0, 10)),
    ['2026-01-01', '2026-01-02', '2026-01-02'],
  )
  const hours = csv('"2026-01-01T10:00:00.000000Z"\n"2026-01-01T11:00:00.000000Z"\n"2026-01-01T11:59:00.000000Z"\n')
  assert.equal((await distinctTimes(hours, interval('6 hours'))).length, 2)
  await assert.rejects(distinctTimes(csv('"2026-01-01"\n\n'), interval('1 day')), { code: 'missing_time' })
})

test('chunks cover every time once, in whole intervals, and leave what is there alone', () => {
  const every = interval('1 day')
  const days = (...list: number[]) => list.map((day) => day * DAY + 1)
  assert.deepEqual(spansFor(days(3, 1, 1), every, []), [
    { fromMs: DAY, toMs: 2 * DAY },
    { fromMs: 3 * DAY, toMs: 4 * DAY },
  ])
  const there = [{ fromMs: 0, toMs: 10 * DAY }]
  assert.deepEqual(spansFor(days(0, 9, 10), every, there), [{ fromMs: 10 * DAY, toMs: 11 * DAY }])
  const many = Array.from({ length: 3000 }, (_, day) => day * 2 * DAY)
  const middle = { fromMs: 2000 * DAY, toMs: 2500 * DAY }
  const spans = [...spansFor(many, every, [middle]), middle].sort((left, right) => left.fromMs - right.fromMs)
  assert.ok(spans.length < 500)
  for (const [index, span] of spans.entries()) assert.ok(span.fromMs >= (spans[index - 1]?.toMs ?? 0))
  for (const instant of many)
    assert.equal(spans.filter((span) => span.fromMs <= instant && instant < span.toMs).length, 1)
  const full = Array.from({ length: 1999 }, (_, index) => ({ fromMs: -index * DAY - DAY, toMs: -index * DAY }))
  assert.throws(() => spansFor(days(1, 3), every, full), { code: 'too_many_chunks' })
})
