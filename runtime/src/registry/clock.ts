import { one, type Queryable } from './sql.ts'

/**
 * The earlier of the machine's clock and the database's, in milliseconds since 1970: where one of them was set forward,
 * nothing is taken for older than it is, and removed.
 */
export async function cautiousNowMs(db: Queryable): Promise<number> {
  const { now } = await one<{ now: Date }>(db, 'reading the clock', 'select clock_timestamp() as now', [])
  return Math.min(Date.now(), now.getTime())
}

/** For times that are compared with others that the database writes. */
export async function databaseNow(db: Queryable): Promise<Date> {
  return (await one<{ now: Date }>(db, 'reading the clock', 'select clock_timestamp() as now', [])).now
}
