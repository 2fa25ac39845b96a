/** How connections are followed whose changes are applied as they come, and what of them waits for another try. */
import { FOLLOW_JOB } from './schedule-job.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

export interface Follow {
  readonly connectionId: string
  /** Since when a runtime waits for its changes; null: none does. */
  readonly followedAt: Date | null
  /** When the first change came that no run has taken yet. */
  readonly behindSince: Date | null
  readonly errorCode: string | null
}

/** Of the run that a continuous schedule begins: it reads the log alone. */
export const FOLLOW_INPUT = { follow: true } as const

export function isFollowing({ input }: { readonly input: Readonly<Record<string, unknown>> }): boolean {
  return input['follow'] === true
}

/** Of a runtime that died, by its lease; rows that are pushed need nobody who waits. */
const COLUMNS = `connection_id as "connectionId", case when exists (
    select from jobs j where j.kind = '${FOLLOW_JOB}' and j.key = connection_id and j.lease_until > clock_timestamp())
    or exists (select from connections c where c.id = connection_id and c.connector_type = 'push')
  then followed_at end as "followedAt", behind_since as "behindSince",
  error_code as "errorCode"`

export function followOf(db: Queryable, connectionId: string): Promise<Follow | null> {
  const statement = `select ${COLUMNS} from follows where connection_id = $1`
  return maybeOne<Follow>(db, 'reading how a connection is followed', statement, [connectionId])
}

const KEEP = 'keeping how a connection is followed'

/** Its changes are waited for from here on. */
export async function noteFollowed(db: Queryable, connectionId: string): Promise<void> {
  await change(
    db,
    KEEP,
    `insert into follows as f (connection_id, followed_at) select id, clock_timestamp() from connections where id = $1
     on conflict (connection_id) do update set followed_at = coalesce(f.followed_at, excluded.followed_at)
       where f.followed_at is null`,
    [connectionId],
  )
}

/** What was wrong is over. */
export async function noteReached(db: Queryable, connectionId: string): Promise<void> {
  const statement = 'update follows set error_code = null where connection_id = $1 and error_code is not null'
  await change(db, KEEP, statement, [connectionId])
}

/** Nobody waits for its changes; the code says why, where something was wrong. */
export async function noteUnfollowed(
  db: Queryable,
  { key, token }: { readonly key: string; readonly token: number },
  errorCode: string | null,
): Promise<void> {
  await change(
    db,
    KEEP,
    `insert into follows (connection_id, error_code) select c.id, $3 from connections c
       join jobs j on j.kind = '${FOLLOW_JOB}' and j.key = c.id and j.token = $2 where c.id = $1
     on conflict (connection_id) do update set followed_at = null, error_code = coalesce($3, follows.error_code)`,
    [key, token, errorCode],
  )
}

/** Its changes are nobody's to follow any more. */
export async function forgetFollow(tx: Transaction, connectionId: string): Promise<void> {
  await change(tx, KEEP, 'delete from follows where connection_id = $1', [connectionId])
  await change(tx, KEEP, 'delete from follow_holds where connection_id = $1', [connectionId])
}

/** A change has come; where others wait already, it changes nothing. */
export async function noteBehind(db: Queryable, connectionId: string): Promise<void> {
  await change(
    db,
    KEEP,
    `insert into follows as f (connection_id, behind_since) select id, clock_timestamp() from connections where id = $1
     on conflict (connection_id) do update set behind_since = excluded.behind_since where f.behind_since is null`,
    [connectionId],
  )
}

/** Whatever had come was taken. */
export async function noteCaughtUp(db: Queryable, connectionId: string): Promise<void> {
  const statement = 'update follows set behind_since = null where connection_id = $1 and behind_since is not null'
  await change(db, KEEP, statement, [connectionId])
}

export interface Hold {
  readonly kind: 'table' | 'product'
  /** A table's name, or a product's id. */
  readonly part: string
  readonly failures: number
  readonly errorCode: string
  readonly until: Date
  /** It is not tried before then, and that has not come. */
  readonly isHeld: boolean
}

