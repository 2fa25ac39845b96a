import { after, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { ChildPool } from './child-pool.ts'
import { pipeOpener } from './pipe.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const never = new AbortController().signal

const pool = new ChildPool(pipeOpener(), { maxChildren: 1, warmChildren: 1, maxQueued: 10 })
after(() => pool.close())

describe('the queue for engine processes', { timeout: 300_000 }, () => {
  it('loses nobody when a caller goes away whose jobs have left it', async () => {
    const caller = new AbortController()
    const first = await pool.take('one', never, never)
    const waiting = ['two', 'three'].map((owner) => pool.take(owner, never, caller.signal))
    // As it comes about by itself while they wait for long.
    await turn()
    collectGarbage()
    first.child.kill()
    const [second, third] = waiting
    ;(await second)?.child.kill()
    const held = await third
    const last = pool.take('four', never, never)
    caller.abort()
    held?.child.kill()
    ;(await last).child.kill()
  })
})
