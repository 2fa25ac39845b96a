/**
 * When a schedule ticks: pure functions of the schedule, its id and the moment. The id gives each its own place within
 * the interval, or within half a minute after the time that its cron expression names, so that what was set by one
 * script is not due at one moment.
 */
import { hash } from 'node:crypto'
import { Cron } from 'croner'
import { LRUCache } from 'lru-cache'
import type { SkipReason, TimedSchedule } from '../registry/schedules.ts'

const HOUR_MS = 3_600_000
const MOST_JITTER_MS = 30_000
/** No zone sets its clocks by more at once. */
const SHIFT_MS = 3 * HOUR_MS
/** What is later than this was missed: nobody was there to see to it. */
const LATE_MS = 5 * 60_000
/** Of ticks that are made up for one by one, how long ago the oldest may be. */
const CATCH_UP_MS = 24 * HOUR_MS

/** The first tick after that moment. */
export function nextTick(schedule: TimedSchedule, id: string, after: Date): Date {
  if ('everyMs' in schedule) {
    const { everyMs } = schedule
    const phase = spread(id, everyMs)
    return new Date((Math.floor((after.getTime() - phase) / everyMs) + 1) * everyMs + phase)
  }
  const jitter = spread(id, MOST_JITTER_MS)
  return new Date(nextByClocks(schedule, after.getTime() - jitter) + jitter)
}

/** Evenly among milliseconds from 0 to below `within`; of an id always the same. */
function spread(id: string, within: number): number {
  return Number(BigInt(`0x${hash('sha256', id).slice(0, 16)}`) % BigInt(within))
}

/** The newest tick after `after` and not after `until`; null where there is none. */
function lastTick(schedule: TimedSchedule, id: string, after: Date, until: Date): Date | null {
  for (let backMs = 60_000; ; backMs *= 4) {
    const from = Math.max(after.getTime(), until.getTime() - backMs)
    let last: Date | null = null
    for (let at = nextTick(schedule, id, new Date(from)); at <= until; at = nextTick(schedule, id, at)) last = at
    if (last !== null || from === after.getTime()) return last
  }
}

export interface Due {
  /** That a run is to begin for; null: none. */
  readonly tick: Date | null
  /** Seen to with this: ticks until then are past. */
  readonly tickedAt: Date
  /** The newest that is let go. */
  readonly skipped: { readonly at: Date; readonly reason: SkipReason } | null
}

/**
 * What is due by a clock that may have been set. Forward: that is a time that nobody was there. Back by more than from one
 * tick to the next: it goes on by the new time; by less: no tick comes twice.
 */
export function dueNow(schedule: TimedSchedule, id: string, { tickedAt, now }: { tickedAt: Date; now: Date }): Due {
  const next = nextTick(schedule, id, tickedAt)
  const isSetBack = tickedAt.getTime() - now.getTime() > next.getTime() - tickedAt.getTime()
  if (isSetBack) return { tick: null, tickedAt: now, skipped: null }
  const last = lastTick(schedule, id, tickedAt, now)
  if (last === null) return { tick: null, tickedAt, skipped: null }
  if (schedule.catchUp === 'none' && now.getTime() - last.getTime() > LATE_MS) {
    return { tick: null, tickedAt: last, skipped: { at: last, reason: 'missed' } }
  }
  if (schedule.catchUp !== 'all') return { tick: last, tickedAt: last, skipped: null }
  const from = new Date(Math.max(tickedAt.getTime(), now.getTime() - CATCH_UP_MS))
  const first = nextTick(schedule, id, from)
  const tick = first <= last ? first : last
  return { tick, tickedAt: tick, skipped: null }
}

export interface AgeDue {
  /** Since when the rows are, that are there; null: there are none. */
  readonly readAt: Date | null
  /** Since when they would be after a run; null: a run would find none. */
  readonly offeredAt: Date | null
  readonly now: Date
}

export interface DueByAge {
  readonly isDue: boolean
  /** When the rows are that old; null: there are none. */
  readonly at: Date | null
  /** They are that old, and a run would leave them so. */
  readonly lacks: SkipReason | null
}

/** A clock that was set back makes rows of the future, which count as of now. */
export function dueByAge(maxAgeMs: number, { readAt, offeredAt, now }: AgeDue): DueByAge {
  if (readAt === null)
    return { isDue: offeredAt !== null, at: null, lacks: offeredAt === null ? 'inputs_not_newer' : null }
  const at = new Date(Math.min(readAt.getTime(), now.getTime()) + maxAgeMs)
  if (at > now) return { isDue: false, at, lacks: null }
  const isNewer = offeredAt !== null && offeredAt > readAt
  return { isDue: isNewer, at, lacks: isNewer ? null : 'inputs_not_newer' }
}

type ByClocks = Extract<TimedSchedule, { readonly cron: string }>

