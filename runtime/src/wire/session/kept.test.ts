import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TenantCall } from '../../flow.ts'
import { type BoundPortal, copied, Kept, type Prepared } from './kept.ts'
import { Portal } from './portal.ts'

const admit = async (): Promise<TenantCall> => ({}) as TenantCall

async function opened(heldBytes: number): Promise<Portal> {
  const rows = async function* () {
    yield { bytes: Buffer.alloc(1), rows: 1 }
  }
  const plan = {
    tag: () => '',
    describe: async () => ({ parameterOids: [], columns: [] }),
    open: async () => ({ columns: [], rows: rows(), heldBytes }),
  }
  const portal = new Portal(plan, { values: [], formats: [], timeoutMs: undefined })
  await portal.columns(admit)
  return portal
}

const boundOf = (portal: Portal, keptBytes = 0): BoundPortal => ({
  prepared: {} as Prepared,
  portal,
  values: [],
  keptBytes,
})

describe('what a session keeps', () => {
  it('are rows of so many bytes, of portals and cursors together', async () => {
    const kept = new Kept()
    const [one, other] = [await opened(20 * 2 ** 20), await opened(20 * 2 ** 20)]
    kept.addPortal('a', boundOf(one))
    kept.checkHeld(one)
    kept.addCursor('b', other, '', 0)
    assert.throws(() => kept.checkHeld(other), { sqlState: '53400' })
    assert.equal(other.isOpen, false)
    for await (const _ of one.read(0));
    assert.equal(one.heldBytes, 0)
    const third = await opened(20 * 2 ** 20)
    kept.addPortal('c', boundOf(third))
    kept.checkHeld(third)
  })

  it('is counted, whatever it is', async () => {
    const kept = new Kept()
    kept.addCursor('a', await opened(0), '', 5 * 2 ** 20)
    assert.throws(() => kept.addPortal('b', boundOf({} as Portal, 4 * 2 ** 20)), { sqlState: '53400' })
    kept.closeCursors(null)
    kept.addPortal('b', boundOf({ close() {} } as Portal, 4 * 2 ** 20))
  })

  it('is of a value the value alone, and not the message that it came with', () => {
    const message = Buffer.alloc(2 ** 20, 'm')
    const values = copied([
      { format: 0, bytes: message.subarray(7, 9) },
      { format: 1, bytes: null },
    ])
    assert.deepEqual(
      [values[0]?.bytes?.toString(), values[0]?.bytes?.buffer.byteLength, values[1]?.bytes],
      ['mm', 2, null],
    )
  })
})
