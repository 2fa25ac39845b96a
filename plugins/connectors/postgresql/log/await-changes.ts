/** Waits for the log: the server sends what is written as it is written, and nothing where nothing is. */
import type { AwaitRequest, ChangeNews, ChangePosition } from '@sluice/sdk'
import { Interrupted } from '../../server/failure.ts'
import { openSession, type Session, type Way } from '../session.ts'
import { logFailure, requireHistory, SILENCE_MS, SPELLING, startStatement } from './changes.ts'
import { decode } from './pgoutput.ts'
import { lineageText, orderText, parseLsn, placeOf } from './position.ts'
import { freeSlot, lineageOf, readerName, slotAt } from './slot.ts'
import { LogStream } from './stream.ts'

/** Also asks where the server stands, so that a log with nothing of ours moves on beside others' work. */
const PING_EVERY_MS = 10_000

export async function awaitChanges(way: Way, request: AwaitRequest): Promise<ChangeNews> {
  const sessions: Session[] = []
  const stops: (() => void)[] = []
  try {
    const session = await openSession(way, request.signal)
    sessions.push(session)
    const slot = await slotAt(session, request.capture, request.after)
    await freeSlot(session, request.capture, slot.name)
    const [written] = await session.query<{ readonly lsn: string }>('SELECT pg_current_wal_flush_lsn()::text AS lsn')
    const { timeline, ...lineage } = await lineageOf(session, slot.name)
    const after = placeOf(request.after)
    const reader = await openSession(way, request.signal, { replication: readerName(request.capture) })
    sessions.push(reader)
    await reader.run(SPELLING)
    await requireHistory(reader, after, timeline, parseLsn(written?.lsn ?? ''))
    // Nothing is asked of the server while we wait, so that one session is enough.
    await session.close()
    const stream = reader.replicate(new LogStream(startStatement(slot.name, after.lsn, request.capture)))
    const position = (lsn: bigint): ChangePosition => ({
      lineage: lineageText(lineage),
      order: orderText({ lsn, timeline }),
    })
    let isOver = false
    const { clock } = way.host
    stops.push(
      clock.every(PING_EVERY_MS, () => stream.ping()),
      clock.every(SILENCE_MS, () => stream.expectNews(SILENCE_MS)),
      // The server's answer ends the wait, since it says where it stands.
      clock.every(request.waitMs, () => {
        isOver = true
        stream.ping()
      }),
    )
    const news = await arrival(stream, { after: after.lsn, position, isOver: () => isOver, signal: request.signal })
    await reader.endLog(stream)
    return news
  } catch (error) {
    throw error instanceof Interrupted ? error.cause : logFailure(error, request.signal)
  } finally {
    for (const stop of stops) stop()
    await Promise.all(sessions.map((session) => session.close()))
  }
}

interface Wait {
  readonly after: bigint
  readonly position: (lsn: bigint) => ChangePosition
  readonly isOver: () => boolean
  readonly signal: AbortSignal
}

/** Transactions of others' tables come empty. What is in a transaction is not passed over. */
async function arrival(stream: LogStream, { after, position, isOver, signal }: Wait): Promise<ChangeNews> {
  let isInTransaction = false
  for await (const item of stream) {
    signal.throwIfAborted()
    if (item.kind === 'data') {
      const { kind } = decode(item.body)
      if (kind === 'insert' || kind === 'update' || kind === 'delete' || kind === 'truncate') return { kind: 'changed' }
      if (kind === 'begin') isInTransaction = true
      if (kind === 'commit') isInTransaction = false
    } else if (isOver() && !isInTransaction) {
      return { kind: 'quiet', position: position(item.end > after ? item.end : after) }
    }
  }
  throw new Error('the server ended its log, which has no end')
}
