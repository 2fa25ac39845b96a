import { one, type Queryable } from './sql.ts'

/**
 * The earliest of three clocks, in milliseconds since 1970: the machine's, the database's, and what this process knows of the
 * time by its start and how long it has run. Where they were set forward, nothing is taken for older than it is, and removed.
 */
export async function cautiousNowMs(db: Queryable): Promise<number> {
  const { now } = await one<{ now: Date }>(db, 'reading the clock', 'select clock_timestamp() as now', [])
  return Math.min(Date.now(), now.getTime(), sinceStartMs())
}

/** Goes on evenly, whatever is done to the clock; not while the machine sleeps. */
const sinceStartMs = (): number => performance.timeOrigin + performance.now()

/** By how much the machine's clock went forward since the start of this process, besides the time that has passed. */
export const setForwardMs = (): number => Date.now() - sinceStartMs()

/** For times that are compared with others that the database writes. */
export async function databaseNow(db: Queryable): Promise<Date> {
  return (await one<{ now: Date }>(db, 'reading the clock', 'select clock_timestamp() as now', [])).now
}
