import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { MessageChannel, Worker } from 'node:worker_threads'

test('a thread that asks waits for its answer, and not for a notice that comes without one', async () => {
  const flag = new Int32Array(new SharedArrayBuffer(4))
  const { port1, port2 } = new MessageChannel()
  const thread = new Worker(new URL('./gates.fixture.ts', import.meta.url), {
    workerData: { flag, port: port2 },
    transferList: [port2],
  })
  try {
    thread.postMessage({ name: 'ask', input: 'what?' })
    assert.deepEqual(await once(thread, 'message'), [{ kind: 'asked', question: 'what?' }])
    // Of the answer before: whoever gave it was held up between telling it and waking who waits.
    while (Atomics.notify(flag, 0) === 0) await turn()
    port1.postMessage({ value: 'that' })
    Atomics.store(flag, 0, 1)
    Atomics.notify(flag, 0)
    assert.deepEqual(await once(thread, 'message'), [{ kind: 'done', output: 'that' }])
  } finally {
    port1.close()
    await thread.terminate()
  }
})
