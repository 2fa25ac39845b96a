/**
 * What one delivery tells: some changes of one epoch, in their order. Read twice for one place, under one policy and one limit, it is the
 * same to the byte, and has the same ids. They name the round, since whoever begins anew is told the same rows again.
 */
import { createHash } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import type { Webhook, WebhookPlace } from '../../registry/webhooks.ts'
import type { FollowedChange } from '../changes/follow-changes.ts'

export interface DeliveryBatch {
  readonly id: string
  /** Of its rows; null where it tells that all begins anew. */
  readonly epoch: number | null
  /** Which one they follow on; null: none. */
  readonly fromEpoch: number | null
  /** Each as JSON. */
  readonly events: readonly string[]
  /** Where the receiver is when it has them. */
  readonly place: WebhookPlace
}

export interface BatchLimits {
  readonly rows: number
  readonly bytes: number
}

type Of = Pick<Webhook, 'id' | 'round' | 'place'>

/** Null: there is nothing yet. Throws QUOTA `webhook_row_too_large`, and what following throws. */
export async function nextBatch(
  changes: AsyncIterable<FollowedChange>,
  webhook: Of,
  { rows, bytes }: BatchLimits,
): Promise<DeliveryBatch | null> {
  const events: string[] = []
  let size = 0
  let last: FollowedChange | null = null
  let lastId = ''
  for await (const change of changes) {
    const id = eventId(webhook, change)
    const event = `{"id":"${id}","event":"${change.kind}","data":${change.json}}`
    const length = Buffer.byteLength(event)
    if (length > bytes) throw rowTooLarge(bytes)
    if (events.length === rows || size + length > bytes) break
    events.push(event)
    size += length
    last = change
    lastId = id
  }
  if (last === null) return null
  const { place } = last
  const isReset = last.kind === 'reset'
  return {
    id: `msg_${digest([webhook.id, webhook.round, webhook.place, lastId])}`,
    epoch: isReset ? null : (place.target ?? place.epoch),
    fromEpoch: isReset ? null : webhook.place.epoch,
    events,
    place,
  }
}

/** By what it is a part of, and where in it: so that it is the same in a delivery of another size. */
function eventId({ id, round, place: from }: Of, { kind, place }: FollowedChange): string {
  const part = digest([id, round, from.shape, from.epoch, place.shape, place.target ?? place.epoch])
  return `${part}.${kind === 'upsert' || kind === 'delete' ? place.offset : kind}`
}

function digest(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 24)
}

export function bodyOf(
  { id, productId, productName }: Pick<Webhook, 'id' | 'productId' | 'productName'>,
  { epoch, fromEpoch, events }: DeliveryBatch,
  sequence: number,
): string {
  const head = {
    type: 'sluice.product.changes',
    webhook: id,
    product: { id: productId, name: productName },
    sequence,
    epoch,
    from_epoch: fromEpoch,
  }
  return `${JSON.stringify(head).slice(0, -1)},"events":[${events.join(',')}]}`
}

function rowTooLarge(bytes: number): SluiceError {
  return new SluiceError('QUOTA', 'a row of the product is larger than a delivery may be', {
    code: 'webhook_row_too_large',
    remedy: 'Raise webhooks.batch_kilobytes, or follow the changes as a stream.',
    details: { max_bytes: bytes },
  })
}
