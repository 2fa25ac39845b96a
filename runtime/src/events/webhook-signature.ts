/** How messages to webhooks are signed: as Standard Webhooks are, over the id, the second and the body. */
import { createHmac } from 'node:crypto'

export interface SignedMessage {
  /** The same each time that the message is sent. */
  readonly id: string
  /** Seconds since 1970. */
  readonly atS: number
  readonly body: string
}

const PREFIX = /^whsec_/

/** @param signingKey `whsec_` and base64 */
export function signatureHeaders(
  { id, atS, body }: SignedMessage,
  signingKey: string,
): Readonly<Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>> {
  const mac = createHmac('sha256', Buffer.from(signingKey.replace(PREFIX, ''), 'base64'))
  const signature = `v1,${mac.update(`${id}.${atS}.${body}`).digest('base64')}`
  return { 'webhook-id': id, 'webhook-timestamp': String(atS), 'webhook-signature': signature }
}
