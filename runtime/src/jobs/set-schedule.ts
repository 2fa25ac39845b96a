/** Sets when runs of a connection or a product begin by themselves: the schedule, what it waits for, and its job. */
import { SluiceError } from '@sluice/sdk'
import { databaseNow } from '../registry/clock.ts'
import { forgetFollow } from '../registry/follows.ts'
import { type FollowedProduct, followsItself, followsOf, setFollows } from '../registry/schedule-follows.ts'
import { FOLLOW_JOB, SCHEDULE_JOB } from '../registry/schedule-job.ts'
import {
  isContinuous,
  isTimed,
  passSchedule,
  removeSchedule,
  type Schedule,
  type Setter,
  setSchedule,
  setScheduleOf,
} from '../registry/schedules.ts'
import { many, type Transaction } from '../registry/sql.ts'
import { forgetJob, type JobRow, ringForJobs, setJobDue } from './claims.ts'
import { nextTick } from './due-times.ts'

export interface ScheduleTarget {
  /** Of the connection or product. */
  readonly id: string
  readonly tenant: string
  readonly of: 'connection' | 'product'
}

export interface WantedSchedule {
  readonly schedule: Schedule
  /** Those of `after`, in its order. */
  readonly followed: readonly FollowedProduct[]
  readonly setter: Setter
}

/**
 * Null: it has none from now on. The same again changes nothing of a connection; of a product, whose deployer sets it, runs
 * are in the name of who did it last. Throws INVALID_DATA `manifests_invalid` where it would wait for itself.
 */
export async function keepSchedule(
  tx: Transaction,
  target: ScheduleTarget,
  wanted: WantedSchedule | null,
): Promise<void> {
  const { id, tenant } = target
  const [ticks, follows] = [SCHEDULE_JOB, FOLLOW_JOB].map((kind) => ({ kind, key: id, tenant })) as [JobRow, JobRow]
  if (wanted === null) {
    if (!(await removeSchedule(tx, id))) return
    await forgetJob(tx, ticks)
    await forgetJob(tx, follows)
    await forgetFollow(tx, id)
    return
  }
  const { schedule, followed, setter } = wanted
  if (followed.length > 0) await refuseCircle(tx, target, followed)
  const since = await databaseNow(tx)
  const nextRunAt = isTimed(schedule) ? nextTick(schedule, id, since) : since
  const { of } = target
  const ids = { id, tenant, connectionId: of === 'connection' ? id : null, productId: of === 'product' ? id : null }
  const isNew = await setSchedule(tx, { ...ids, schedule, setter, since, nextRunAt })
  if (of === 'product') await passSchedule(tx, id, setter)
  await setFollows(tx, id, followed)
  const [job, other] = isContinuous(schedule) ? [follows, ticks] : [ticks, follows]
  await forgetJob(tx, other)
  if (!isNew && (isTimed(schedule) || isContinuous(schedule))) return
  await setJobDue(tx, job, nextRunAt)
  await ringForJobs(tx)
}

/** What `keepSchedule` would set again; null: it has none. */
export async function wantedBefore(tx: Transaction, id: string): Promise<WantedSchedule | null> {
  const kept = await setScheduleOf(tx, id)
  if (kept === null) return null
  const follows = await followsOf(tx, id)
  return { ...kept, followed: follows.map(({ name, productId }) => ({ name, id: productId })) }
}

/** Two that are set at one moment see each other. */
async function refuseCircle(
  tx: Transaction,
  { id, tenant }: ScheduleTarget,
  followed: readonly FollowedProduct[],
): Promise<void> {
  const lock = 'select pg_advisory_xact_lock(hashtextextended($1, 0))'
  await many(tx, 'keeping schedules from changing', lock, [`schedules of ${tenant}`])
  const name = await followsItself(tx, id, followed)
  if (name !== null) throw circular(name, followed)
}

export function circular(name: string, followed: readonly FollowedProduct[]): SluiceError {
  const at = followed.findIndex((one) => one.name === name)
  const message = `"${name}" waits for this product, be it through others: each would begin the other for ever`
  return new SluiceError('INVALID_DATA', `the schedule waits for itself: ${message}`, {
    code: 'manifests_invalid',
    remedy: 'Take it out of schedule.after, or let one of them go by every, cron or max_age.',
    details: { errors: [{ manifest: 'compute', path: `schedule.after[${at}]`, message }] },
  })
}
