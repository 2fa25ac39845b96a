import assert from 'node:assert/strict'
import { it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import type { FollowedChange } from '../changes/follow-changes.ts'
import { bodyOf, type DeliveryBatch, nextBatch } from './delivery-batch.ts'

const START = { shape: 'a', epoch: 4, target: null, offset: 0 }
const webhook = { id: 'whk_1', round: 0, place: START, productId: 'prd_1', productName: 'crm.people' }
const FEW = { rows: 3, bytes: 10_000 }

/** Of an epoch with so many rows, from that byte on. */
async function* rows(count: number, offset = 0): AsyncGenerator<FollowedChange> {
  for (let row = offset / 10; row < count; row += 1) {
    const place = { shape: 'a', epoch: 4, target: 5, offset: (row + 1) * 10 }
    yield { kind: row % 2 === 0 ? 'upsert' : 'delete', json: `{"id":${row}}`, place }
  }
  yield { kind: 'epoch', json: '{"epoch":5}', place: { shape: 'a', epoch: 5, target: null, offset: 0 } }
}

async function* reset(shape: string): AsyncGenerator<FollowedChange> {
  yield { kind: 'reset', json: '{"reason":"changed"}', place: { shape, epoch: null, target: null, offset: 0 } }
}

const parsed = (batch: DeliveryBatch) => JSON.parse(bodyOf(webhook, batch, 7))
const idsOf = (batch: DeliveryBatch): string[] => parsed(batch).events.map(({ id }: { id: string }) => id)

it('has some rows of one epoch, in order, and ends with it', async () => {
  const batch = (await nextBatch(rows(4), webhook, FEW)) as DeliveryBatch
  const { events, ...head } = parsed(batch)
  const product = { id: 'prd_1', name: 'crm.people' }
  assert.deepEqual(head, {
    type: 'sluice.product.changes',
    webhook: 'whk_1',
    product,
    sequence: 7,
    epoch: 5,
    from_epoch: 4,
  })
  assert.deepEqual(
    events.map(({ event, data }: { event: string; data: unknown }) => [event, data]),
    [
      ['upsert', { id: 0 }],
      ['delete', { id: 1 }],
      ['upsert', { id: 2 }],
    ],
  )
  const place = { shape: 'a', epoch: 4, target: 5, offset: 30 }
  assert.deepEqual(batch.place, place)
  const last = (await nextBatch(rows(4, 30), { ...webhook, place }, FEW)) as DeliveryBatch
  assert.deepEqual(parsed(last).events.at(-1).event, 'epoch')
  assert.deepEqual(last.place, { shape: 'a', epoch: 5, target: null, offset: 0 })
})

it('has the same ids and bytes each time, and its events also in batches of another size', async () => {
  const first = (await nextBatch(rows(4), webhook, FEW)) as DeliveryBatch
  assert.deepEqual(await nextBatch(rows(4), webhook, FEW), first)
  const all = (await nextBatch(rows(4), webhook, { ...FEW, rows: 100 })) as DeliveryBatch
  assert.notEqual(all.id, first.id)
  assert.deepEqual(idsOf(all).slice(0, 3), idsOf(first))
  assert.equal(new Set(idsOf(all)).size, 5)
})

it('has other ids for the same rows when its receiver has begun anew', async () => {
  const first = (await nextBatch(rows(4), webhook, FEW)) as DeliveryBatch
  const again = (await nextBatch(rows(4), { ...webhook, round: 2 }, FEW)) as DeliveryBatch
  assert.notEqual(again.id, first.id)
  assert.equal(new Set([...idsOf(first), ...idsOf(again)]).size, 6)
  const resets = await Promise.all([0, 1].map((round) => nextBatch(reset('b'), { ...webhook, round }, FEW)))
  assert.notEqual(resets[0]?.id, resets[1]?.id)
  assert.deepEqual([resets[0]?.epoch, resets[0]?.fromEpoch], [null, null])
})

it('is no larger than it may be, and stops at a row that is', async () => {
  const { events } = (await nextBatch(rows(4), webhook, { rows: 100, bytes: 150 })) as DeliveryBatch
  assert.ok(events.length >= 1 && events.length < 4, String(events.length))
  assert.ok(events.join('').length <= 150)
  await assert.rejects(
    nextBatch(rows(4), webhook, { rows: 100, bytes: 30 }),
    (error) => isSluiceError(error) && error.code === 'webhook_row_too_large',
  )
})
