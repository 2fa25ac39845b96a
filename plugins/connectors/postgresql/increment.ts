/**
 * Which rows an incremental read takes, so that none is lost that was committed late.
 *
 * A cursor column alone cannot promise that: its value is set when a row is written and not when it is committed, it
 * may be null, set by a skewed clock, or moved backwards. Where PostgreSQL keeps the rows itself, the read therefore
 * goes by transaction: it remembers the oldest one that was still running when its snapshot was taken, and the next
 * read takes every row that was written by that one or a later one. That costs the source one scan, and sends what has
 * changed and little more. Views and foreign tables do not show who wrote a row: there the cursor column decides, from
 * an overlap and the age of the oldest open transaction before the greatest value seen.
 *
 * Numbers and times mean something within one history only. A cold copy or a snapshot of the storage that was put back has
 * the same identity as what it replaced, and its numbers soon pass those that were read; but a server has to be started
 * on it. After a start of the server, each table is read whole once.
 */
import { createHash } from 'node:crypto'
import { type ConnectorState, type ReadRequest, SluiceError } from '@sluice/sdk'
import { escapeLiteral } from 'pg'
import { meaningOf } from './meaning.ts'
import type { Relation, RelationColumn } from './relation.ts'
import { ALIAS, qualified, reference } from './select.ts'
import type { Session, Way } from './session.ts'
import { type CursorState, parseState, type SnapshotState, type State, toConnectorState } from './state.ts'

export interface Increment {
  /** SQL for the rows to take; null: all. */
  readonly where: string | null
  /** The state after a read that took `rowsSeen` rows, rejected ones included. */
  nextState(rowsSeen: number): ConnectorState
}

interface Snapshot {
  readonly horizon: string
  readonly next: string
}

/** Beyond this many transactions their 32-bit numbers on the rows could be mistaken for older ones. */
const MAX_TRANSACTIONS = 2n ** 30n
/** So that the state stays well within its 64 KiB. */
const MAX_PARTS = 4000

export async function planIncrement(
  way: Way,
  session: Session,
  relation: Relation,
  columns: readonly RelationColumn[],
  request: ReadRequest,
): Promise<Increment> {
  const former = parseState(request.state)
  const meaning = await meaningOf(session, relation, columns)
  const known = meaning.holds ? former : null
  const digest = digestOf(columns, meaning.facts)
  const parts = await partsOf(session, relation)
  const started = await startOf(session)
  const plan = parts
    ? await bySnapshot(session, { strategy: 'snapshot', table: relation.oid, columns: digest, parts, started }, known)
    : await byCursor(way, session, relation, { digest, started }, known, request)
  const { where, next } = plan
  return {
    where,
    // A read that resumed and found nothing leaves things as they are, which is always safe.
    nextState: (rowsSeen) =>
      request.state && where !== null && (isKept(former, rowsSeen) || next === former)
        ? request.state
        : toConnectorState(next),
  }
}

/** What a former version wrote without the start of the server gets it now. */
function isKept(former: State | null, rowsSeen: number): boolean {
  return rowsSeen === 0 && former !== null && 'started' in former
}

async function startOf(session: Session): Promise<string> {
  const [row] = await session.query<{ readonly started: string }>(
    'SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text AS started',
  )
  return row?.started ?? ''
}

/** Of one server, from one start of it; a state that does not know says nothing against it. */
function isSameStart(former: { readonly started?: string }, started: string): boolean {
  return former.started === undefined || former.started === started
}

interface Plan {
  readonly where: string | null
  readonly next: State
}

async function bySnapshot(
  session: Session,
  known: Pick<SnapshotState, 'strategy' | 'table' | 'columns' | 'parts' | 'started'>,
  former: State | null,
): Promise<Plan> {
  const [snapshot] = await session.query<Snapshot>(
    `SELECT txid_snapshot_xmin(s)::text AS horizon, txid_snapshot_xmax(s)::text AS next
     FROM txid_current_snapshot() AS s`,
  )
  if (!snapshot) throw new Error('the server has no snapshot')
  const lineage = await lineageOf(session)
  const next: SnapshotState = { ...known, lineage, horizon: snapshot.horizon, next: snapshot.next }
  return { where: resumes(former, next, snapshot) ? writtenSince(former, next) : null, next }
}

/** Same table, same columns, same history of the same cluster, and transaction numbers that can be compared. */
function resumes(former: State | null, next: SnapshotState, snapshot: Snapshot): former is SnapshotState {
  if (former?.strategy !== 'snapshot') return false
  if (former.table !== next.table || former.columns !== next.columns || former.lineage !== next.lineage) return false
  if (!isSameStart(former, next.started ?? '') || BigInt(snapshot.next) < BigInt(former.next ?? 0)) return false
  const passed = BigInt(snapshot.next) - BigInt(former.horizon)
  return passed >= 0n && passed < MAX_TRANSACTIONS
}

/** A partition that was attached since brings rows that were written before: it is taken whole. */
function writtenSince(former: SnapshotState, next: SnapshotState): string {
  const number = BigInt(former.horizon) % 2n ** 32n
  const recent = `age(${ALIAS}.xmin) <= (SELECT age('${number}'::xid))`
  const before = new Set(former.parts)
  const attached = next.parts.filter((part) => !before.has(part))
  return attached.length > 0 ? `(${recent} OR ${ALIAS}.tableoid = ANY ('{${attached.join()}}'::oid[]))` : recent
}

