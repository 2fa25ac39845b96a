import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Round } from './live-readers.ts'
import {
  CHART_COLUMNS,
  chartOf,
  inSeconds,
  LINE_HEAD,
  lineOf,
  Picture,
  screenOf,
  type View,
  WIDTH,
} from './live-screen.ts'

const ORDER = { order_no: 7, customer: 'Ada Byron', email: 'ada.byron.7@example.com', status: 'paid', amount: '12.50' }
const TOTALS = { count: 2013, amount: '532200.58', changeNo: 411 }
const ROUND: Round = {
  epoch: 23,
  key: 7,
  viewer: { ...ORDER, customer: '[redacted]', email: '9f'.repeat(32) },
  developer: ORDER,
  realtime: ORDER,
  timeseries: { count: 301, seconds: 10 },
  sql: TOTALS,
  iceberg: TOTALS,
  contradictions: [],
}
const VIEW: View = {
  elapsedS: 31.7,
  totalS: 60,
  isWriting: true,
  isUp: true,
  written: { transactions: 1204, inserted: 800, updated: 1300, deleted: 790, rolledBack: 61, rows: 2010 },
  perSecond: 38,
  recent: ['INSERT 2411 Ada Byron 12.50', 'UPDATE 17 paid 99.10', 'DELETE 884', 'UPDATE 5 is now 2412', 'a', 'b'],
  round: ROUND,
  spread: { count: 1180, p50Ms: 1420, p95Ms: 2900, mostMs: 9100 },
  waiting: 24,
  seconds: [1400, 1500, 9000, null, 'waiting'],
  told: 'killed (-9) amid a sync; answered after 2.16 s, new rows after 6.45 s',
}

test('a screen has room on the smallest usual terminal, whatever is known by then', () => {
  const long = { ...VIEW, told: 'w'.repeat(200), recent: Array.from({ length: 6 }, () => 'x'.repeat(200)) }
  const first = { ...VIEW, round: null, spread: null, seconds: [], recent: [] }
  const many = { ...VIEW, seconds: Array.from({ length: 500 }, (_, at) => at * 10) }
  for (const view of [VIEW, long, first, many, { ...VIEW, isUp: false }]) {
    const lines = screenOf(view)
    assert.ok(lines.length <= 23, lines.join('\n'))
    for (const line of lines) assert.ok(line.length <= WIDTH, line)
  }
})

test('it shows what was written, what is read of it masked and clear, and the epoch', () => {
  const text = screenOf(VIEW).join('\n')
  assert.match(text, /^Sluice, live: 31 of 60 s +epoch 23$/m)
  assert.match(text, /^1,204 transactions, 38 a second .*│ lookup of order 7$/m)
  assert.match(text, /│ {3}as viewer +\[redacted\], paid$/m)
  assert.match(text, /│ {3}as developer +Ada Byron, paid$/m)
  assert.match(text, /SQL +2,013 rows, 532200\.58$/m)
  assert.match(text, /PyIceberg +2,013 rows, 532200\.58$/m)
  assert.match(text, /p50 1\.42 s {2}p95 2\.90 s {2}longest 9\.10 s; 1,180 commits readable, 24 not yet$/m)
  assert.match(screenOf({ ...VIEW, isUp: false }).join('\n'), /the runtime is down$/m)
  assert.match(screenOf({ ...VIEW, isWriting: false }).join('\n'), /^Sluice, live: the writer has stopped +epoch 23$/m)
  const skipped = screenOf({ ...VIEW, round: { ...ROUND, iceberg: 'skipped: no Python has it' } }).join('\n')
  assert.match(skipped, /PyIceberg +skipped: no Python has it$/m)
})

test('answers that contradict each other are shown', () => {
  const round = { ...ROUND, contradictions: ['epoch 23, order 7: lookup and realtime'] }
  assert.match(screenOf({ ...VIEW, round }).join('\n'), /lookup and realtime$/m)
})

test('a chart has bars as high as it took, and marks what is not readable yet', () => {
  assert.deepEqual(chartOf([5000, 2500, 10, null, 'waiting']), [
    '   5 s ┤█',
    '       ┤█',
    '       ┤█▄',
    '       ┤██',
    '   0 s ┤██▁ ·',
  ])
  assert.deepEqual(chartOf([]).at(-1), '   0 s ┤')
  const [top = ''] = chartOf([...Array.from({ length: CHART_COLUMNS }, () => 1000), 3000])
  assert.equal(top.length, WIDTH, 'the newest columns are those that are seen')
  assert.equal(top.at(-1), '█')
})

test('a line a second stands under its head', () => {
  const line = lineOf(VIEW)
  assert.equal(line, '  31 s     23    1,204     1.42 s  [redacted]  Ada Byron        2,013      2,013')
  assert.ok(line.length <= WIDTH && LINE_HEAD.length <= WIDTH)
  assert.equal(LINE_HEAD.indexOf('viewer'), line.indexOf('[redacted]'))
  assert.equal(LINE_HEAD.indexOf('developer'), line.indexOf('Ada'))
  assert.match(lineOf({ ...VIEW, isUp: false }), /^ {2}31 s +down +1,204$/)
  assert.match(lineOf({ ...VIEW, round: null, spread: null }), /^ {2}31 s +– +1,204 +– {2}– +– +– +–$/)
})

test('durations have three figures', () => {
  assert.deepEqual(
    [inSeconds(4), inSeconds(1234), inSeconds(9999), inSeconds(61_234)],
    ['0.00 s', '1.23 s', '10.0 s', '61.2 s'],
  )
})

test('a picture is drawn over the former one, and cut where the terminal ends', () => {
  const written: string[] = []
  const out = { columns: 5, rows: 4, write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream
  const picture = new Picture(out)
  picture.draw(['abcdefgh', '2', '3', '4', '5'])
  picture.draw(['x'])
  picture.leave()
  const [first = '', second = '', last = ''] = written.map((text) => text.replaceAll('\x1b[', '<'))
  assert.equal(first, '<?25l\rabcde<K\n2<K\n3<K\n<J')
  assert.equal(second, '<?25l<3A\rx<K\n<J')
  assert.equal(last, '<?25h')
})
