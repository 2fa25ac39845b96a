/** PostgreSQL's log as a source of changes: see `ChangeSource`. */
import type { ChangeHealth, ChangePosition, ChangeSource } from '@sluice/sdk'
import { sourceFailure } from '../failure.ts'
import { inKeptSession, type Session, type Way } from '../session.ts'
import { awaitChanges } from './await-changes.ts'
import { readLog } from './changes.ts'
import { lsnText, placeOf } from './position.ts'
import { prepareLog, requireRoom } from './prepare.ts'
import { dropPublication, refusalsOf } from './publication.ts'
import { captureName, dropSlot, freeSlot, lockCapture, slotAt, slotsOf } from './slot.ts'

export function changeSource(way: Way, untilClosed: (signal: AbortSignal) => AbortSignal): ChangeSource {
  const within = <T>(signal: AbortSignal, work: (session: Session) => Promise<T>) =>
    inSession(way, untilClosed(signal), work)
  return {
    refusals: ({ capture, streams, signal }) =>
      within(signal, async (session) => {
        const refused = await refusalsOf(way, session, streams, capture)
        if (capture !== undefined) await requireRoom(session, capture)
        return refused
      }),
    prepare: (request) => within(request.signal, (session) => prepareLog(way, session, request)),
    changes: (request) => readLog(way, { ...request, signal: untilClosed(request.signal) }),
    awaitChanges: (request) => awaitChanges(way, { ...request, signal: untilClosed(request.signal) }),
    ack: ({ capture, position, signal }) => within(signal, (session) => confirm(session, capture, position)),
    health: ({ capture, saved, signal }) => within(signal, (session) => healthOf(session, capture, saved)),
    release: ({ capture, signal }) => within(signal, (session) => releaseAll(session, captureName(capture))),
  }
}

async function inSession<T>(way: Way, signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
  try {
    return await inKeptSession(way, signal, async (session) => {
      await session.run(
        "SET search_path = pg_catalog; SET default_transaction_read_only = off; SET statement_timeout = '120s'",
      )
      return work(session)
    })
  } catch (error) {
    throw sourceFailure(error, 'the log of changes', signal)
  }
}

async function confirm(session: Session, capture: string, position: ChangePosition): Promise<void> {
  const place = placeOf(position)
  const slots = await slotsOf(session, captureName(capture))
  const slot = slots.find(({ name }) => position.lineage.endsWith(`.${name}`))
  if (slot && !slot.isLost && slot.confirmed >= place.lsn) return
  const { name } = await slotAt(session, capture, position)
  await freeSlot(session, capture, name)
  await session.query('SELECT pg_replication_slot_advance($1, $2::pg_lsn)', [name, lsnText(place.lsn)])
}

const LIMIT = "SELECT setting::float8 * 1048576 AS bytes FROM pg_settings WHERE name = 'max_slot_wal_keep_size'"
const AT_RISK_SHARE = 0.25

async function healthOf(session: Session, capture: string, saved: ChangePosition | null): Promise<ChangeHealth> {
  const slot = (await slotsOf(session, captureName(capture)))[0]
  const [limit] = await session.query<{ readonly bytes: number }>(LIMIT)
  const limitBytes = limit && limit.bytes >= 0 ? limit.bytes : null
  const sizes = { retainedBytes: slot?.retainedBytes ?? null, limitBytes }
  const remedy = 'Read the tables whole, with the log begun anew; raise max_slot_wal_keep_size at the source.'
  if (saved !== null) {
    try {
      await slotAt(session, capture, saved)
    } catch (error) {
      const lost = sourceFailure(error, 'the log of changes')
      if (lost.code !== 'position_lost') throw error
      return { state: 'lost', ...sizes, message: lost.message, remedy }
    }
  }
  if (!slot) return { state: 'ok', ...sizes, message: 'nothing is kept yet' }
  if (slot.isLost) return { state: 'lost', ...sizes, message: 'the server has let go of the log', remedy }
  const isClose = limitBytes !== null && slot.safeBytes !== null && slot.safeBytes < limitBytes * AT_RISK_SHARE
  if (slot.walStatus === 'unreserved' || isClose) {
    return {
      state: 'at_risk',
      ...sizes,
      message: 'the server will soon let go of the log that was not read yet',
      remedy: 'Let the changes be read more often, or raise max_slot_wal_keep_size at the source.',
    }
  }
  return { state: 'ok', ...sizes, message: 'the log is kept' }
}

async function releaseAll(session: Session, capture: string): Promise<void> {
  await lockCapture(session, capture)
  for (const slot of await slotsOf(session, capture)) await dropSlot(session, capture, slot.name)
  await dropPublication(session, capture)
}
