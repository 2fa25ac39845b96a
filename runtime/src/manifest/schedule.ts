/** A schedule as people write it, on a connection and in compute.yaml. */
import { comesMoreOften, cronFault, isTimeZone } from '../jobs/due-times.ts'
import type { CATCH_UPS, Schedule } from '../registry/schedules.ts'
import { parseDuration } from './durations.ts'

export interface ScheduleText {
  readonly every?: string
  readonly cron?: string
  readonly time_zone?: string
  readonly catch_up?: (typeof CATCH_UPS)[number]
}

/** What is wrong with one field of it. */
export interface ScheduleFault {
  readonly field: keyof ScheduleText | null
  readonly message: string
}

/** @param leastMs between two runs, as the operator has set it */
export function readSchedule(
  { every, cron, time_zone: timeZone = 'UTC', catch_up: catchUp = 'one' }: ScheduleText,
  leastMs: number,
): Schedule | ScheduleFault {
  if ((every === undefined) === (cron === undefined))
    return { field: null, message: 'has either every, as in 15m, or cron, as in 0 6 * * MON-FRI' }
  if (every !== undefined) {
    if (timeZone !== 'UTC')
      return { field: 'time_zone', message: 'is for cron, and every goes by no clock. Leave it out' }
    const everyMs = parseDuration(every)
    if (everyMs === null)
      return { field: 'every', message: 'is no duration. Write a number and s, m, h or d: 15m, 24h' }
    return enough({ every, everyMs, catchUp }, 'every', leastMs)
  }
  const fault = cronFault(cron as string)
  if (fault !== null) return { field: 'cron', message: fault }
  if (!isTimeZone(timeZone))
    return { field: 'time_zone', message: 'is no time zone. Write its name: UTC, Europe/Berlin' }
  return enough({ cron: cron as string, timeZone, catchUp }, 'cron', leastMs)
}

export function isFault(read: Schedule | ScheduleFault): read is ScheduleFault {
  return 'message' in read
}

function enough(schedule: Schedule, field: 'every' | 'cron', leastMs: number): Schedule | ScheduleFault {
  if (!comesMoreOften(schedule, leastMs, new Date())) return schedule
  return { field, message: `comes more often than every ${leastMs / 1000} seconds, which is the least here` }
}

/** As `readSchedule` reads it. */
export function scheduleText(schedule: Schedule): ScheduleText {
  const { catchUp: catch_up } = schedule
  if ('everyMs' in schedule) return { every: schedule.every, catch_up }
  return { cron: schedule.cron, time_zone: schedule.timeZone, catch_up }
}
