/** The connection to the server, with deadlines, and errors that may be shown. */
import { once } from 'node:events'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { Redis } from 'ioredis'

const CONNECT_TIMEOUT_MS = 5000
const COMMAND_TIMEOUT_MS = 5000
const MAX_RECONNECT_DELAY_MS = 2000

/** Connects with the first call. */
export function connectionTo(url: string): Redis {
  const redis = new Redis(url, {
    connectionName: 'sluice-events',
    lazyConnect: true,
    // What waits for a connection could be sent long after its caller was told that it failed.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: COMMAND_TIMEOUT_MS,
    socketTimeout: COMMAND_TIMEOUT_MS,
    retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 10), MAX_RECONNECT_DELAY_MS),
  })
  // Calls tell what breaks; an error that nobody listens to would end the process.
  redis.on('error', () => undefined)
  return redis
}

/** Throws SluiceErrors only. */
export async function guarded<T>(redis: Redis, run: () => Promise<T>): Promise<T> {
  try {
    await connected(redis)
    return await run()
  } catch (error) {
    if (isSluiceError(error)) throw error
    throw new SluiceError('TRANSIENT', 'the event bus could not do it', {
      code: 'bus_unavailable',
      remedy: 'Check that Redis runs, and the url, login and rights under events.redis-streams.',
      retryAfterMs: 1000,
      cause: error,
    })
  }
}

async function connected(redis: Redis): Promise<void> {
  if (redis.status === 'ready') return
  const signal = AbortSignal.timeout(CONNECT_TIMEOUT_MS)
  const ready = once(redis, 'ready', { signal })
  // It goes on trying by itself, whatever became of the first time.
  if (redis.status === 'wait') redis.connect().catch(() => undefined)
  await ready
}
