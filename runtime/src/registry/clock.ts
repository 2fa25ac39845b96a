import { one, type Queryable } from './sql.ts'

/**
 * The earliest of three clocks, in milliseconds since 1970: the machine's, the database's, and what this process knows of the
 * time by its start and how long it has run. Where they were set forward, nothing is taken for older than it is, and removed.
 */
export async function cautiousNowMs(db: Queryable): Promise<number> {
  return Math.min((await databaseNow(db)).getTime(), Date.now(), sinceStartMs())
}

/** By how much the database's clock is ahead of that: what it says is old is so much younger, perhaps. Never less than nothing. */
export async function databaseAheadMs(db: Queryable): Promise<number> {
  const nowMs = (await databaseNow(db)).getTime()
  return Math.max(0, nowMs - Math.min(Date.now(), sinceStartMs()))
}

/** No clock of this release is right before it: a machine without one of its own begins in 1970. Milliseconds since then. */
export const EARLIEST_MS = Date.UTC(2026, 0, 1)

/** Goes on evenly, whatever is done to the clock; not while the machine sleeps. Endless where it began with a clock that cannot be. */
function sinceStartMs(): number {
  const sinceMs = performance.timeOrigin + performance.now()
  return sinceMs < EARLIEST_MS ? Number.POSITIVE_INFINITY : sinceMs
}

/** By how much the machine's clock went forward since the start of this process, besides the time that has passed. */
export const setForwardMs = (): number => Date.now() - sinceStartMs()

/** For times that are compared with others that the database writes. */
export async function databaseNow(db: Queryable): Promise<Date> {
  return (await one<{ now: Date }>(db, 'reading the clock', 'select clock_timestamp() as now', [])).now
}