export function holdsOf(db: Queryable, connectionId: string): Promise<readonly Hold[]> {
  return many<Hold>(
    db,
    'reading what waits for another try',
    `select kind, part, failures, error_code as "errorCode", until, until > clock_timestamp() as "isHeld"
     from follow_holds where connection_id = $1 order by kind, part`,
    [connectionId],
  )
}

export interface FailedPart extends Pick<Hold, 'kind' | 'part' | 'errorCode'> {
  readonly againMs: number
}

/** Those that failed wait; those that are `over` wait no more, unless they have failed once more since they were read. */
export async function settleHolds(
  tx: Transaction,
  connectionId: string,
  failed: readonly FailedPart[],
  over: readonly Pick<Hold, 'kind' | 'part' | 'failures'>[],
): Promise<void> {
  await change(
    tx,
    'keeping what waits for another try',
    `delete from follow_holds h using jsonb_to_recordset($2::jsonb) as ended (kind text, part text, failures int)
     where h.connection_id = $1 and h.kind = ended.kind and h.part = ended.part and h.failures = ended.failures`,
    [connectionId, json(over.map(({ kind, part, failures }) => ({ kind, part, failures })))],
  )
  await addHolds(tx, connectionId, failed)
}

/** Those that failed, once more, wait. Nothing where the connection is gone. */
export async function addHolds(tx: Transaction, connectionId: string, failed: readonly FailedPart[]): Promise<void> {
  if (failed.length === 0) return
  await change(
    tx,
    'keeping what waits for another try',
    `insert into follow_holds as h (connection_id, kind, part, error_code, until)
     select c.id, kind, part, "errorCode", clock_timestamp() + make_interval(secs => "againMs" / 1000)
     from jsonb_to_recordset($2::jsonb) as failed (kind text, part text, "errorCode" text, "againMs" float8)
       join connections c on c.id = $1
     on conflict (connection_id, kind, part) do update
       set failures = h.failures + 1, error_code = excluded.error_code, until = excluded.until`,
    [connectionId, json(failed)],
  )
}

/** Those of products that wait no more. */
export async function endHolds(tx: Transaction, connectionId: string, productIds: readonly string[]): Promise<void> {
  const statement = `delete from follow_holds where connection_id = $1 and kind = 'product' and part = any ($2)`
  await change(tx, 'ending what waits for another try', statement, [connectionId, productIds])
}

/** Somebody tries them now, and tells what came of it: until then they are not tried again. */
export async function putOffHolds(
  tx: Transaction,
  connectionId: string,
  tried: readonly { readonly part: string; readonly againMs: number }[],
): Promise<void> {
  await change(
    tx,
    'keeping what waits for another try',
    `update follow_holds h set until = greatest(h.until, clock_timestamp() + make_interval(secs => "againMs" / 1000))
     from jsonb_to_recordset($2::jsonb) as tried (part text, "againMs" float8)
     where h.connection_id = $1 and h.kind = 'product' and h.part = tried.part`,
    [connectionId, json(tried)],
  )
}

export const FOLLOW_STATES = ['following', 'unfollowed', 'failing'] as const

export interface FollowLoad {
  readonly state: (typeof FOLLOW_STATES)[number]
  readonly connections: number
  readonly lagSeconds: number
}

/** Of connections with a continuous schedule; the lag is that of the one that is behind the most. */
export function followLoad(db: Queryable): Promise<readonly FollowLoad[]> {
  return many<FollowLoad>(
    db,
    'reading how connections are followed',
    `select case when f.error_code is not null then 'failing' when f.followed_at is not null then 'following'
         else 'unfollowed' end as state, count(*) as connections,
       coalesce(max(extract(epoch from clock_timestamp() - f.behind_since)), 0)::float8 as "lagSeconds"
     from schedules s left join follows f on f.connection_id = s.connection_id
     where s.schedule ? 'maxDelayMs' group by 1`,
  )
}
