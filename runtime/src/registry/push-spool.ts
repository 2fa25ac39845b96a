/**
 * Rows that were pushed to a connection and that no run has committed to the lake yet, and the answers that were given for
 * them. A request is a row; its changes are sealed. Whoever writes here locks the spool of the connection first, so that
 * sequence numbers are in the order of the commits.
 */
import type { MasterKeys } from './master-keys.ts'
import { seal, unseal } from './sealing.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { rowsKey } from './tenant-keys.ts'

export interface PushSpool {
  /** Of the newest request. */
  readonly sequence: number
  readonly rows: number
  readonly bytes: number
  readonly keys: number
  /** When the connection was changed last: what was parsed by former settings is not stored. */
  readonly changedAt: Date
}

interface Place {
  readonly tenant: string
  readonly connectionId: string
}

/** Until the transaction ends nobody else writes to the spool. Null where the connection is gone. */
export async function lockPushSpool(tx: Transaction, { tenant, connectionId }: Place): Promise<PushSpool | null> {
  await change(
    tx,
    'noting a spool',
    `insert into push_spools (connection_id, tenant) select id, tenant from connections where id = $1 and tenant = $2
     on conflict (connection_id) do nothing`,
    [connectionId, tenant],
  )
  const place = [connectionId, tenant]
  const locked = 'select from push_spools where connection_id = $1 and tenant = $2 for update'
  await maybeOne(tx, 'locking a spool', locked, place)
  // Only a statement that begins under the lock sees what whoever had it has changed of the connection.
  return maybeOne<PushSpool>(
    tx,
    'reading a spool',
    `select s.sequence, s.rows, s.bytes, s.keys, c.updated_at as "changedAt"
     from push_spools s join connections c on c.id = s.connection_id where s.connection_id = $1 and s.tenant = $2`,
    place,
  )
}

export interface PushedAnswer {
  readonly table: string
  readonly rows: number
  readonly sequence: number
}

export interface PushKey {
  readonly keyHash: Buffer
  readonly requestHash: Buffer
}

export interface KeptPush extends PushKey {
  readonly answer: PushedAnswer
}

/** The answers under these keys that are still kept. */
export function pushedBefore(db: Queryable, connectionId: string, keyHashes: readonly Buffer[]): Promise<KeptPush[]> {
  return many<KeptPush>(
    db,
    'looking for former requests',
    `select key_hash as "keyHash", request_hash as "requestHash", answer from push_keys
     where connection_id = $1 and key_hash = any ($2::bytea[]) and expires_at > clock_timestamp()`,
    [connectionId, keyHashes],
  )
}

export interface NewPush {
  readonly table: string
  readonly rows: number
  readonly sequence: number
  /** What `pushedEvents` gives back. */
  readonly changes: Buffer
  readonly key: PushKey | null
}

/** Under the lock of the spool. */
export async function storePushes(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, connectionId }: Place,
  pushes: readonly NewPush[],
  keepKeysMs: number,
): Promise<void> {
  const rowKey = await rowsKey(tx, masters, tenant)
  const sealed = pushes.map(({ table, sequence, changes }) =>
    seal(rowKey, changes, contextOf(tenant, connectionId, table, sequence)),
  )
  await change(
    tx,
    'storing rows that were pushed',
    `insert into push_events (connection_id, sequence, table_name, rows, bytes, sealed)
     select $1, e.* from unnest($2::bigint[], $3::text[], $4::integer[], $5::integer[], $6::bytea[]) as e`,
    [
      connectionId,
      pushes.map(({ sequence }) => sequence),
      pushes.map(({ table }) => table),
      pushes.map(({ rows }) => rows),
      sealed.map(({ length }) => length),
      sealed,
    ],
  )
  const keyed = pushes.flatMap(({ key, table, rows, sequence }) =>
    key === null ? [] : [{ ...key, answer: { table, rows, sequence } satisfies PushedAnswer }],
  )
  // One that has expired and was not removed yet counts already.
  const [added] = await many<{ readonly keys: number }>(
    tx,
    'keeping answers',
    `with kept as (
       insert into push_keys (connection_id, key_hash, request_hash, answer, expires_at)
       select $1, k.key_hash, k.request_hash, k.answer, clock_timestamp() + make_interval(secs => $5::float8 / 1000)
       from unnest($2::bytea[], $3::bytea[], $4::jsonb[]) as k (key_hash, request_hash, answer)
       on conflict (connection_id, key_hash) do update set request_hash = excluded.request_hash,
         answer = excluded.answer, expires_at = excluded.expires_at
       returning xmax = 0 as is_new)
     select count(*) filter (where is_new) as keys from kept`,
    [
      connectionId,
      keyed.map(({ keyHash }) => keyHash),
      keyed.map(({ requestHash }) => requestHash),
      keyed.map(({ answer }) => json(answer)),
      keepKeysMs,
    ],
  )
  await change(
    tx,
    'counting rows that were pushed',
    `update push_spools set sequence = $2, rows = rows + $3, bytes = bytes + $4, keys = keys + $5 where connection_id = $1`,
    [
      connectionId,
      pushes.at(-1)?.sequence ?? 0,
      pushes.reduce((sum, { rows }) => sum + rows, 0),
      sealed.reduce((sum, { length }) => sum + length, 0),
      added?.keys ?? 0,
    ],
  )
}

