/** Schedules of connections: set with the connection, and told with it. */
import { type ConnectorPlugin, SluiceError } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import { keepSchedule } from '../../jobs/set-schedule.ts'
import { isFault, readConnectionSchedule, type ScheduleText } from '../../manifest/schedule.ts'
import { type Capture, capturesOf } from '../../registry/captures.ts'
import { type Connection, listConnections } from '../../registry/connections.ts'
import { type Follow, followOf, type Hold, holdsOf } from '../../registry/follows.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { isContinuous, type Schedule, type Scheduled, scheduledOf, setterOf } from '../../registry/schedules.ts'
import type { Queryable, Transaction } from '../../registry/sql.ts'
import type { ConnectionsDeps } from './deps.ts'

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

/** Throws INVALID_DATA `invalid_schedule` where its source has no log of changes that could be followed. */
export function checkFollowable(
  schedule: Schedule | null | undefined,
  { capabilities, type }: Pick<ConnectorPlugin, 'capabilities' | 'type'>,
): void {
  if (!schedule || !isContinuous(schedule) || capabilities.modes.includes('cdc')) return
  const message = `connections of type ${type} have no log of changes that could be followed`
  throw new SluiceError('INVALID_DATA', `the schedule’s continuous: ${message}`, {
    code: 'invalid_schedule',
    remedy: 'Use every, cron or max_age.',
    details: { errors: [{ in: 'body', pointer: '/schedule/continuous', message }] },
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
  /** Null where its changes are not followed. */
  readonly following: Following | null
}

/** How the changes of a connection come. */
export interface Following {
  /** Null: nobody has begun to. */
  readonly follow: Follow | null
  readonly holds: readonly Hold[]
}

export async function followingOf(db: Queryable, { id, row }: Scheduled): Promise<Following | null> {
  if (row === null || !isContinuous(row.schedule)) return null
  return { follow: await followOf(db, id), holds: await holdsOf(db, id) }
}

/** Of the whole tenant, newest first. */
export async function scheduledConnections(
  { pool }: Pick<ConnectionsDeps, 'pool'>,
  tenant: string,
  page: PageRequest,
): Promise<Page<ScheduledConnection>> {
  const { items, next } = await listConnections(pool, tenant, page)
  return { items: await withSchedules(pool, items), next }
}

export async function withSchedules(
  db: Queryable,
  connections: readonly Connection[],
): Promise<readonly ScheduledConnection[]> {
  const ids = connections.map(({ id }) => id)
  const found = await scheduledOf(db, 'connection', ids)
  const captures = await capturesOf(db, ids)
  const told: ScheduledConnection[] = []
  for (const connection of connections) {
    const scheduled = found.get(connection.id) as Scheduled
    const following = await followingOf(db, scheduled)
    told.push({ connection, scheduled, capture: captures.get(connection.id) ?? null, following })
  }
  return told
}
