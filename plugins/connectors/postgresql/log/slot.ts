/** The slot of a capture: which it is, what it says of itself, and that nothing of ours holds it. */
import { type ChangePosition, SluiceError } from '@sluice/sdk'
import { escapeLiteral } from 'pg'
import type { Session } from '../session.ts'
import { type Lineage, lineageText, parseLsn, placeOf, positionLost } from './position.ts'

export interface Slot {
  readonly name: string
  readonly confirmed: bigint
  readonly isLost: boolean
  readonly walStatus: string | null
  readonly reason: string | null
  readonly safeBytes: number | null
  readonly retainedBytes: number | null
  readonly activePid: number | null
}

interface SlotRow {
  readonly name: string
  readonly confirmed: string | null
  readonly wal_status: string | null
  readonly reason: string | null
  readonly safe: string | null
  readonly retained: string | null
  readonly pid: number | null
}

/** Columns that came with later versions are asked of the row as JSON. The mark is of lower-case hexadecimal digits. */
const SLOTS = `SELECT s.slot_name::text AS name, s.confirmed_flush_lsn::text AS confirmed, s.wal_status,
    coalesce(to_jsonb(s) ->> 'invalidation_reason', CASE WHEN to_jsonb(s) ->> 'conflicting' = 'true' THEN 'conflict' END) AS reason,
    s.safe_wal_size::text AS safe, s.active_pid AS pid,
    (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - s.restart_lsn)::text AS retained
  FROM pg_replication_slots s
  WHERE s.slot_type = 'logical' AND s.plugin = 'pgoutput' AND s.database = current_database()
    AND s.slot_name::text ~ ('^' || $1 || '_[0-9a-f]{8}$') AND NOT s.temporary
  ORDER BY s.slot_name::text COLLATE "C"`

const MARK_BYTES = 4
/** What has just left is gone in a moment. */
const FIRST_WAIT_MS = 10
const FIRST_TRIES = 5
const WAIT_MS = 100
const PATIENT_TRIES = 14
const MAX_TRIES = 100

export function captureName(capture: string): string {
  if (/^[a-z0-9_]{1,40}$/.test(capture)) return capture
  throw new SluiceError('CONFIG', 'the capture has a name that no slot can have', {
    code: 'capture_name_invalid',
    remedy: 'Name it by at most 40 of a-z, 0-9 and _.',
  })
}

/** Whoever makes or drops what is kept for the capture has it until the session ends. */
export async function lockCapture(session: Session, capture: string): Promise<void> {
  await session.run("SET lock_timeout = '10s'")
  await session.query("SELECT pg_advisory_lock(hashtextextended('sluice capture ' || $1, 0))", [capture])
}

/** What a session of ours that reads this capture's log calls itself. */
export function readerName(capture: string): string {
  return `sluice ${capture}`
}

export async function slotsOf(session: Session, capture: string): Promise<readonly Slot[]> {
  return (await session.query<SlotRow>(SLOTS, [captureName(capture)])).map((row) => ({
    name: row.name,
    confirmed: row.confirmed === null ? 0n : parseLsn(row.confirmed),
    isLost: row.confirmed === null || row.wal_status === 'lost' || row.reason !== null,
    walStatus: row.wal_status,
    reason: row.reason,
    safeBytes: row.safe === null ? null : Number(row.safe),
    retainedBytes: row.retained === null ? null : Math.max(0, Number(row.retained)),
    activePid: row.pid,
  }))
}

export function newSlotName(capture: string, random: (count: number) => Uint8Array): string {
  return `${capture}_${Buffer.from(random(MARK_BYTES)).toString('hex')}`
}

interface SystemRow {
  readonly system: string
  readonly database: string
  readonly timeline: number
}

export async function lineageOf(session: Session, slot: string): Promise<Lineage & { readonly timeline: number }> {
  const [row] = await session.query<SystemRow>(
    `SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system,
      (SELECT oid::text FROM pg_database WHERE datname = current_database()) AS database,
      (SELECT timeline_id FROM pg_control_checkpoint()) AS timeline`,
  )
  if (!row) throw new Error('the server sent nothing of itself')
  return { ...row, slot }
}

/** The slot that a position is of. */
export async function slotAt(session: Session, capture: string, position: ChangePosition): Promise<Slot> {
  const place = placeOf(position)
  const slots = await slotsOf(session, captureName(capture))
  for (const slot of slots) {
    const { timeline: _, ...lineage } = await lineageOf(session, slot.name)
    if (lineageText(lineage) !== position.lineage) continue
    if (slot.isLost) throw positionLost(`the server has let go of it${slot.reason ? ` (${slot.reason})` : ''}`)
    if (slot.confirmed > place.lsn) throw positionLost('the slot stands after the saved position')
    return slot
  }
  throw positionLost('the saved position is of another slot, database or cluster')
}

/** Ends what is left of a reader of ours that still holds the slot; what others hold stays theirs. */
export async function freeSlot(session: Session, capture: string, slot: string): Promise<void> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const pid = (await slotsOf(session, capture)).find(({ name }) => name === slot)?.activePid ?? null
    if (pid === null) return
    if (tries >= PATIENT_TRIES) {
      await session.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE pid = $1 AND usename = current_user AND application_name = $2`,
        [pid, readerName(capture)],
      )
    }
    await session.query(`SELECT pg_sleep(${(tries < FIRST_TRIES ? FIRST_WAIT_MS : WAIT_MS) / 1000})`)
  }
  throw new SluiceError('TRANSIENT', 'the slot of this capture is held by another reader', {
    code: 'capture_busy',
    remedy: 'End the session that reads the slot; see active_pid in pg_replication_slots.',
    details: { slot },
  })
}

export async function dropSlot(session: Session, capture: string, slot: string): Promise<void> {
  await freeSlot(session, capture, slot)
  await session.query(
    `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ${escapeLiteral(slot)}`,
  )
}
