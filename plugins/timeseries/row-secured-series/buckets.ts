/** Time in intervals: the same buckets in JavaScript (`intervalStartMs`) and in SQL. */
import { type CsvChunk, type Interval, SluiceError } from '@sluice/sdk'

export type TimeType = 'date' | 'timestamp' | 'timestamptz'

function utc(type: TimeType, time: string): string {
  if (type === 'timestamptz') return `(${time} at time zone 'UTC')`
  return type === 'date' ? `${time}::timestamp` : time
}

/** The start of the bucket that holds the time, as timestamptz. */
export function bucketOf(interval: Interval, type: TimeType, time: string): string {
  const instant = utc(type, time)
  const { count, unit } = interval
  if (unit !== 'month' && unit !== 'year') {
    const origin = unit === 'week' ? '1970-01-05' : '1970-01-01'
    return `(date_bin(interval '${count} ${unit}', ${instant}, timestamp '${origin}') at time zone 'UTC')`
  }
  const span = unit === 'year' ? count * 12 : count
  const months = `((extract(year from ${instant}) - 1970) * 12 + extract(month from ${instant}) - 1)`
  const start = `timestamp '1970-01-01' + interval '1 month' * (floor(${months} / ${span}) * ${span})::integer`
  return `((${start}) at time zone 'UTC')`
}

/** The start of the bucket after the one that begins at `bucket` (timestamptz). */
export function bucketAfter(interval: Interval, bucket: string): string {
  return `((${bucket} at time zone 'UTC' + interval '${interval.count} ${interval.unit}') at time zone 'UTC')`
}

/** A bucket's edge as a value of the time column's type. */
export function edgeAs(type: TimeType, edge: string): string {
  if (type === 'timestamptz') return edge
  const instant = `(${edge} at time zone 'UTC')`
  return type === 'date' ? `${instant}::date` : instant
}

const TIME = /^(\d{4,5})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?$/

export interface ParsedTime {
  /** Rounded down. */
  readonly ms: number
  /** Microseconds beyond the millisecond are left. */
  readonly rest: boolean
}

/** A time of the contract or of PostgreSQL; without a zone it is UTC. Null for what is none. */
export function parseTime(text: string): ParsedTime | null {
  const match = TIME.exec(text)
  if (!match) return null
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = match
  const digits = fraction.padEnd(6, '0')
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  date.setUTCHours(Number(hour), Number(minute), Number(second), Number(digits.slice(0, 3)))
  return { ms: date.getTime() - zoneMs(zone), rest: Number(digits.slice(3)) > 0 }
}

function zoneMs(zone: string): number {
  if (zone === 'Z') return 0
  const digits = zone.slice(1).replace(':', '').padEnd(4, '0')
  const minutes = Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))
  return (zone.startsWith('-') ? -minutes : minutes) * 60_000
}

/** Times that differ in what follows these characters lie in one minute, hour or day. */
const SIGNIFICANT = { minute: 16, hour: 13, day: 10, week: 10, month: 10, year: 10 } as const

/**
 * One instant for each minute, hour or day that the column's values fall into, finer than the interval. Throws
 * INVALID_DATA `missing_time` for a null, `time_out_of_range` for what no partition could hold.
 */
export async function distinctTimes(csv: AsyncIterable<CsvChunk>, interval: Interval): Promise<readonly number[]> {
  const significant = SIGNIFICANT[interval.unit]
  const seen = new Set<string>()
  const instants: number[] = []
  for await (const line of linesOf(csv)) {
    const key = line.slice(0, significant + 1) + zoneOf(line)
    if (seen.has(key)) continue
    seen.add(key)
    instants.push(instantOf(line.replaceAll('"', '')))
  }
  return instants
}

/** What would move the time to another day; mostly nothing, and then without a search. */
function zoneOf(line: string): string {
  if (line.length <= 21 || line.endsWith('Z"') || line.endsWith('+00"')) return ''
  return /[+-]\d\d(?::?\d\d)?"$/.exec(line)?.[0] ?? ''
}

function instantOf(text: string): number {
  if (text === '') throw missingTime()
  const time = parseTime(text)
  if (time) return time.ms
  throw new SluiceError('INVALID_DATA', 'a row’s time is no date of the years 1 to 99999', {
    code: 'time_out_of_range',
    remedy: 'Leave out or correct such rows, for example with a quality check of kind range.',
  })
}

export function missingTime(): SluiceError {
  return new SluiceError('INVALID_DATA', 'a row of a timeseries has no time', {
    code: 'missing_time',
    remedy:
      'Leave out rows without a time, for example with a quality check of kind not_null, or name another time_column.',
  })
}

async function* linesOf(csv: AsyncIterable<CsvChunk>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of csv) {
    const lines = (rest + Buffer.from(chunk).toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}
