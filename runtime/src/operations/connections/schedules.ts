/** Schedules of connections: set with the connection, and told with it. */
import { SluiceError } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import { forgetJob, ringForJobs, setJobDue } from '../../jobs/claims.ts'
import { nextTick } from '../../jobs/due-times.ts'
import { SCHEDULE_JOB } from '../../jobs/ticks.ts'
import { isFault, readSchedule, type ScheduleText } from '../../manifest/schedule.ts'
import { databaseNow } from '../../registry/clock.ts'
import type { Connection } from '../../registry/connections.ts'
import { removeSchedule, type Schedule, type Scheduled, scheduledOf, setSchedule } from '../../registry/schedules.ts'
import type { Queryable, Transaction } from '../../registry/sql.ts'

/** Throws INVALID_DATA `invalid_schedule`. */
export function scheduleOf(text: ScheduleText, leastMs: number): Schedule {
  const read = readSchedule(text, leastMs)
  if (!isFault(read)) return read
  const { field, message } = read
  const pointer = field === null ? '/schedule' : `/schedule/${field}`
  throw new SluiceError('INVALID_DATA', `the schedule${field === null ? '' : `’s ${field}`} ${message}`, {
    code: 'invalid_schedule',
    details: { errors: [{ in: 'body', pointer, message }] },
  })
}

/** Null: it has none from now on. The same again changes nothing. */
export async function keepSchedule(
  tx: Transaction,
  { id, tenant }: Pick<Connection, 'id' | 'tenant'>,
  schedule: Schedule | null,
  setter: Principal,
): Promise<void> {
  if (schedule === null) {
    if (await removeSchedule(tx, id)) await forgetJob(tx, { kind: SCHEDULE_JOB, key: id })
    return
  }
  const since = await databaseNow(tx)
  const nextRunAt = nextTick(schedule, id, since)
  const target = { id, tenant, connectionId: id, productId: null }
  if (!(await setSchedule(tx, { ...target, schedule, setter, since, nextRunAt }))) return
  await setJobDue(tx, { kind: SCHEDULE_JOB, key: id, tenant }, nextRunAt)
  await ringForJobs(tx)
}

/** A connection, with when its runs begin by themselves. */
export interface ScheduledConnection {
  readonly connection: Connection
  readonly scheduled: Scheduled
}

export async function withSchedules(
  db: Queryable,
  connections: readonly Connection[],
): Promise<readonly ScheduledConnection[]> {
  const ids = connections.map(({ id }) => id)
  const found = await scheduledOf(db, 'connection', ids)
  return connections.map((connection) => ({ connection, scheduled: found.get(connection.id) as Scheduled }))
}
