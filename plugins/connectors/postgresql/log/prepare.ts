/** What the source keeps for a capture: a publication of exactly its tables, and one slot. Made once, whoever asks. */
import type { ChangeSource, PreparedChanges, TableIncarnation } from '@sluice/sdk'
import type { QueryResultRow } from 'pg'
import { sqlState } from '../failure.ts'
import type { Session, Way } from '../session.ts'
import { TYPE_PARTS } from '../type-parts.ts'
import { FAILOVER_SINCE, requireAble, type ServerFacts, unable } from './able.ts'
import { lineageText, orderText } from './position.ts'
import { publish } from './publication.ts'
import { captureName, dropSlot, lineageOf, lockCapture, newSlotName, type Slot, slotsOf } from './slot.ts'

type PrepareRequest = Parameters<ChangeSource['prepare']>[0]

export async function prepareLog(way: Way, session: Session, request: PrepareRequest): Promise<PreparedChanges> {
  const capture = captureName(request.capture)
  const facts = await requireAble(session)
  await lockCapture(session, capture)
  // The publication first: the log is read with the catalog of each moment, and must find it from the first one on.
  const refused = await publish(way, session, request, facts)
  // Before the slot: an alteration after it is seen the next time.
  const incarnations = await session.query<TableIncarnation & QueryResultRow>(INCARNATIONS, [capture])
  const slot = await onlySlot(way, session, request, facts)
  const { timeline, ...lineage } = await lineageOf(session, slot.name)
  return {
    position: { lineage: lineageText(lineage), order: orderText({ lsn: slot.confirmed, timeline }) },
    refused,
    incarnations,
  }
}

/**
 * Labels and fields of types that lie deeper in a column's type than its elements and what its domain is made of: fields of
 * records, lists in domains, ends of ranges. Null where there are none, as of most tables: they stay what they were told as before.
 */
const DEEPER_TYPES = `WITH RECURSIVE used(oid, depth) AS (
      SELECT a.atttypid, 0 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      UNION
      SELECT part.oid, least(used.depth + 1 + part.more, 2) FROM used JOIN pg_type t ON t.oid = used.oid
      CROSS JOIN LATERAL ${TYPE_PARTS}
      WHERE part.oid <> 0),
    deeper(oid) AS (SELECT DISTINCT oid FROM used WHERE depth = 2)
    SELECT string_agg(said.fact, chr(10) ORDER BY said.fact COLLATE "C")
    FROM (
      SELECT format('label %s %s', e.oid, e.enumlabel) FROM deeper JOIN pg_enum e ON e.enumtypid = deeper.oid
      UNION ALL
      SELECT format('field %s %s %s %s %s', f.attrelid, f.attnum, f.attname, f.atttypid, f.atttypmod)
      FROM deeper JOIN pg_type t ON t.oid = deeper.oid JOIN pg_attribute f ON f.attrelid = t.typrelid
      WHERE f.attnum > 0 AND NOT f.attisdropped) said(fact)`

/**
 * The membership of a table in a publication has a number of its own: of a table made anew, or left out for a while, it
 * is another. Columns come into it by type, and by the default that rows from before them have; types that are not
 * PostgreSQL's own by the labels and the fields that their values are written with. So do the files that the rows are in:
 * the log tells neither what an ALTER writes anew, nor the rows of a partition that is attached, detached or truncated. One that
 * comes back has the same files, and the log has nothing of what was written to it meanwhile: that it was attached is known by
 * the transaction that did so.
 */
const INCARNATIONS = `SELECT n.nspname::text AS schema, c.relname::text AS table,
    md5(concat_ws(' ', r.oid, c.oid, (
      SELECT string_agg(format('%s %s %s %s %s', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attmissingval), chr(10) ORDER BY a.attnum)
      FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), (
      SELECT string_agg(format('%s %s', e.oid, e.enumlabel), chr(10) ORDER BY e.oid)
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      JOIN pg_enum e ON e.enumtypid IN (t.oid, t.typelem, t.typbasetype)
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), (
      SELECT string_agg(format('%s %s %s %s', f.attrelid, f.attname, f.atttypid, f.atttypmod), chr(10) ORDER BY f.attrelid, f.attnum)
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      JOIN pg_type s ON s.oid IN (t.oid, t.typelem, t.typbasetype) AND s.typrelid <> 0
      JOIN pg_attribute f ON f.attrelid = s.typrelid AND f.attnum > 0 AND NOT f.attisdropped
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), (
      SELECT string_agg(format('%s %s', l.oid, l.relfilenode), chr(10) ORDER BY l.oid)
      FROM (SELECT c.oid AS relid WHERE c.relkind = 'r'
        UNION ALL SELECT p.relid FROM pg_partition_tree(c.oid) p WHERE c.relkind = 'p' AND p.isleaf) part
      JOIN pg_class l ON l.oid = part.relid), (
      SELECT string_agg(format('%s %s', i.inhrelid, i.xmin), chr(10) ORDER BY i.inhrelid)
      FROM pg_partition_tree(c.oid) p JOIN pg_inherits i ON i.inhrelid = p.relid WHERE c.relkind = 'p'), (
      ${DEEPER_TYPES}))) AS incarnation
  FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1
  ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"`

async function onlySlot(
  way: Way,
  session: Session,
  { capture, anew }: PrepareRequest,
  { version }: ServerFacts,
): Promise<Slot> {
  const there = await slotsOf(session, capture)
  const kept = anew === true ? undefined : there.find((slot) => !slot.isLost)
  for (const slot of there) if (slot !== kept) await dropSlot(session, capture, slot.name)
  if (kept) return kept
  const name = newSlotName(capture, (count) => way.host.randomBytes(count))
  await makeSlot(session, name, version)
  const made = (await slotsOf(session, capture)).find((slot) => slot.name === name)
  if (!made) throw new Error('the server sent no slot that it has made')
  return made
}

/** It waits for every transaction that has written something by then. */
async function makeSlot(session: Session, name: string, version: number): Promise<void> {
  try {
    const failover = version >= FAILOVER_SINCE ? ', false, false, true' : ''
    await session.query(`SELECT pg_create_logical_replication_slot($1, 'pgoutput'${failover})`, [name])
  } catch (error) {
    const state = sqlState(error)
    if (state === '53400') throw noSlot()
    if (state === '57014' || state === '55P03') {
      throw unable('TRANSIENT', 'a transaction that was open all the while keeps its log from being begun', {
        code: 'changes_writers_open',
        remedy:
          'End old transactions (SELECT pid, xact_start FROM pg_stat_activity ORDER BY xact_start;), then try again.',
      })
    }
    throw error
  }
}

function noSlot() {
  return unable('CONFIG', 'all its replication slots are taken', {
    code: 'changes_no_slot',
    remedy:
      'Drop slots that nobody reads (SELECT slot_name FROM pg_replication_slots WHERE NOT active; then SELECT ' +
      "pg_drop_replication_slot('…');), or raise max_replication_slots and restart the server.",
  })
}

const ROOM = `SELECT current_setting('max_replication_slots')::int > count(*) AS free FROM pg_replication_slots`

/** That the slot of a capture is there, or could be made by now. */
export async function requireRoom(session: Session, capture: string): Promise<void> {
  if ((await slotsOf(session, capture)).length > 0) return
  const [room] = await session.query<{ readonly free: boolean }>(ROOM)
  if (room?.free !== true) throw noSlot()
}
