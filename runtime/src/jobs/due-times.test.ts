import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Schedule, TimedSchedule } from '../registry/schedules.ts'
import { comesMoreOften, cronFault, dueNow, isTimeZone, nextTick } from './due-times.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const NOW_MS = Date.parse('2026-03-02T10:00:00Z')

const every = (everyMs: number, catchUp: Schedule['catchUp'] = 'one') =>
  ({ every: `${everyMs}`, everyMs, catchUp }) as const
const byClocks = (cron: string, timeZone = 'Europe/Berlin', catchUp: Schedule['catchUp'] = 'one') =>
  ({ cron, timeZone, catchUp }) as const

/** Without what the id adds, which is a whole number of milliseconds below half a minute. */
function minutesOf(schedule: TimedSchedule, from: string, count: number): string[] {
  const found: string[] = []
  for (let at = new Date(from); found.length < count; ) {
    at = nextTick(schedule, 'con_1', at)
    assert.ok(at.getTime() % MINUTE_MS < 30_000)
    found.push(at.toISOString().slice(5, 16))
  }
  return found
}

/** Minute by minute through real time, by what the clocks of the zone show: another way to the same times. */
function walked(
  isNamed: (hour: number, minute: number) => boolean,
  zone: string,
  from: string,
  hours: number,
): string[] {
  const clocks = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' })
  const found: string[] = []
  for (let at = Date.parse(from) + MINUTE_MS; at <= Date.parse(from) + hours * HOUR_MS; at += MINUTE_MS) {
    const [hour, minute] = clocks.format(at).split(':').map(Number) as [number, number]
    if (isNamed(hour, minute)) found.push(new Date(at).toISOString().slice(5, 16))
  }
  return found
}

describe('a cron expression where the clocks change', () => {
  const cases: readonly (readonly [string, string, (hour: number, minute: number) => boolean])[] = [
    ['0 * * * *', 'Europe/Berlin', (_, minute) => minute === 0],
    ['*/20 * * * *', 'Europe/Berlin', (_, minute) => minute % 20 === 0],
    ['17 */2 * * *', 'America/New_York', (hour, minute) => hour % 2 === 0 && minute === 17],
    ['30 * * * *', 'Australia/Lord_Howe', (_, minute) => minute === 30],
    ['0 5,17 * * *', 'Europe/Berlin', (hour, minute) => minute === 0 && (hour === 5 || hour === 17)],
  ]
  for (const [cron, zone, isNamed] of cases) {
    it(`${cron} in ${zone} ticks whenever the clocks show it, in both changes of a year`, () => {
      // Days of changes of all these zones, and the days beside them. What a gap leaves out is told below.
      const starts = ['2026-10-24T12:00:00Z', '2026-10-31T12:00:00Z', '2026-03-08T12:00:00Z', '2026-06-01T00:00:00Z']
      for (const from of starts) {
        const oracle = walked(isNamed, zone, from, 48)
        assert.deepEqual(
          minutesOf(byClocks(cron, zone), from.replace('00Z', '59Z'), oracle.length),
          oracle,
          `${cron} ${zone} ${from}`,
        )
      }
    })
  }

  it('in the spring a time that is left out comes as much later, and once', () => {
    const from = '2026-03-28T12:00:00Z'
    assert.deepEqual(minutesOf(byClocks('30 2 * * *'), from, 2), ['03-29T01:30', '03-30T00:30'])
    assert.deepEqual(minutesOf(byClocks('30 * * * *'), '2026-03-28T23:59:00Z', 3), [
      '03-29T00:30',
      '03-29T01:30',
      '03-29T02:30',
    ])
    assert.deepEqual(minutesOf(byClocks('0 3 * * *'), from, 2), ['03-29T01:00', '03-30T01:00'])
  })

  it('in the autumn a time that comes twice counts once, where its hour is named', () => {
    const from = '2026-10-24T12:00:00Z'
    assert.deepEqual(minutesOf(byClocks('30 2 * * *'), from, 2), ['10-25T00:30', '10-26T01:30'])
    assert.deepEqual(minutesOf(byClocks('30 1-3 * * *'), from, 4), [
      '10-24T23:30',
      '10-25T00:30',
      '10-25T02:30',
      '10-26T00:30',
    ])
    assert.deepEqual(minutesOf(byClocks('30 2 * * *'), '2026-10-25T00:45:00Z', 1), ['10-26T01:30'])
  })
})

