import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { until } from '../../../test/until.ts'
import { EngineChild } from '../engine-child.ts'
import { testEngineProgram } from '../testing.ts'
import { ChildPool, LateStart } from './child-pool.ts'
import { pipeOpener } from './pipe.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
const never = new AbortController().signal

const openPipe = pipeOpener()
const program = await testEngineProgram()
const startChild = () => new EngineChild(openPipe, program)
const pool = new ChildPool(startChild, { maxChildren: 1, warmChildren: 1, maxQueued: 10 })
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

  it('tells how long a caller had waited whose process was not ready in time', async () => {
    const cold = new ChildPool(startChild, { maxChildren: 1, warmChildren: 0, maxQueued: 1 })
    try {
      const { child } = await cold.take('one', never, never)
      const deadline = new AbortController()
      const late = cold.take('two', deadline.signal, never)
      const refused = assert.rejects(late, (error) => error instanceof LateStart && error.queuedMs >= 40)
      await pause(50)
      child.kill()
      await child.ended
      // It has the place by now, and its process has only just been started.
      await turn()
      deadline.abort()
      await refused
    } finally {
      await cold.close()
    }
  })

  it('starts the next process a while after a job has ended, and not while what follows it goes on', async () => {
    const started: Idle[] = []
    const start = () => {
      const idle = new Idle()
      started.push(idle)
      return idle
    }
    const endJob = async (own: ChildPool<Idle>) => {
      started.length = 0
      own.warmUp()
      const { child } = await own.take('one', never, never)
      assert.equal(child, started[0], 'it was there already')
      child.kill()
      await child.ended
      await pause(20)
    }
    const limits = { maxChildren: 2, warmChildren: 1, maxQueued: 1 }
    const patient = new ChildPool(start, { ...limits, warmAfterMs: 3_600_000 })
    const brisk = new ChildPool(start, { ...limits, warmAfterMs: 1 })
    try {
      await endJob(patient)
      assert.equal(started.length, 1)
      await endJob(brisk)
      await until('the next process', () => started.length === 2)
    } finally {
      await Promise.all([patient.close(), brisk.close()])
    }
  })
})

/** A process that does nothing, and ends when it is told to. */
class Idle {
  readonly #ended = Promise.withResolvers<void>()
  readonly ready = Promise.resolve()
  readonly ended = this.#ended.promise

  kill(): void {
    this.#ended.resolve()
  }
}
