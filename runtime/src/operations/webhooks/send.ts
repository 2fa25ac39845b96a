/** One signed message to a receiver, and what of his answer counts: the status, and when he wants to be asked again. */
import { isSluiceError } from '@sluice/sdk'
import { answerTo } from '../../events/post-json.ts'
import { signatureHeaders } from '../../events/webhook-signature.ts'
import type { WebhookSecret } from '../../registry/webhooks.ts'
import type { WebhooksDeps } from './deps.ts'

export interface Answered {
  /** Null where no whole answer came. */
  readonly status: number | null
  /** Null: he has taken it. */
  readonly errorCode: string | null
  /** Null where he does not say. */
  readonly retryAfterMs: number | null
}

const DAY_MS = 24 * 60 * 60 * 1000

/** Whatever the receiver does. Throws with the signal's reason alone. */
export async function sendSigned(
  { connectorHost, config }: Pick<WebhooksDeps, 'connectorHost' | 'config'>,
  { url, signingKey }: WebhookSecret,
  { id, body }: { readonly id: string; readonly body: string },
  signal: AbortSignal,
): Promise<Answered> {
  const headers = signatureHeaders({ id, body, atS: Math.floor(Date.now() / 1000) }, signingKey)
  try {
    const post = { url, body, headers }
    const { status, retryAfter } = await answerTo(post, connectorHost.network, signal, config.webhooks.timeout_ms)
    const isTaken = status >= 200 && status <= 299
    return {
      status,
      errorCode: isTaken ? null : 'receiver_refused',
      retryAfterMs: isTaken ? null : retryAfterMs(retryAfter, Date.now()),
    }
  } catch (error) {
    signal.throwIfAborted()
    // What Node says of a connection may have an address in it.
    const errorCode = isSluiceError(error) ? error.code : 'receiver_unreachable'
    return { status: null, errorCode, retryAfterMs: null }
  }
}

/** Seconds, or a time of day; at most a day. Null: it says neither. */
export function retryAfterMs(header: string | null, nowMs: number): number | null {
  if (header === null) return null
  const text = header.trim()
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), DAY_MS)
}
