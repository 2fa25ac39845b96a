/** Work that events give rise to, in rounds: when some are announced, and by the clock in case that was missed. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabaseAddress } from '../database/address.ts'
import { openListener } from '../database/listener.ts'
import { Bell } from '../jobs/bell.ts'
import { EVENTS_CHANNEL } from './outbox.ts'

export interface Rounds {
  /** Of the database with the events, for a connection that listens. */
  readonly address: DatabaseAddress
  readonly applicationName: string
  readonly pollMs: number
  /** Of the connection that listens; see `ListenerOptions`. */
  readonly heartbeatMs?: number
  /** All that is there to do now. */
  readonly round: () => Promise<void>
  /** What a round threw; it is news where the one before threw nothing. Must not throw. */
  readonly failed: (error: unknown, isNews: boolean) => void | Promise<void>
  /** After the last round. Must not throw. */
  readonly ended: () => Promise<void>
  readonly signal: AbortSignal
}

/** Until the signal, and then to the end of the round that is under way. The first one begins at once. */
export async function runInRounds({ signal, pollMs, ...rounds }: Rounds): Promise<void> {
  const bell = new Bell()
  const listener = openListener(rounds.address, {
    applicationName: rounds.applicationName,
    channels: { [EVENTS_CHANNEL]: bell.ring },
    onLost: () => undefined,
    onReady: bell.ring,
    ...(rounds.heartbeatMs === undefined ? {} : { heartbeatMs: rounds.heartbeatMs }),
  })
  let isFailing = false
  while (!signal.aborted) {
    bell.clear()
    try {
      await rounds.round()
      isFailing = false
    } catch (error) {
      await rounds.failed(error, !isFailing)
      isFailing = true
    }
    // What is away is not asked at every event.
    if (isFailing) await sleep(pollMs, undefined, { signal }).catch(() => undefined)
    else await bell.heard(pollMs, signal)
  }
  await rounds.ended()
  await listener.close()
}