describe('every', () => {
  it('ticks as a walk in steps of it does, from any moment, each id in its own place', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5_000 }), fc.nat(50_000), fc.string(), (everyMs, offset, id) => {
        const from = new Date(NOW_MS + offset)
        const first = nextTick(every(everyMs), id, from).getTime()
        assert.ok(first > from.getTime() && first <= from.getTime() + everyMs)
        let at = first
        for (let step = 1; step <= 20; step += 1) {
          at = nextTick(every(everyMs), id, new Date(at)).getTime()
          assert.equal(at, first + step * everyMs)
        }
      }),
      { numRuns: 200 },
    )
  })

  it('of 10,000 that were set at one moment no second has many', () => {
    const seconds = new Map<number, number>()
    for (let id = 0; id < 10_000; id += 1) {
      const at = Math.floor(nextTick(every(HOUR_MS), `con_${id}`, new Date(NOW_MS)).getTime() / 1000)
      seconds.set(at, (seconds.get(at) ?? 0) + 1)
    }
    assert.ok(Math.max(...seconds.values()) < 20, String(Math.max(...seconds.values())))
    assert.ok(seconds.size > 3_000)
  })

  it('of 10,000 with one cron expression none comes before its time, and no second of the half minute after it has many', () => {
    const seconds = new Map<number, number>()
    const [after, due] = [new Date('2026-03-02T03:00:30Z'), Date.parse('2026-03-02T04:00:00Z')]
    for (let id = 0; id < 10_000; id += 1) {
      const lateMs = nextTick(byClocks('0 * * * *', 'UTC'), `con_${id}`, after).getTime() - due
      assert.ok(lateMs >= 0 && lateMs < 30_000, `con_${id}: ${lateMs} ms`)
      const second = Math.floor(lateMs / 1_000)
      seconds.set(second, (seconds.get(second) ?? 0) + 1)
    }
    assert.equal(seconds.size, 30)
    assert.ok(Math.max(...seconds.values()) < 450, String(Math.max(...seconds.values())))
  })
})

