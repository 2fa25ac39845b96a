/** A reporter of node:test that writes one line for each file: how long it took, and what it cost the processors. */
import { EventEmitter } from 'node:events'
import { relative, resolve } from 'node:path'
import { processorSeconds } from '../test/processor-time.ts'

interface TestEvent {
  readonly type: string
  readonly data: {
    readonly name?: string
    readonly file?: string
    readonly details?: { readonly duration_ms?: number }
  }
}

const root = `${import.meta.dirname}/..`

// Each reporter listens to the stream of tests in several ways; Node warns of a leak from the eleventh listener on, and
// three reporters have more. Nothing but the runner loads this.
EventEmitter.defaultMaxListeners = 30

/** Of files that run one after the other. */
export default async function* costs(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  let before = processorSeconds() ?? Number.NaN
  for await (const { type, data } of events) {
    // A file is a test of this name to its runner, which has ended when its process has.
    if (type !== 'test:complete' || data.name === undefined || resolve(data.name) !== data.file) continue
    const now = processorSeconds() ?? Number.NaN
    const seconds = Math.round((data.details?.duration_ms ?? 0) / 1000)
    yield `${relative(root, data.file)}: ${seconds} s, ${Math.round(now - before)} processor seconds\n`
    before = now
  }
}
