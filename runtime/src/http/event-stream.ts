import { setImmediate } from 'node:timers/promises'
import { isSluiceError } from '@sluice/sdk'
import type { ReplyStream } from './route.ts'
import { StreamTurns } from './stream-turns.ts'

export interface ServerEvent {
  /** Where a client resumes; without line breaks. */
  readonly id?: string
  readonly event?: string
  /** JSON text, or any text. */
  readonly data: string
}

export interface EventStreamOptions {
  /** Whose stream it is: tenants take turns. */
  readonly tenant: string
  /** Ends the stream. */
  readonly signal: AbortSignal
  /** A comment is sent after so long without an event, so that proxies keep the connection. Default 15 s. */
  readonly heartbeatMs?: number
  /** What a client waits before it connects again. Default 3 s. */
  readonly retryMs?: number
}

const HEARTBEAT_MS = 15_000
const RETRY_MS = 3_000
/** Of one turn. */
const MOST_EVENTS = 32
/** And as many characters, but for the one event that goes beyond. */
const MOST_CHARACTERS = 16 * 1024

/** Of this process, as the event loop is. */
const turns = new StreamTurns()

/**
 * Events as text/event-stream, ended by the signal even while the source is silent. Where that says what the reader can do something
 * about, the last event is a `problem`, in the place of the one before it.
 */
export function eventStream(events: AsyncIterable<ServerEvent>, options: EventStreamOptions): ReplyStream {
  return { contentType: 'text/event-stream; charset=utf-8', live: true, chunks: eventChunks(events, options) }
}

async function* eventChunks(source: AsyncIterable<ServerEvent>, options: EventStreamOptions): AsyncGenerator<string> {
  const { tenant, signal, heartbeatMs = HEARTBEAT_MS, retryMs = RETRY_MS } = options
  const events = source[Symbol.asyncIterator]()
  try {
    yield `retry: ${retryMs}\n\n`
    let next = nextOf(events)
    let lastId: string | undefined
    for (;;) {
      const result = await soonest(next, signal, heartbeatMs)
      if (result === 'silent') yield ': still here\n\n'
      else if (result === 'ended') {
        const problem = problemOf(signal)
        if (problem !== null) yield formatEvent({ ...problem, ...(lastId === undefined ? {} : { id: lastId }) })
        return
      } else if (result.done === true) return
      else {
        await turns.next(tenant)
        const piece = await pieceFrom(result.value, events, signal)
        if (problemOf(signal) !== null) continue
        lastId = piece.lastId ?? lastId
        yield piece.text
        next = piece.next
      }
    }
  } finally {
    // Not awaited: a source that waits for its next event answers only after it.
    void events.return?.()?.catch?.(() => {})
  }
}

/** Null where there is nothing to be done about the end. What has not been sent by then follows on the place of the problem. */
function problemOf({ reason }: AbortSignal): ServerEvent | null {
  if (!isSluiceError(reason) || reason.kind !== 'PERMISSION') return null
  const { code, message: detail, remedy = null } = reason
  return { event: 'problem', data: JSON.stringify({ code, detail, remedy }) }
}

/** That event, and those that are there before anything else has its turn. */
async function pieceFrom(first: ServerEvent, events: AsyncIterator<ServerEvent>, signal: AbortSignal) {
  const over = setImmediate(null)
  let text = formatEvent(first)
  let lastId = first.id
  let next = nextOf(events)
  for (let count = 1; count < MOST_EVENTS && text.length < MOST_CHARACTERS && !signal.aborted; count += 1) {
    // What fails is told where the stream waits for it, after what came before.
    const result = await Promise.race([next.catch(() => null), over])
    if (result === null || result.done === true) break
    text += formatEvent(result.value)
    lastId = result.value.id ?? lastId
    next = nextOf(events)
  }
  return { text, next, lastId }
}

/** It may fail while the client is waited for, and nobody waits for it. */
function nextOf(events: AsyncIterator<ServerEvent>): Promise<Next> {
  const next = events.next()
  next.catch(() => undefined)
  return next
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
