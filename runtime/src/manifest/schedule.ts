/** A schedule as people write it, on a connection and in compute.yaml. */
import { comesMoreOften, cronFault, isTimeZone } from '../jobs/due-times.ts'
import type { CATCH_UPS, ContinuousSchedule, ProductSchedule, Schedule, TimedSchedule } from '../registry/schedules.ts'
import { parseDuration } from './durations.ts'

export interface ScheduleText {
  readonly every?: string
  readonly cron?: string
  readonly time_zone?: string
  /** Products: `namespace.name`. */
  readonly after?: readonly string[]
  readonly max_age?: string
  /** Connections. */
  readonly continuous?: { readonly max_delay?: string }
  readonly catch_up?: (typeof CATCH_UPS)[number]
}

/** What is wrong with one field of it. */
export interface ScheduleFault {
  readonly field: keyof ScheduleText | null
  readonly message: string
}

const WAYS = {
  every: 'every, as in 15m',
  cron: 'cron, as in 0 6 * * MON-FRI',
  after: 'after, a list of products',
  max_age: 'max_age, as in 1h',
  continuous: 'continuous, as in {max_delay: 1s}',
} as const

type Way = keyof typeof WAYS

/** @param leastMs between two runs, as the operator has set it */
export function readSchedule(
  text: ScheduleText,
  leastMs: number,
  ways: readonly Way[] = ['every', 'cron', 'after', 'max_age'],
): ProductSchedule | ScheduleFault {
  const [way, ...others] = ways.filter((name) => text[name] !== undefined)
  if (way === undefined || others.length > 0) {
    const known = ways.map((name) => WAYS[name])
    return { field: null, message: `has one of ${known.slice(0, -1).join(', ')}, and ${known.at(-1)}` }
  }
  const { time_zone: timeZone, catch_up: catchUp = 'one' } = text
  if (timeZone !== undefined && way !== 'cron' && (way !== 'every' || timeZone !== 'UTC'))
    return { field: 'time_zone', message: `is for cron, and ${way} goes by no clock. Leave it out` }
  switch (way) {
    case 'every':
      return everyOf(text.every as string, catchUp, leastMs)
    case 'cron':
      return cronOf({ cron: text.cron as string, timeZone: timeZone ?? 'UTC', catchUp }, leastMs)
    default:
      if (text.catch_up !== undefined)
        return { field: 'catch_up', message: `is for every and cron: ${way} names no times that could be missed` }
      return way === 'after' ? { after: text.after as readonly string[], catchUp } : maxAgeOf(text, leastMs)
  }
}

/** A connection is made of no products that it could come after; its changes can be followed. */
export function readConnectionSchedule(text: ScheduleText, leastMs: number): Schedule | ScheduleFault {
  const ways = ['every', 'cron', 'max_age', 'continuous'] as const
  const isAlone = Object.values(text).filter((value) => value !== undefined).length === 1
  if (text.continuous !== undefined && isAlone) return continuousOf(text.continuous)
  const field = (['time_zone', 'catch_up'] as const).find((name) => text[name] !== undefined)
  const isOther = ways.some((way) => way !== 'continuous' && text[way] !== undefined)
  if (text.continuous !== undefined && field !== undefined && !isOther)
    return { field, message: 'is for schedules that go by clocks, and continuous goes by changes. Leave it out' }
  return readSchedule(text, leastMs, ways)
}

export function isFault(read: Schedule | ScheduleFault): read is ScheduleFault {
  return 'message' in read
}

function everyOf(every: string, catchUp: Schedule['catchUp'], leastMs: number): ProductSchedule | ScheduleFault {
  const everyMs = parseDuration(every)
  return everyMs === null ? noDuration('every') : enough({ every, everyMs, catchUp }, 'every', leastMs)
}

function cronOf(
  schedule: Extract<Schedule, { readonly cron: string }>,
  leastMs: number,
): ProductSchedule | ScheduleFault {
  const fault = cronFault(schedule.cron)
  if (fault !== null) return { field: 'cron', message: fault }
  if (!isTimeZone(schedule.timeZone))
    return { field: 'time_zone', message: 'is no time zone. Write its name: UTC, Europe/Berlin' }
  return enough(schedule, 'cron', leastMs)
}

function maxAgeOf({ max_age: maxAge = '' }: ScheduleText, leastMs: number): ProductSchedule | ScheduleFault {
  const maxAgeMs = parseDuration(maxAge)
  if (maxAgeMs === null) return noDuration('max_age')
  if (maxAgeMs >= leastMs) return { maxAge, maxAgeMs, catchUp: 'one' }
  return {
    field: 'max_age',
    message: `is shorter than ${leastMs / 1000} seconds, which is the least here between two runs`,
  }
}

export const DEFAULT_MAX_DELAY = '1s'
/** Less than a run takes would change nothing. */
const LEAST_DELAY_MS = 100
const MOST_DELAY_MS = 3_600_000

/** It goes by what changes: the least between two runs is of those that begin whether anything has changed or not. */
function continuousOf({
  max_delay: maxDelay = DEFAULT_MAX_DELAY,
}: NonNullable<ScheduleText['continuous']>): ContinuousSchedule | ScheduleFault {
  const maxDelayMs = parseDelay(maxDelay)
  if (maxDelayMs === null)
    return { field: 'continuous', message: 'has a max_delay that is no duration, such as 500ms, 1s or 1m' }
  if (maxDelayMs >= LEAST_DELAY_MS && maxDelayMs <= MOST_DELAY_MS) return { maxDelay, maxDelayMs, catchUp: 'one' }
  return { field: 'continuous', message: 'has a max_delay that is not between 100ms and 1h' }
}

function parseDelay(text: string): number | null {
  const ms = /^([1-9]\d{0,4})ms$/.exec(text)?.[1]
  return ms === undefined ? parseDuration(text) : Number(ms)
}

function noDuration(field: 'every' | 'max_age'): ScheduleFault {
  return { field, message: 'is no duration. Write a number and s, m, h or d: 15m, 24h' }
}

function enough(schedule: TimedSchedule, field: 'every' | 'cron', leastMs: number): ProductSchedule | ScheduleFault {
  if (!comesMoreOften(schedule, leastMs, new Date())) return schedule
  return { field, message: `comes more often than every ${leastMs / 1000} seconds, which is the least here` }
}

/** As `readSchedule` reads it. */
export function scheduleText(schedule: Schedule): ScheduleText {
  if ('after' in schedule) return { after: schedule.after }
  if ('maxAgeMs' in schedule) return { max_age: schedule.maxAge }
  if ('maxDelayMs' in schedule) return { continuous: { max_delay: schedule.maxDelay } }
  const { catchUp: catch_up } = schedule
  if ('everyMs' in schedule) return { every: schedule.every, catch_up }
  return { cron: schedule.cron, time_zone: schedule.timeZone, catch_up }
}
