/** Signatures of webhooks, as https://www.standardwebhooks.com has them: HMAC-SHA256 over id, time and body. */
import { createHmac, timingSafeEqual } from 'node:crypto'

export interface WebhookHeaders {
  readonly id: string
  /** Seconds since 1970. */
  readonly timestamp: number
  /** As they came, each with its version. */
  readonly signatures: readonly string[]
}

/** A signature counts so long before and after its time. */
export const TOLERANCE_MS = 5 * 60 * 1000
/** Senders that change their secret sign with both. */
const MAX_SIGNATURES = 10
const ID = /^[!-~]{1,255}$/
const PREFIX = 'whsec_'

/** Null where one of the three is missing, or cannot be what it is called. */
export function webhookHeaders(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): WebhookHeaders | null {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature } = headers
  if (typeof id !== 'string' || typeof time !== 'string' || typeof signature !== 'string') return null
  if (!ID.test(id) || !/^\d{1,12}$/.test(time)) return null
  return { id, timestamp: Number(time), signatures: signature.split(' ').slice(0, MAX_SIGNATURES) }
}

/** Whether one of the signatures is that of the secret, at a time that is not too far from now. */
export function isSigned(
  { id, timestamp, signatures }: WebhookHeaders,
  body: Uint8Array,
  secret: string,
  nowMs: number,
): boolean {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  if (!secret.startsWith(PREFIX) || key.length < 24) return false
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
  let isFound = false
  for (const signature of signatures) {
    const given = Buffer.from(signature.startsWith('v1,') ? signature.slice(3) : '', 'base64')
    if (given.length === expected.length && timingSafeEqual(given, expected)) isFound = true
  }
  return isFound && Math.abs(nowMs - timestamp * 1000) <= TOLERANCE_MS
}
