import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Pace, rowText } from './copy-rows.ts'

const SIGNAL = new AbortController().signal

function virtualTime() {
  const time = {
    now: 0,
    nowMs: () => time.now,
    async sleep(ms: number) {
      time.now += ms
    },
  }
  return time
}

test('no more rows are compared in a second than are allowed', async () => {
  const time = virtualTime()
  const pace = new Pace({ rowsPerSecond: 1_000, share: 1 }, time)
  for (let page = 0; page < 100; page += 1) await pace.rows(100, SIGNAL)
  assert.equal(time.now, 10_000)
})

test('what is done takes its share of the time, whatever it waited for the pace of rows', async () => {
  const time = virtualTime()
  const pace = new Pace({ rowsPerSecond: 1_000, share: 0.1 }, time)
  await pace.within(SIGNAL, async () => {
    time.now += 500
    await pace.rows(2_000, SIGNAL)
  })
  assert.equal(time.now, 500 + 2_000 + 4_500)
})

test('a rest ends where the runtime stops', async () => {
  const stop = new AbortController()
  const pace = new Pace({ rowsPerSecond: 1, share: 0.001 })
  const resting = pace.within(stop.signal, () => new Promise<string>((resolve) => setTimeout(resolve, 5, 'done')))
  setTimeout(() => stop.abort(), 20)
  assert.equal(await resting, 'done')
})

test('rows are equal whose values are, and no others', () => {
  const columns = [
    { name: 'v', type: 'double', nullable: true },
    { name: 'd', type: 'json', nullable: true },
  ] as const
  const text = (value: number | null, document: string | null) => rowText(columns, [value, document])
  assert.equal(text(1, '{"a": 1.0, "b": [1, 2]}'), text(1, '{"b":[1,2],"a":1}'))
  assert.equal(text(Number.NaN, '{"a": NaN}'), text(Number.NaN, '{"a": NaN}'))
  assert.equal(text(1, 'null'), text(1, null))
  const different = [
    text(0, null),
    text(-0, null),
    text(null, null),
    text(0, '"null"'),
    text(0, '"x"'),
    text(0, '[1,2]'),
  ]
  assert.equal(new Set([...different, text(0, '[2,1]')]).size, different.length + 1)
})
