/** One connection that listens, is watched, and is replaced when it breaks. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { DatabaseAddress } from './address.ts'
import { clientConfig } from './pools.ts'

export interface ListenerOptions {
  readonly applicationName: string
  /** By channel: called with the payload of every notification. Must not throw. */
  readonly channels: Readonly<Record<string, (payload: string) => void>>
  /** Notifications may be missed from here on: forget what they keep fresh. Called once for each loss. */
  readonly onLost: () => void
  /** Listening (again): what happened before this is for the caller to look up. */
  readonly onReady?: () => void
  /** How often the connection is tried, and how long an answer may take. Default 1.5 s each: a loss shows within 3 s. */
  readonly heartbeatMs?: number
}

const HEARTBEAT_MS = 1500
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 3000

export interface Listener {
  /** Whether notifications arrive now. */
  readonly isListening: boolean
  close(): Promise<void>
}

/** Connects in the background and resolves at once; it goes on trying until it is closed. */
export function openListener(address: DatabaseAddress, options: ListenerOptions): Listener {
  const closing = new AbortController()
  const state = { isListening: false }
  const finished = keepListening(address, options, state, closing.signal)
  return {
    get isListening() {
      return state.isListening
    },
    async close() {
      closing.abort()
      await finished
    },
  }
}

async function keepListening(
  address: DatabaseAddress,
  options: ListenerOptions,
  state: { isListening: boolean },
  signal: AbortSignal,
): Promise<void> {
  let retryMs = FIRST_RETRY_MS
  while (!signal.aborted) {
    const listened = await listenOnce(address, options, state, signal)
    if (signal.aborted) return
    retryMs = listened ? FIRST_RETRY_MS : Math.min(retryMs * 2, LAST_RETRY_MS)
    // An abort ends the pause and the loop.
    await sleep(retryMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

/** Until the connection breaks or the signal comes; true where it had come so far as to listen. */
async function listenOnce(
  address: DatabaseAddress,
  options: ListenerOptions,
  state: { isListening: boolean },
  signal: AbortSignal,
): Promise<boolean> {
  const heartbeatMs = options.heartbeatMs ?? HEARTBEAT_MS
  const config = clientConfig(address, { applicationName: options.applicationName, connectTimeoutMs: 5000 })
  const client = new pg.Client({ ...config, query_timeout: heartbeatMs })
  const broken = new AbortController()
  const ended = AbortSignal.any([signal, broken.signal])
  client.on('error', () => broken.abort()).on('end', () => broken.abort())
  client.on('notification', ({ channel, payload }) => options.channels[channel]?.(payload ?? ''))
  try {
    await client.connect()
    for (const channel of Object.keys(options.channels)) await client.query(`listen ${pg.escapeIdentifier(channel)}`)
    state.isListening = true
    options.onReady?.()
    while (!ended.aborted) {
      await sleep(heartbeatMs, undefined, { signal: ended, ref: false })
      await client.query('select')
    }
  } catch {
    // Whatever broke it, the answer is a new connection.
  }
  const wasListening = state.isListening
  state.isListening = false
  if (wasListening && !signal.aborted) options.onLost()
  endClient(client)
  return wasListening
}

/** Without waiting: the other side may be gone. */
function endClient(client: pg.Client): void {
  client.end().catch(() => undefined)
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}
