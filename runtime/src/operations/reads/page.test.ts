import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OneBatch, type ReadBatch } from '@sluice/sdk'
import { collect } from './page.ts'
import type { ReadView } from './read-view.ts'

const SCHEMA = { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: ['id'] } as const
const EPOCH = 4
const view = { served: { epoch: EPOCH }, schema: SCHEMA } as unknown as ReadView

async function* walked(batches: readonly ReadBatch[]): AsyncGenerator<ReadBatch> {
  yield* batches
}

/** How a store may give its batches; those of one batch alone. */
const GIVEN: Readonly<Record<string, (batch: ReadBatch) => AsyncIterable<ReadBatch>>> = {
  'one by one': (batch) => walked([batch]),
  'as one that is there': (batch) => new OneBatch(() => batch),
  'as one that is to come': (batch) => new OneBatch(async () => batch),
}

const BATCHES: Readonly<Record<string, Omit<ReadBatch, 'epoch'> & ({ json: string } | { columns: [] | [number[]] })>> =
  {
    'text with more to come': { rowCount: 2, json: ' [{"id":1},{"id":2}] ', next: [2] },
    'cells that expire': { rowCount: 2, columns: [[1, 2]], ttlRemainingS: 7 },
    nothing: { rowCount: 0, json: '[]' },
  }

describe('rows of a page', () => {
  for (const [given, batches] of Object.entries(GIVEN)) {
    for (const [what, batch] of Object.entries(BATCHES)) {
      it(`are the same, given ${given}: ${what}`, async () => {
        const page = await collect(batches({ ...batch, epoch: EPOCH }), view, ['id'])
        const { rowCount, next, ttlRemainingS } = batch
        assert.deepEqual(page, { rowCount, next, ttlRemainingS, rows: rowCount === 0 ? '' : '{"id":1},{"id":2}' })
      })
    }

    it(`are of the epoch that was decided by, given ${given}`, async () => {
      const at = (epoch: number) => collect(batches({ rowCount: 0, json: '[]', epoch }), view, ['id'])
      await assert.rejects(at(EPOCH - 1), { code: 'copy_outdated' })
      await assert.rejects(at(EPOCH + 1), { code: 'epoch_moved' })
    })

    it(`are not read where reading fails, given ${given}`, async () => {
      const failing = batches({
        epoch: EPOCH,
        rowCount: 1,
        get json(): string {
          throw new Error('away')
        },
      })
      await assert.rejects(collect(failing, view, ['id']), { message: 'away' })
    })
  }

  it('of several batches follow each other, also where one of them is empty', async () => {
    const batches = walked([
      { epoch: EPOCH, rowCount: 0, json: '[]' },
      { epoch: EPOCH, rowCount: 1, json: '[{"id":1}]' },
      { epoch: EPOCH, rowCount: 0, json: '[]' },
      { epoch: EPOCH, rowCount: 1, columns: [[2]], next: [2] },
    ])
    const page = await collect(batches, view, ['id'])
    assert.deepEqual(page, { rows: '{"id":1},{"id":2}', rowCount: 2, next: [2], ttlRemainingS: undefined })
  })
})
