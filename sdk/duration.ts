import { SluiceError } from './errors.ts'

const TTL_UNITS_MS = { h: 3_600_000, d: 86_400_000 } as const

/** `1h`, `24h`, `7d` → milliseconds; null for anything else, zero included. At most ten years. */
export function parseTtl(text: string): number | null {
  const match = /^([1-9]\d{0,5})([hd])$/.exec(text)
  if (!match) return null
  const ttlMs = Number(match[1]) * TTL_UNITS_MS[match[2] as keyof typeof TTL_UNITS_MS]
  return ttlMs <= 3650 * TTL_UNITS_MS.d ? ttlMs : null
}

export const INTERVAL_UNITS = ['minute', 'hour', 'day', 'week', 'month', 'year'] as const

export type IntervalUnit = (typeof INTERVAL_UNITS)[number]

/** A calendar interval in UTC; weeks begin on Monday. */
export interface Interval {
  readonly count: number
  readonly unit: IntervalUnit
}

/** `1 day`, `2 weeks` → `{count, unit}`; null for anything else. */
export function parseInterval(text: string): Interval | null {
  const match = /^([1-9]\d{0,3}) (minute|hour|day|week|month|year)s?$/.exec(text.trim())
  if (!match) return null
  return { count: Number(match[1]), unit: match[2] as IntervalUnit }
}

export function formatInterval(interval: Interval): string {
  return `${interval.count} ${interval.unit}${interval.count === 1 ? '' : 's'}`
}

const UNIT_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000, week: 604_800_000 } as const

/** 1970-01-05, a Monday: weeks are counted from here. */
const FIRST_MONDAY_MS = 4 * 86_400_000

/**
 * The start of the interval that holds the instant, in milliseconds since the epoch, UTC. Intervals of minutes to
 * weeks are counted from 1970-01-01 (weeks from Monday, 1970-01-05), months and years from January 1970.
 */
export function intervalStartMs(interval: Interval, instantMs: number): number {
  if (interval.unit === 'month' || interval.unit === 'year') {
    const span = interval.unit === 'year' ? interval.count * 12 : interval.count
    const date = new Date(instantMs)
    const months = (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()
    return Date.UTC(1970, Math.floor(months / span) * span, 1)
  }
  const span = interval.count * UNIT_MS[interval.unit]
  const origin = interval.unit === 'week' ? FIRST_MONDAY_MS : 0
  return Math.floor((instantMs - origin) / span) * span + origin
}

/** The start of the interval after the one that holds the instant. */
export function intervalEndMs(interval: Interval, instantMs: number): number {
  const start = intervalStartMs(interval, instantMs)
  if (interval.unit === 'month' || interval.unit === 'year') {
    const date = new Date(start)
    const span = interval.unit === 'year' ? interval.count * 12 : interval.count
    return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + span, 1)
  }
  return start + interval.count * UNIT_MS[interval.unit]
}

/** The ttl in milliseconds; throws CONFIG `invalid_ttl` where `text` is none. */
export function ttlMs(text: string): number {
  const parsed = parseTtl(text)
  if (parsed === null) {
    throw new SluiceError('CONFIG', 'the ttl is not a number of hours or days', {
      code: 'invalid_ttl',
      remedy: 'Write a number and h or d, for example 24h.',
    })
  }
  return parsed
}
