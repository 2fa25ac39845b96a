import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { mapAtOnce } from './at-once.ts'

describe('work on several items at once', () => {
  it('keeps the limit and the order, whichever ends first', async () => {
    let underWay = 0
    let most = 0
    const items = Array.from({ length: 30 }, (_, at) => at)
    const doubled = await mapAtOnce(items, 4, async (item) => {
      underWay += 1
      most = Math.max(most, underWay)
      await sleep((item * 7) % 5)
      underWay -= 1
      return item * 2
    })
    assert.deepEqual(
      doubled,
      items.map((item) => item * 2),
    )
    assert.equal(most, 4)
  })

  it('begins nothing after a failure, and waits for what is under way', async () => {
    const begun: number[] = []
    const ended: number[] = []
    const failed = Promise.withResolvers<void>()
    const working = mapAtOnce([0, 1, 2, 3, 4, 5], 3, async (item) => {
      begun.push(item)
      await turn()
      if (item === 1) {
        failed.resolve()
        throw new Error('the second')
      }
      await failed.promise
      // What would be begun or given up because of the failure has been by then.
      for (let turns = 0; turns < 5; turns += 1) await turn()
      ended.push(item)
    })
    await assert.rejects(working, { message: 'the second' })
    assert.deepEqual(
      [begun, ended],
      [
        [0, 1, 2],
        [0, 2],
      ],
    )
  })

  it('takes no items for nothing to do', async () => {
    assert.deepEqual(await mapAtOnce([], 3, () => Promise.reject(new Error('never'))), [])
  })
})
