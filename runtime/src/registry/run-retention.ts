/**
 * Which runs go. Of each connection and product the newest stay, up to a number and an age, and whatever their age those
 * that something rests on: the last that succeeded and that failed, the reads that tell how old raw tables are and where the
 * next one begins, and runs of incidents and of epochs that are served.
 */
import { change, many, type Queryable } from './sql.ts'

export interface RunRetention {
  /** Those that ended longer ago go; parts of days count. */
  readonly days: number
  /** More of one connection or product go, however young they are. */
  readonly most: number
  /** So many stay of each, however old they are: the brake on schedules counts their failures. */
  readonly least: number
}

const daysOf = (value: string) => `make_interval(secs => 86400 * ${value}::float8)`

/** What somebody has just asked for is still to be found by its id. */
const YOUNG = `interval '1 hour'`

const isNewer = (of: string) => `(${of}.created_at, ${of}.id) > (r.created_at, r.id)`

/** The newest read of a table tells how old its rows are: by when it was queued, or by when it was done. */
const isLastReadOfTable = (target: string) => `exists (
  select from run_tables t where t.run_id = r.id and not (
    exists (select from runs n join run_tables o on o.run_id = n.id and o.name = t.name
      where n.${target} = r.${target} and (t.state <> 'succeeded' or o.state = 'succeeded') and ${isNewer('n')})
    and (t.state <> 'succeeded' or exists (select from runs n join run_tables o on o.run_id = n.id and o.name = t.name
      where n.${target} = r.${target} and o.state = 'succeeded' and o.updated_at > t.updated_at))))`

const IS_OF_SERVED_EPOCH = `exists (
  select from materializations m where m.run_id = r.id and (
    exists (select from product_fences f where f.product_id = m.product_id and f.epoch = m.epoch)
    or exists (select from endpoint_states s where s.product_id = m.product_id and s.applied_epoch = m.epoch)
    or exists (select from violating_rows v where v.materialization_id = m.id)))`

const isFree = (target: string, young = YOUNG) => `r.state in ('succeeded', 'failed', 'cancelled')
  and r.finished_at < clock_timestamp() - ${young}
  and (r.state = 'cancelled' or exists (
    select from runs n where n.${target} = r.${target} and n.state = r.state and ${isNewer('n')}))
  and not exists (select from runs c where c.parent_id = r.id)
  and not exists (select from incidents i where i.run_id = r.id)
  and not exists (select from connector_states c where c.connection_id = r.connection_id and c.run_id = r.id)
  and not ${isLastReadOfTable(target)}
  and not ${IS_OF_SERVED_EPOCH}`

/** The newest that goes: beyond so many, or beyond the few that always stay and too old. */
const nth = (target: string, place: string) => `(
  select n.created_at from runs n where n.${target} = o.id order by n.created_at desc, n.id desc offset ${place} limit 1)`

const TARGETS = { connections: 'connection_id', products: 'product_id' } as const
const TARGETS_AT_ONCE = 200
const RUNS_AT_ONCE = 1_000

/** Of all connections and products, few at a time and each time in a transaction of its own. Returns how many went. */
export async function pruneRuns(db: Queryable, retention: RunRetention, signal: AbortSignal): Promise<number> {
  let removed = 0
  for (const kind of ['connections', 'products'] as const) {
    let last = ''
    for (;;) {
      const ids = await targetsBehind(db, kind, last)
      if (ids.length === 0) break
      let gone: number
      do {
        signal.throwIfAborted()
        gone = await pruneRunsOf(db, kind, ids, retention)
        removed += gone
      } while (gone === RUNS_AT_ONCE)
      last = ids.at(-1) as string
    }
  }
  return removed
}

async function targetsBehind(db: Queryable, kind: keyof typeof TARGETS, last: string): Promise<readonly string[]> {
  const statement = `select id from ${kind} where id > $1 order by id limit ${TARGETS_AT_ONCE}`
  const rows = await many<{ readonly id: string }>(db, 'looking for old runs', statement, [last])
  return rows.map(({ id }) => id)
}

/** With their logs and progress. No run is waited for: those that have ended are changed by nobody. */
function pruneRunsOf(
  db: Queryable,
  kind: keyof typeof TARGETS,
  ids: readonly string[],
  { days, most, least }: RunRetention,
): Promise<number> {
  const target = TARGETS[kind]
  return change(
    db,
    'removing old runs',
    `delete from runs where id in (
       select gone.id from unnest($1::text[]) as o (id) cross join lateral (
         select r.id from runs r
         where r.${target} = o.id
           and r.created_at <= greatest(${nth(target, '$3')},
             least(coalesce(${nth(target, '$4')}, '-infinity'), clock_timestamp() - ${daysOf('$2')}))
           and ${isFree(target)}
         order by r.created_at) gone
       limit ${RUNS_AT_ONCE})`,
    [ids, days, most, least],
  )
}

/** Of runs that nobody asked for, and of which there may be one each second, a list shows the newest. */
const FOLLOWING_LEFT = 50

/** Runs of a continuous schedule that succeeded, but for the newest, and for those that something rests on. */
export function pruneFollowing(db: Queryable, connectionId: string): Promise<number> {
  return change(
    db,
    'removing old runs',
    `delete from runs where id in (
       select r.id from runs r
       where r.connection_id = $1 and r.state = 'succeeded' and r.input ? 'follow' and r.created_at < (
           select n.created_at from runs n where n.connection_id = $1
           order by n.created_at desc, n.id desc offset ${FOLLOWING_LEFT} limit 1)
         and ${isFree('connection_id', "interval '1 minute'")}
       order by r.created_at limit ${RUNS_AT_ONCE})`,
    [connectionId],
  )
}

/** Runs that a product was left to and that succeeded, but for the newest, and for those that something rests on. */
export function pruneLeft(db: Queryable, productId: string): Promise<number> {
  return change(
    db,
    'removing old runs',
    `delete from runs where id in (
       select r.id from runs r
       where r.product_id = $1 and r.state = 'succeeded' and r.input ? 'left' and r.created_at < (
           select n.created_at from runs n where n.product_id = $1 and n.input ? 'left'
           order by n.created_at desc, n.id desc offset ${FOLLOWING_LEFT} limit 1)
         and ${isFree('product_id', "interval '1 minute'")}
       order by r.created_at limit ${RUNS_AT_ONCE})`,
    [productId],
  )
}

/** Attempts that checks kept from being published, at most so many; what shows the rows that they found bad stays. */
export function pruneBlocked(db: Queryable, days: number, limit: number): Promise<number> {
  return change(
    db,
    'removing old materializations that were not published',
    `delete from materializations where id in (
       select m.id from materializations m
       where m.epoch is null and m.committed_at < clock_timestamp() - ${daysOf('$1')}
         and not exists (select from violating_rows v where v.materialization_id = m.id)
       order by m.committed_at limit $2)`,
    [days, limit],
  )
}
