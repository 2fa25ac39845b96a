/** A reporter of node:test that writes one line for each file: how long it took, and what it cost the processors. */
import { relative } from 'node:path'
import { processorSeconds } from '../test/processor-time.ts'

interface TestEvent {
  readonly type: string
  readonly data: { readonly file?: string; readonly duration_ms?: number }
}

const root = `${import.meta.dirname}/..`

/** Of files that run one after the other. A file's process counts once it has ended, which is after its summary. */
export default async function* costs(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  let before = processorSeconds() ?? Number.NaN
  let file: { readonly name: string; readonly seconds: number } | undefined
  const line = () => {
    const now = processorSeconds() ?? Number.NaN
    const text = file === undefined ? '' : `${file.name}: ${file.seconds} s, ${Math.round(now - before)} processor seconds\n`
    before = now
    return text
  }
  for await (const { type, data } of events) {
    if (type !== 'test:summary' || data.file === undefined) continue
    yield line()
    file = { name: relative(root, data.file), seconds: Math.round((data.duration_ms ?? 0) / 1000) }
  }
  yield line()
}