describe('ticks that nobody saw to', () => {
  /** What is begun by a runtime that looks at these moments, counted by nothing but the ticks themselves. */
  function begun(
    schedule: TimedSchedule,
    lookedAt: readonly number[],
  ): { readonly runs: number[]; readonly tickedAt: Date } {
    const runs: number[] = []
    let tickedAt = new Date(NOW_MS)
    for (const nowMs of lookedAt) {
      const due = dueNow(schedule, 'id', { tickedAt, now: new Date(nowMs) })
      if (due.tick !== null) runs.push(due.tick.getTime())
      tickedAt = due.tickedAt
    }
    return { runs, tickedAt }
  }

  it('are made up for as catch_up says: by an oracle that lists all ticks', () => {
    const gaps = fc.array(fc.integer({ min: 1, max: 90 * MINUTE_MS }), { minLength: 1, maxLength: 30 })
    fc.assert(
      fc.property(
        fc.integer({ min: MINUTE_MS, max: HOUR_MS }),
        gaps,
        fc.constantFrom('none', 'one', 'all'),
        (everyMs, waits, catchUp) => {
          const first = nextTick(every(everyMs), 'id', new Date(NOW_MS)).getTime()
          let nowMs = NOW_MS
          let oldest = first
          for (const wait of waits) {
            nowMs += wait
            const all: number[] = []
            for (let at = oldest; at <= nowMs; at += everyMs) all.push(at)
            const looks = catchUp === 'all' ? all.length + 1 : 2
            const from = new Date(oldest - everyMs)
            const seen: number[] = []
            let tickedAt = from
            for (let look = 0; look < looks; look += 1) {
              const due = dueNow(every(everyMs, catchUp), 'id', { tickedAt, now: new Date(nowMs) })
              if (due.tick !== null) seen.push(due.tick.getTime())
              tickedAt = due.tickedAt
            }
            const last = all.at(-1)
            const late = last !== undefined && nowMs - last > 5 * MINUTE_MS
            const expected = catchUp === 'all' ? all : last === undefined || (catchUp === 'none' && late) ? [] : [last]
            assert.deepEqual(seen, expected)
            if (last !== undefined) oldest = last + everyMs
          }
        },
      ),
      { numRuns: 200 },
    )
  })

  it('one by one go back a day, and always to the newest', () => {
    const due = (schedule: TimedSchedule, days: number) =>
      dueNow(schedule, 'id', { tickedAt: new Date(NOW_MS), now: new Date(NOW_MS + days * DAY_MS) }).tick?.getTime()
    const hourly = due(every(HOUR_MS, 'all'), 30) as number
    assert.ok(hourly > NOW_MS + 29 * DAY_MS && hourly <= NOW_MS + 29 * DAY_MS + HOUR_MS)
    assert.ok((due(every(7 * DAY_MS, 'all'), 30) as number) < NOW_MS + 30 * DAY_MS)
  })

  it('a clock that is set forward by a year makes one run, and one that is set back goes on by the new time', () => {
    for (const schedule of [every(MINUTE_MS), byClocks('*/5 * * * *')]) {
      const year = NOW_MS + 365 * DAY_MS
      const forward = begun(schedule, [year, year + 1])
      assert.equal(forward.runs.length, 1)
      const back = dueNow(schedule, 'id', { tickedAt: forward.tickedAt, now: new Date(NOW_MS) })
      assert.deepEqual([back.tick, back.tickedAt], [null, new Date(NOW_MS)])
      const next = nextTick(schedule, 'id', back.tickedAt).getTime()
      assert.ok(next <= NOW_MS + 6 * MINUTE_MS)
    }
  })

  it('set back by less than an interval, no tick comes twice', () => {
    const first = nextTick(every(HOUR_MS), 'id', new Date(NOW_MS)).getTime()
    const looks = [first, first - 30 * MINUTE_MS, first, first + 1, first + HOUR_MS]
    assert.deepEqual(begun(every(HOUR_MS), looks).runs, [first, first + HOUR_MS])
  })
})

describe('a schedule that is refused', () => {
  it('names what is no cron expression, and days that no month has', () => {
    const wrong = [
      '',
      '* * * *',
      '* * * * * *',
      '@daily',
      '61 * * * *',
      '0 24 * * *',
      'a b c d e',
      '*/0 * * * *',
      '0 0 30 2 *',
      '0 0 31 2,4,6,9,11 *',
    ]
    for (const text of wrong) assert.notEqual(cronFault(text), null, text)
    for (const text of ['0 6 * * MON-FRI', '*/5 * * * *', '0 0 29 2 *', '0 0 L * *', '15 3 1 JAN,JUL *']) {
      assert.equal(cronFault(text), null, text)
    }
  })

  it('knows time zones by their names, and the shortest time between two ticks', () => {
    assert.deepEqual(['Europe/Berlin', 'UTC', 'Nowhere/Else', '', '+01:00'].map(isTimeZone), [
      true,
      true,
      false,
      false,
      false,
    ])
    for (const schedule of [byClocks('0,5 6 * * *'), every(5 * MINUTE_MS)]) {
      const isTooOften = [5 * MINUTE_MS, 5 * MINUTE_MS + 1].map((leastMs) =>
        comesMoreOften(schedule, leastMs, new Date(NOW_MS)),
      )
      assert.deepEqual(isTooOften, [false, true])
    }
  })

  it('are looked at by the arithmetic of UTC, and not by the calendar of a zone, which takes ten times as long', () => {
    const { DateTimeFormat } = Intl
    let made = 0
    const counting = new Proxy(DateTimeFormat, {
      construct(target, args) {
        made += 1
        return Reflect.construct(target, args)
      },
    })
    Intl.DateTimeFormat = counting
    try {
      assert.equal(cronFault('13 4 29 2 *'), null)
      comesMoreOften(byClocks('13 4 29 2 *', 'Asia/Tokyo'), HOUR_MS, new Date(NOW_MS))
    } finally {
      Intl.DateTimeFormat = DateTimeFormat
    }
    assert.ok(made <= 1, `${made} calendars were made`)
  })
})