/** The tables that hold the rows; null where not every one keeps them as PostgreSQL does. */
async function partsOf(session: Session, relation: Relation): Promise<readonly string[] | null> {
  if (relation.kind !== 'table' && relation.kind !== 'partitioned_table') return null
  const parts = await session.query<{ readonly oid: string; readonly plain: boolean }>(
    `WITH RECURSIVE part(oid) AS (
       SELECT $1::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN part ON i.inhparent = part.oid)
     SELECT c.oid::text AS oid, c.relkind = 'p' OR (c.relkind = 'r' AND coalesce(m.amname = 'heap', true)) AS plain
     FROM part JOIN pg_class c ON c.oid = part.oid LEFT JOIN pg_am m ON m.oid = c.relam
     ORDER BY c.oid LIMIT $2`,
    [relation.oid, MAX_PARTS + 1],
  )
  return parts.length <= MAX_PARTS && parts.every((part) => part.plain) ? parts.map((part) => part.oid) : null
}

/** A cluster restored or failed over to goes its own way from there, and gives the same numbers to other transactions. */
async function lineageOf(session: Session): Promise<string> {
  await session.run('SAVEPOINT lineage')
  try {
    const [row] = await session.query<{ readonly lineage: string }>(
      `SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || CASE WHEN pg_is_in_recovery()
         THEN (SELECT timeline_id FROM pg_control_checkpoint())
         ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END AS lineage`,
    )
    return row?.lineage ?? ''
  } catch {
    // Some managed servers keep these functions to themselves; the transaction numbers still tell a restored backup.
    await session.run('ROLLBACK TO SAVEPOINT lineage')
    return ''
  }
}

interface Bounds {
  readonly position: string | null
  readonly from: string | null
  /** Whether the greatest time lies before the one asked about. */
  readonly behind: boolean
}

async function byCursor(
  way: Way,
  session: Session,
  relation: Relation,
  known: { readonly digest: string; readonly started: string },
  former: State | null,
  request: ReadRequest,
): Promise<Plan> {
  const column = cursorOf(relation, request)
  const boundsOf = async (where: string | null, before: string | null): Promise<Bounds> => {
    const sql = cursorBounds(relation, column, { where, before, overlapS: way.source.cursorOverlapS })
    const [found] = await session.query<Bounds>(sql)
    return found ?? { position: null, from: null, behind: false }
  }
  const begun = { strategy: 'cursor', table: relation.oid, columns: known.digest, cursor: column.name } as const
  if (former?.strategy === 'cursor' && isSameCursor(former, begun) && isSameStart(former, known.started)) {
    const where = cursorFilter(column, former.from)
    const { position, from, behind } = await boundsOf(where, former.position)
    if (position === null || (position === former.position && former.started !== undefined)) {
      return { where, next: former }
    }
    if (from && !behind) return { where, next: { ...begun, position, from, started: known.started } }
    // The newest row that was read is gone: it was deleted, or the source is not what it was then.
  }
  const { position, from } = await boundsOf(null, null)
  if (!position || !from) return { where: null, next: { strategy: 'full' } }
  return { where: null, next: { ...begun, position, from, started: known.started } }
}

function isSameCursor(former: CursorState, now: Pick<CursorState, 'table' | 'columns' | 'cursor'>): boolean {
  return former.table === now.table && former.columns === now.columns && former.cursor === now.cursor
}

/** Rows without a finite time have no place in the order: they are taken every time. */
function cursorFilter(column: RelationColumn, from: string): string {
  const cursor = reference(column.name)
  return `(${cursor} >= ${escapeLiteral(from)}::${column.carriage.type} OR ${cursor} IS NULL OR NOT isfinite(${cursor}))`
}

/**
 * The greatest time, and where the next read has to start. A time ahead of the clock counts as now, lest one row of a
 * skewed clock hide all that follow; a time without zone may be local to anywhere, 14 hours ahead at most.
 */
function cursorBounds(
  relation: Relation,
  column: RelationColumn,
  asked: { readonly where: string | null; readonly before: string | null; readonly overlapS: number },
): string {
  const { where, before, overlapS } = asked
  const cursor = reference(column.name)
  const type = column.carriage.type
  const now = type === 'timestamptz' ? 'now()' : "(now() AT TIME ZONE 'UTC' + interval '14 hours')"
  const oldest = `coalesce((SELECT max(now() - a.xact_start) FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()), '0'::interval)`
  return `SELECT m.position::text AS position, greatest(least(m.position, ${now}) - interval '${overlapS} seconds'
      - greatest(${oldest}, '0'::interval), '0001-01-01 00:00'::${type})::text AS "from",
      ${before === null ? 'false' : `m.position < ${escapeLiteral(before)}::${type}`} AS behind
    FROM (SELECT max(${cursor}) FILTER (WHERE isfinite(${cursor})) AS position
      FROM ${qualified(relation)} AS ${ALIAS}${where ? ` WHERE ${where}` : ''}) AS m`
}

function cursorOf(relation: Relation, request: ReadRequest): RelationColumn {
  const column = relation.columns.find((candidate) => candidate.name === request.cursorColumn)
  if (column && (column.carriage.type === 'timestamptz' || column.carriage.type === 'timestamp')) return column
  const name = request.cursorColumn === null ? 'no column' : `column ${JSON.stringify(request.cursorColumn)}`
  throw new SluiceError('CONFIG', `${qualified(relation)} cannot be read incrementally by ${name}`, {
    code: 'source_cursor_unsafe',
    remedy: 'In a view or foreign table, name a timestamp column that changes with every change; or read it in full.',
  })
}

/** Without further facts as former versions made it. */
function digestOf(columns: readonly RelationColumn[], more: string): string {
  const names = columns.map(({ name, ordinal, carriage }) => [ordinal, name, carriage.type])
  const facts = more === '' ? names : [...names, more]
  return createHash('sha256').update(JSON.stringify(facts)).digest('base64url').slice(0, 22)
}
