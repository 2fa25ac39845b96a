/** Schedules of connections: set with the connection, and told with it. */
import { SluiceError } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import { keepSchedule } from '../../jobs/set-schedule.ts'
import { isFault, readConnectionSchedule, type ScheduleText } from '../../manifest/schedule.ts'
import { type Capture, capturesOf } from '../../registry/captures.ts'
import type { Connection } from '../../registry/connections.ts'
import { type Schedule, type Scheduled, scheduledOf, setterOf } from '../../registry/schedules.ts'
import type { Queryable, Transaction } from '../../registry/sql.ts'

/** Throws INVALID_DATA `invalid_schedule`. */
export function scheduleOf(text: ScheduleText, leastMs: number): Schedule {
  const read = readConnectionSchedule(text, leastMs)
  if (!isFault(read)) return read
  const { field, message } = read
  const pointer = field === null ? '/schedule' : `/schedule/${field}`
  throw new SluiceError('INVALID_DATA', `the schedule${field === null ? '' : `’s ${field}`} ${message}`, {
    code: 'invalid_schedule',
    details: { errors: [{ in: 'body', pointer, message }] },
  })
}

/** Null: it has none from now on. The same again changes nothing. */
export function keepConnectionSchedule(
  tx: Transaction,
  { id, tenant }: Pick<Connection, 'id' | 'tenant'>,
  schedule: Schedule | null,
  setter: Principal,
): Promise<void> {
  const wanted = schedule && { schedule, followed: [], setter: setterOf(setter) }
  return keepSchedule(tx, { id, tenant, of: 'connection' }, wanted)
}

/** A connection, with when its runs begin by themselves. */
export interface ScheduledConnection {
  readonly connection: Connection
  readonly scheduled: Scheduled
  /** Of one that is read by the log of its source. */
  readonly capture: Capture | null
}

export async function withSchedules(
  db: Queryable,
  connections: readonly Connection[],
): Promise<readonly ScheduledConnection[]> {
  const ids = connections.map(({ id }) => id)
  const found = await scheduledOf(db, 'connection', ids)
  const captures = await capturesOf(db, ids)
  return connections.map((connection) => ({
    connection,
    scheduled: found.get(connection.id) as Scheduled,
    capture: captures.get(connection.id) ?? null,
  }))
}
