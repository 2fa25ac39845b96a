/** A reporter of node:test that writes only what failed: said again at the end of a run of many suites. */
import { inspect } from 'node:util'

// The first lines say what was expected, the last what a program of somebody else's said; all failures must fit a screen.
const HEAD_CHARACTERS = 700
const TAIL_CHARACTERS = 700

interface TestEvent {
  readonly type: string
  readonly data: {
    readonly name?: string
    readonly file?: string
    readonly line?: number
    readonly details?: { readonly error?: unknown }
  }
}

export default async function* failures(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== 'test:fail' || isOnlyAParent(data.details?.error)) continue
    const { name = 'a test', file = '', line = 0 } = data
    yield `✖ ${name} (${file}:${line})\n${textOf(data.details?.error)}\n`
  }
}

function isOnlyAParent(error: unknown): boolean {
  return (error as { readonly failureType?: string } | undefined)?.failureType === 'subtestsFailed'
}

function textOf(error: unknown): string {
  const cause = (error as { readonly cause?: unknown } | undefined)?.cause ?? error
  const text = inspect(cause, { depth: 4 })
  if (text.length <= HEAD_CHARACTERS + TAIL_CHARACTERS) return text
  return `${text.slice(0, HEAD_CHARACTERS)}\n…\n${text.slice(-TAIL_CHARACTERS)}`
}
