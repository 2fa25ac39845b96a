import type { ReplyStream } from './route.ts'

export interface ServerEvent {
  /** Where a client resumes; without line breaks. */
  readonly id?: string
  readonly event?: string
  /** JSON text, or any text. */
  readonly data: string
}

export interface EventStreamOptions {
  /** Ends the stream. */
  readonly signal: AbortSignal
  /** A comment is sent after so long without an event, so that proxies keep the connection. Default 15 s. */
  readonly heartbeatMs?: number
  /** What a client waits before it connects again. Default 3 s. */
  readonly retryMs?: number
}

const HEARTBEAT_MS = 15_000
const RETRY_MS = 3_000

/** Events as text/event-stream, ended by the signal even while the source is silent. */
export function eventStream(events: AsyncIterable<ServerEvent>, options: EventStreamOptions): ReplyStream {
  return { contentType: 'text/event-stream; charset=utf-8', live: true, chunks: eventChunks(events, options) }
}

async function* eventChunks(source: AsyncIterable<ServerEvent>, options: EventStreamOptions): AsyncGenerator<string> {
  const { signal, heartbeatMs = HEARTBEAT_MS, retryMs = RETRY_MS } = options
  const events = source[Symbol.asyncIterator]()
  try {
    yield `retry: ${retryMs}\n\n`
    let next = events.next()
    for (;;) {
      const result = await soonest(next, signal, heartbeatMs)
      if (result === 'silent') yield ': still here\n\n'
      else if (result === 'ended' || result.done === true) return
      else {
        yield formatEvent(result.value)
        next = events.next()
      }
    }
  } finally {
    // Not awaited: a source that waits for its next event answers only after it.
    void events.return?.()?.catch?.(() => {})
  }
}

type Next = IteratorResult<ServerEvent>

/** The next event, or that there is none yet, or that the stream has ended. Leaves nothing behind on the signal. */
function soonest(next: Promise<Next>, signal: AbortSignal, heartbeatMs: number): Promise<Next | 'ended' | 'silent'> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => settle('silent'), heartbeatMs)
    const onAbort = (): void => settle('ended')
    const leave = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
    const settle = (result: Next | 'ended' | 'silent'): void => {
      leave()
      resolve(result)
    }
    next.then(settle, (error: unknown) => {
      leave()
      reject(error)
    })
    if (signal.aborted) settle('ended')
    else signal.addEventListener('abort', onAbort)
  })
}

/** A line break in a field would begin another field: names and ids lose theirs, data becomes several lines. */
export function formatEvent({ id, event, data }: ServerEvent): string {
  const lines: string[] = []
  if (id !== undefined) lines.push(`id: ${oneLine(id)}`)
  if (event !== undefined) lines.push(`event: ${oneLine(event)}`)
  for (const line of data.split(/\r\n|\r|\n/)) lines.push(`data: ${line}`)
  return `${lines.join('\n')}\n\n`
}

function oneLine(text: string): string {
  return text.replace(/[\r\n\0]/g, '')
}