/**
 * The next moment whose clocks the expression names, in milliseconds. A time that the clocks leave out is as much later
 * that day; an hour that they show twice counts once, unless the field of hours begins with `*`.
 */
function nextByClocks(schedule: ByClocks, afterMs: number): number {
  const { cron, clocks, isEachHour } = parsed(schedule)
  const nextShown = (shownMs: number): number => {
    const next = cron.nextRun(new Date(shownMs))
    if (next === null) throw new RangeError('the expression names no time')
    return next.getTime()
  }
  const before = clocks(afterMs)
  const shown = nextShown(afterMs + before)
  const plain = shown - before
  const isSteady = clocks(afterMs - SHIFT_MS) === before && clocks(afterMs + SHIFT_MS) === before
  if (isSteady && plain <= afterMs + SHIFT_MS) return plain
  let best = Number.POSITIVE_INFINITY
  for (let at = nextShown(afterMs + before - SHIFT_MS); at - before - SHIFT_MS <= best; at = nextShown(at)) {
    const moments = momentsOf(at, clocks)
    for (const moment of isEachHour ? moments : moments.slice(0, 1)) {
      if (moment > afterMs && moment < best) best = moment
    }
  }
  return best
}

/** When the clocks show that, the first moment first: one, or two in the hour that comes twice. */
function momentsOf(shownMs: number, clocks: Clocks): readonly number[] {
  const offsets = [...new Set([clocks(shownMs - 24 * HOUR_MS), clocks(shownMs + 24 * HOUR_MS)])]
  const moments = offsets.map((offset) => shownMs - offset).filter((moment) => clocks(moment) === shownMs - moment)
  // Left out: by the clocks of before, which gives a time as much later.
  return moments.length === 0 ? [shownMs - (offsets[0] as number)] : moments.sort((a, b) => a - b)
}

/** How far the clocks of a zone are ahead of UTC at a moment; both in milliseconds. */
type Clocks = (atMs: number) => number

interface Parsed {
  /** Of what clocks show, as if they showed UTC. */
  readonly cron: Cron
  readonly clocks: Clocks
  readonly isEachHour: boolean
}

const known = new LRUCache<string, Parsed>({ max: 1000 })

function parsed({ cron: text, timeZone }: ByClocks): Parsed {
  const key = `${timeZone} ${text}`
  const found = known.get(key)
  if (found !== undefined) return found
  const cron = new Cron(text, { utcOffset: 0, mode: '5-part', paused: true })
  const made = { cron, clocks: clocksOf(timeZone), isEachHour: text.trim().split(/ +/)[1]?.startsWith('*') === true }
  known.set(key, made)
  return made
}

function clocksOf(timeZone: string): Clocks {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  return (atMs) => {
    const whole = Math.floor(atMs / 1000) * 1000
    const parts = Object.fromEntries(format.formatToParts(whole).map(({ type, value }) => [type, Number(value)]))
    const { year = 0, month = 1, day, hour, minute, second } = parts
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole
  }
}

const EXPRESSION = /^[0-9A-Za-z*,/#-]{1,60}( +[0-9A-Za-z*,/#-]{1,60}){4}$/

/** Null where the expression is one, and its times come. */
export function cronFault(text: string): string | null {
  if (!EXPRESSION.test(text)) return NO_CRON
  try {
    return new Cron(text, { utcOffset: 0, mode: '5-part', paused: true }).nextRun() === null ? NEVER : null
  } catch {
    return NO_CRON
  }
}

const NEVER = 'names a day that no month has'
const NO_CRON =
  'is no cron expression. Write minute (0-59), hour (0-23), day of month (1-31), month (1-12) and weekday (0-7 or SUN-SAT): 0 6 * * MON-FRI'

export function isTimeZone(name: string): boolean {
  try {
    return /^[A-Za-z]/.test(name) && new Intl.DateTimeFormat('en-US', { timeZone: name }) !== null
  } catch {
    return false
  }
}

const GAPS_LOOKED_AT = 100
const MINUTE_MS = 60_000

/** Whether a tick may follow another sooner than that; of an expression the next hundred are looked at. */
export function comesMoreOften(schedule: TimedSchedule, leastMs: number, now: Date): boolean {
  if ('everyMs' in schedule) return schedule.everyMs < leastMs
  // An expression names minutes: looking at its times takes too long to do it for nothing.
  return leastMs > MINUTE_MS && shortestGapMs(schedule, now) < leastMs
}

function shortestGapMs(schedule: ByClocks, now: Date): number {
  let least = Number.POSITIVE_INFINITY
  for (let at = nextByClocks(schedule, now.getTime()), left = GAPS_LOOKED_AT; left > 0; left -= 1) {
    const next = nextByClocks(schedule, at)
    least = Math.min(least, next - at)
    at = next
  }
  return least
}