const contextOf = (tenant: string, connectionId: string, table: string, sequence: number) =>
  ['pushed', tenant, connectionId, table, sequence] as const

export interface PushedEvent {
  readonly sequence: number
  readonly rows: number
  /** Of the sealed changes. */
  readonly bytes: number
  readonly changes: Buffer
}

const EVENTS_AT_ONCE = 32

/** Of one table, in the order in which they were answered, after a sequence number and up to another. */
export async function* pushedEvents(
  db: Queryable,
  masters: MasterKeys,
  { tenant, connectionId, table }: Place & { readonly table: string },
  range: { readonly after: number; readonly upTo: number },
): AsyncGenerator<PushedEvent> {
  const key = await rowsKey(db, masters, tenant)
  for (let { after } = range; ; ) {
    const page = await many<Omit<PushedEvent, 'changes'> & { readonly sealed: Buffer }>(
      db,
      'reading rows that were pushed',
      `select sequence, rows, bytes, sealed from push_events
       where connection_id = $1 and table_name = $2 and sequence > $3 and sequence <= $4
       order by sequence limit ${EVENTS_AT_ONCE}`,
      [connectionId, table, after, range.upTo],
    )
    for (const { sealed, ...event } of page)
      yield { ...event, changes: unseal(key, sealed, contextOf(tenant, connectionId, table, event.sequence)) }
    after = page.at(-1)?.sequence ?? after
    if (page.length < EVENTS_AT_ONCE) return
  }
}

/** The newest sequence number of the connection; 0 before the first request. */
export async function newestPush(db: Queryable, connectionId: string): Promise<number> {
  const statement = 'select sequence from push_spools where connection_id = $1'
  const row = await maybeOne<{ readonly sequence: number }>(db, 'reading a spool', statement, [connectionId])
  return row?.sequence ?? 0
}

/** The sequence number of the oldest request that waits for that table; null where none does. */
export async function oldestPush(
  db: Queryable,
  { connectionId, table }: Pick<Place, 'connectionId'> & { readonly table: string },
): Promise<number | null> {
  const row = await maybeOne<{ readonly sequence: number }>(
    db,
    'reading a spool',
    'select sequence from push_events where connection_id = $1 and table_name = $2 order by sequence limit 1',
    [connectionId, table],
  )
  return row?.sequence ?? null
}

/** The tables that have rows which no run has committed. */
export async function pushedTables(db: Queryable, connectionId: string): Promise<readonly string[]> {
  const statement = 'select distinct table_name as name from push_events where connection_id = $1'
  const rows = await many<{ readonly name: string }>(db, 'reading a spool', statement, [connectionId])
  return rows.map(({ name }) => name)
}

/** In the transaction that commits them to the lake. How many requests that were. */
export async function forgetPushes(
  tx: Transaction,
  { tenant, connectionId, table }: Place & { readonly table: string },
  upTo: number,
): Promise<number> {
  await lockPushSpool(tx, { tenant, connectionId })
  const gone = await maybeOne<{ readonly requests: number; readonly rows: number; readonly bytes: number }>(
    tx,
    'removing rows that the lake has',
    `with gone as (
       delete from push_events where connection_id = $1 and table_name = $2 and sequence <= $3 returning rows, bytes)
     select count(*) as requests, coalesce(sum(rows), 0) as rows, coalesce(sum(bytes), 0) as bytes from gone`,
    [connectionId, table, upTo],
  )
  if (gone === null || gone.requests === 0) return 0
  await change(
    tx,
    'counting rows that were pushed',
    'update push_spools set rows = rows - $2, bytes = bytes - $3 where connection_id = $1',
    [connectionId, gone.rows, gone.bytes],
  )
  return gone.requests
}

export interface PushLoad {
  readonly rows: number
  readonly bytes: number
  /** Of the oldest request that waits; 0 where none does. */
  readonly ageSeconds: number
}

/** Of all connections together. */
export function pushLoad(db: Queryable): Promise<PushLoad> {
  return one<PushLoad>(
    db,
    'reading what was pushed',
    `select coalesce(sum(rows), 0)::bigint as rows, coalesce(sum(bytes), 0)::bigint as bytes,
       coalesce((select extract(epoch from clock_timestamp() - min(oldest.received_at)) from push_spools s
         cross join lateral (select e.received_at from push_events e where e.connection_id = s.connection_id
           order by e.sequence limit 1) oldest), 0)::float8 as "ageSeconds"
     from push_spools`,
  )
}

/** Removes answers of one connection that are kept no more, at most `limit`; returns how many. */
export async function prunePushKeys(tx: Transaction, limit: number): Promise<number> {
  const found = await maybeOne<{ readonly id: string }>(
    tx,
    'looking for expired answers',
    `select connection_id as id from push_spools where connection_id =
       (select connection_id from push_keys where expires_at < clock_timestamp() limit 1) for update`,
  )
  if (found === null) return 0
  const gone = await change(
    tx,
    'removing expired answers',
    `delete from push_keys where connection_id = $1 and key_hash in (
       select key_hash from push_keys where connection_id = $1 and expires_at < clock_timestamp() limit $2)`,
    [found.id, limit],
  )
  const statement = 'update push_spools set keys = keys - $2 where connection_id = $1'
  await change(tx, 'counting answers', statement, [found.id, gone])
  return gone
}
