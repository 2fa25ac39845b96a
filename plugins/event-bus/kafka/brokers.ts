/** What brokers have come to know. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Admin } from '@platformatic/kafka'
import { REQUEST_TIMEOUT_MS } from './client.ts'

const KNOWN_POLL_MS = 50

/** Brokers learn of a topic, or of its end, a little after it was made. */
export async function untilKnown(admin: Admin, isDone: (known: ReadonlySet<string>) => boolean): Promise<void> {
  for (
    const deadline = performance.now() + REQUEST_TIMEOUT_MS;
    performance.now() < deadline;
    await sleep(KNOWN_POLL_MS)
  ) {
    if (isDone(new Set(await admin.listTopics({})))) return
  }
  throw new Error('the brokers do not know of the change in time')
}
