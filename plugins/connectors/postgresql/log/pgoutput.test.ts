import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode } from './pgoutput.ts'
import { isOfHistory, lsnText, orderText, parseLsn, placeOf } from './position.ts'
import { outOfRange } from './range.ts'

/** An UPDATE of two columns with a former key, as the server sends it. */
const UPDATE = Buffer.from('5500000001' + '4b0002' + '740000000131' + '6e' + '4e0002' + '740000000132' + '75', 'hex')

test('a message cut or altered anywhere is refused, or is another message: it never reads beyond its end', () => {
  assert.equal(decode(UPDATE).kind, 'update')
  for (let length = 1; length < UPDATE.length; length += 1) {
    assert.throws(() => decode(UPDATE.subarray(0, length)), /^Error: the server sent/)
  }
  for (const type of 'BCRIUDTOYMX\0') {
    for (let at = 1; at < UPDATE.length; at += 1) {
      for (const value of [0, 1, 0x7f, 0xff]) {
        const altered = Buffer.from(UPDATE)
        altered[0] = type.charCodeAt(0)
        altered[at] = value
        try {
          decode(altered)
        } catch (error) {
          assert.match(String(error), /^Error: the server sent/)
        }
      }
    }
  }
})

test('places of the log grow as text, and go there and back', () => {
  const places = ['0/1', '0/FFFFFFFF', '1/0', 'A0/0', 'FFFFFFFF/0'].map((text) => ({
    lsn: parseLsn(text),
    timeline: 3,
  }))
  const orders = places.map(orderText)
  assert.deepEqual([...orders].sort(), orders)
  assert.deepEqual(
    orders.map((order) => placeOf({ lineage: 'x', order })),
    places,
  )
  assert.equal(lsnText(parseLsn('16/B374D848')), '16/B374D848')
  assert.throws(() => placeOf({ lineage: 'x', order: '16/B374D848' }), { kind: 'CONFLICT', code: 'position_lost' })
})

test('after a failover a place counts up to where its timeline was left', () => {
  const history = '1\t0/5000000\tno recovery target specified\n\n2\t0/7000000\tno recovery target specified\n'
  const place = (lsn: string, timeline: number) => ({ lsn: parseLsn(lsn), timeline })
  assert.equal(isOfHistory(place('0/5000000', 1), history), true)
  assert.equal(isOfHistory(place('0/5000001', 1), history), false)
  assert.equal(isOfHistory(place('0/6000000', 2), history), true)
  assert.equal(isOfHistory(place('0/6000000', 9), history), false)
})

test('what cannot be carried of a value is what a read of the table refuses', () => {
  const cases = [
    ['date', '2024-02-29', false],
    ['date', 'infinity', true],
    ['date', '10000-01-01', true],
    ['timestamp', '0044-03-15 00:00:00 BC', true],
    ['timestamptz', '9999-12-31 23:59:59.999999+00', false],
    ['decimal(38,9)', `${'9'.repeat(29)}.123456789`, false],
    ['decimal(38,9)', `1${'0'.repeat(29)}`, true],
    ['decimal(38,9)', '0.0000000001', true],
    ['decimal(38,9)', '1.5000000000000', false],
    ['decimal(38,9)', 'NaN', true],
    ['decimal(10,2)', 'NaN', true],
    ['decimal(10,2)', '-1.20', false],
    ['json', String.raw`{"a":"\ud83d\ude00"}`, false],
    ['json', String.raw`{"a":"\ud83d"}`, true],
  ] as const
  for (const [type, text, refused] of cases)
    assert.equal(outOfRange(type, Buffer.from(text)), refused, `${type} ${text}`)
})
