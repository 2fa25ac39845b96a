/** Reads the log from a position to where it stands now. */
import type { ChangeEvent, ChangePosition, ChangeSource } from '@sluice/sdk'
import { escapeIdentifier, escapeLiteral } from 'pg'
import { Interrupted } from '../../server/failure.ts'
import { sourceFailure, sqlState } from '../failure.ts'
import { openSession, type Session, type Way } from '../session.ts'
import { LogFold } from './fold.ts'
import { decode } from './pgoutput.ts'
import {
  isOfHistory,
  lineageText,
  lsnText,
  orderText,
  type Place,
  parseLsn,
  placeOf,
  positionLost,
} from './position.ts'
import { freeSlot, lineageOf, readerName, slotAt } from './slot.ts'
import { LogStream } from './stream.ts'

type LogRequest = Parameters<ChangeSource['changes']>[0]

const PING_EVERY_MS = 1_000
/**
 * A server that lives answers each ping, also while it works through a transaction of hours; one behind a line that is
 * cut says nothing, and the line may not say so for a quarter of an hour.
 */
export const SILENCE_MS = 120_000
/** So much may come before a checkpoint is worth its own event. */
const CHECKPOINT_BYTES = 1 << 20
const FLUSH_BYTES = 512 * 1024
/** How values are written, and those that are expressed are read again: as a read has them. */
export const SPELLING =
  "SET search_path = pg_catalog; SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, YMD'; " +
  "SET IntervalStyle = 'iso_8601'; SET TimeZone = 'UTC'; SET extra_float_digits = 3; SET bytea_output = 'hex'; " +
  "SET xmlbinary = 'base64'; SET array_nulls = on; SET xmloption = content; SET statement_timeout = 0; SET lock_timeout = '10s'; SET synchronous_commit = local; " +
  // Which older servers have not.
  "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"

export async function* readLog(way: Way, request: LogRequest): AsyncGenerator<ChangeEvent> {
  const sessions: Session[] = []
  let stop = (): void => undefined
  try {
    const session = await openSession(way, request.signal)
    sessions.push(session)
    await session.run(SPELLING)
    const slot = await slotAt(session, request.capture, request.after)
    await freeSlot(session, request.capture, slot.name)
    const target = await standsAt(session)
    const { timeline, ...lineage } = await lineageOf(session, slot.name)
    const after = placeOf(request.after)
    const reader = await openSession(way, request.signal, { replication: readerName(request.capture) })
    sessions.push(reader)
    await reader.run(SPELLING)
    await requireHistory(reader, after, timeline, target)
    const stream = reader.replicate(new LogStream(startStatement(slot.name, after.lsn, request.capture)))
    const stopPings = way.host.clock.every(PING_EVERY_MS, () => stream.ping())
    const stopWatch = way.host.clock.every(SILENCE_MS, () => stream.expectNews(SILENCE_MS))
    stop = () => {
      stopPings()
      stopWatch()
    }
    const position = (lsn: bigint): ChangePosition => ({
      lineage: lineageText(lineage),
      order: orderText({ lsn, timeline }),
    })
    yield* follow(stream, new LogFold(request.streams, session), {
      after: after.lsn,
      target,
      position,
      signal: request.signal,
    })
    await reader.endLog(stream)
    await way.kept.giveBack(session)
    sessions.length = 0
  } catch (error) {
    throw error instanceof Interrupted ? error.cause : logFailure(error, request.signal)
  } finally {
    stop()
    await Promise.all(sessions.map((session) => session.close()))
  }
}

interface Course {
  readonly after: bigint
  readonly target: bigint
  readonly position: (lsn: bigint) => ChangePosition
  readonly signal: AbortSignal
}

async function* follow(stream: LogStream, fold: LogFold, course: Course): AsyncGenerator<ChangeEvent> {
  let place = course.after
  const checkpoint = (lsn: bigint): ChangeEvent => {
    if (lsn > place) place = lsn
    return { kind: 'checkpoint', position: course.position(place), sourceTime: fold.sourceTime }
  }
  if (course.target <= course.after) {
    yield checkpoint(course.after)
    return
  }
  let since = 0
  for await (const item of stream) {
    course.signal.throwIfAborted()
    let end: bigint | null = null
    if (item.kind === 'data') {
      since += item.body.length
      const message = decode(item.body)
      yield* fold.take(message)
      if (message.kind === 'commit') end = message.endLsn
      if (fold.bytes > FLUSH_BYTES) yield* fold.flush()
      if (end !== null && end < course.target && since < CHECKPOINT_BYTES) end = null
    } else if (!fold.isInTransaction && item.end >= course.target) end = item.end
    if (end === null) continue
    yield* fold.flush()
    yield* fold.settle()
    yield checkpoint(end)
    since = 0
    if (end >= course.target) return
  }
}

/**
 * Where the log stands. A message of ours is written first: it makes the server write out what was committed without
 * waiting for the disk, and lets a quiet slot move on beside others' work.
 */
export async function standsAt(session: Session): Promise<bigint> {
  await session.query("SELECT pg_logical_emit_message(true, 'sluice', '')").catch((error: unknown) => {
    if (sqlState(error) === null) throw error
  })
  const [row] = await session.query<{ readonly lsn: string }>('SELECT pg_current_wal_flush_lsn()::text AS lsn')
  return parseLsn(row?.lsn ?? '')
}

/** What was read of a history that the server has not, or has more than it ever wrote, is no place to go on from. */
export async function requireHistory(reader: Session, after: Place, timeline: number, target: bigint): Promise<void> {
  if (after.lsn > target) throw positionLost('the server has not written as much as was read from it')
  if (after.timeline === timeline) return
  const [row] = await reader.query<{ readonly content: string | Buffer }>(`TIMELINE_HISTORY ${timeline}`)
  if (!isOfHistory(after, row?.content.toString() ?? '')) {
    throw positionLost('the server took another course before the saved position')
  }
}

export function startStatement(slot: string, lsn: bigint, publication: string): string {
  const names = escapeLiteral(escapeIdentifier(publication))
  return `START_REPLICATION SLOT ${escapeIdentifier(slot)} LOGICAL ${lsnText(lsn)} (proto_version '1', publication_names ${names})`
}

/** The server's words for a log that is gone: an invalidated slot, one that is not there, a publication that was not. */
export function logFailure(error: unknown, signal: AbortSignal): unknown {
  const state = sqlState(error)
  if (!signal.aborted && (state === '55000' || state === '42704' || state === '58P01')) {
    return positionLost('the server has let go of it', new Error(`error ${state}`))
  }
  return sourceFailure(error, 'the log of changes', signal)
}
