import type { SluiceConnection } from './connection.ts'
import { type Json, SluiceError } from './values.ts'

export type Change<Row, Key> =
  | { readonly kind: 'upsert'; readonly id: string; readonly row: Row }
  | { readonly kind: 'delete'; readonly id: string; readonly key: Key }
  /** What came since the last one is whole. */
  | { readonly kind: 'epoch'; readonly id: string; readonly epoch: number; readonly version: string | null }
  /** All rows are to be forgotten: they follow anew. */
  | { readonly kind: 'reset'; readonly id: string; readonly reason: string }

export interface FollowOptions {
  readonly signal?: AbortSignal | undefined
  /** now (default): what comes; start: all rows there are first; or the id of the last event that was applied. */
  readonly from?: string | undefined
  /** How long it tries to come back before it throws why it cannot. Default 5 minutes. */
  readonly patienceMs?: number | undefined
}

const EVENTS = 'text/event-stream'
/** The server is never silent for longer than 15 s. */
const SILENCE_MS = 60_000
const RETRY_MS = 3_000
const TOO_MANY = 429
const SERVER_FAULT = 500

/** A product's changed rows as they come. */
export class Changes<Row, Key> {
  readonly #connection: SluiceConnection
  readonly #path: string

  constructor(connection: SluiceConnection, product: string) {
    this.#connection = connection
    this.#path = `${connection.pathOf(product)}/changes`
  }

  /**
   * Has no end but the signal's, or an error. It comes back by itself where the connection breaks, to the event after the
   * last one, so that none is lost and none comes twice. Throws SluiceError where the server says why the stream ends.
   */
  async *follow({
    signal,
    from,
    patienceMs = 300_000,
  }: FollowOptions = {}): AsyncGenerator<Change<Row, Key>, void, undefined> {
    let lastId: string | null = null
    let retryMs = RETRY_MS
    let lostAtMs: number | null = null
    let renewedAtMs = Number.NEGATIVE_INFINITY
    let wholeEpoch: number | null = null
    for (;;) {
      let waitMs = retryMs
      try {
        for await (const { id, event, data, retry } of this.#events(lastId, from, signal)) {
          lostAtMs = null
          retryMs = retry ?? retryMs
          if (event === null) continue
          lastId = id ?? lastId
          if (event === 'problem') throw new SluiceError(SERVER_FAULT, data, null)
          const change = changeOf<Row, Key>(event, lastId ?? '', data)
          if (change === null) continue
          // Whoever comes back is told first where he is.
          if (change.kind === 'epoch' && change.epoch === wholeEpoch) continue
          wholeEpoch = change.kind === 'epoch' ? change.epoch : null
          yield change
        }
      } catch (error) {
        if (!(error instanceof SluiceError)) throw error
        const isOver = error.code === 'right_ended' && this.#connection.hasFreshTokens
        // A new token that is over as soon as it is used says that more has ended than the old one.
        if (isOver && performance.now() - renewedAtMs > SILENCE_MS) renewedAtMs = performance.now()
        else if (!passes(error)) throw error
        lostAtMs ??= performance.now()
        if (performance.now() - lostAtMs > patienceMs) throw error
        waitMs = error.retryAfterMs ?? retryMs
      }
      await pause(waitMs, signal)
    }
  }

  async *#events(lastId: string | null, from: string | undefined, signal: AbortSignal | undefined) {
    const search = from === undefined ? '' : `?${new URLSearchParams({ from })}`
    const resumed: Record<string, string> = lastId === null ? {} : { 'last-event-id': lastId }
    const headers = { accept: EVENTS, ...resumed }
    const options = { signal, timeoutMs: SILENCE_MS }
    const sent = await this.#connection.open('GET', `${this.#path}${search}`, headers, null, options)
    let rest = ''
    for await (const text of this.#connection.texts(sent)) {
      rest += text
      const blocks = rest.split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) yield eventOf(block)
    }
  }
}

interface ServerEvent {
  readonly id: string | null
  readonly event: string | null
  readonly data: Readonly<Record<string, Json>>
  readonly retry: number | null
}

function eventOf(block: string): ServerEvent {
  const fields: Record<string, string> = {}
  for (const line of block.split('\n')) {
    const [name = '', value = ''] = splitOnce(line, ':')
    fields[name] = fields[name] === undefined ? value.replace(/^ /, '') : `${fields[name]}\n${value.replace(/^ /, '')}`
  }
  const data = fields['data'] === undefined ? {} : (JSON.parse(fields['data']) as ServerEvent['data'])
  const retry = Number(fields['retry'] ?? Number.NaN)
  return {
    id: fields['id'] ?? null,
    event: fields['data'] === undefined ? null : (fields['event'] ?? 'message'),
    data,
    retry: Number.isFinite(retry) ? retry : null,
  }
}

function splitOnce(text: string, separator: string): readonly string[] {
  const at = text.indexOf(separator)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + separator.length)]
}

/** Null of what later servers may tell besides. */
function changeOf<Row, Key>(event: string, id: string, data: Readonly<Record<string, Json>>): Change<Row, Key> | null {
  switch (event) {
    case 'upsert':
      return { kind: event, id, row: data as unknown as Row }
    case 'delete':
      return { kind: event, id, key: data as unknown as Key }
    case 'epoch':
      return { kind: event, id, epoch: Number(data['epoch']), version: (data['version'] ?? null) as string | null }
    case 'reset':
      return { kind: event, id, reason: String(data['reason']) }
    default:
      return null
  }
}

/** Whether waiting may help: a network that broke, a server that starts anew, too many requests. */
function passes({ status, problem, code }: SluiceError): boolean {
  if (status === 0 || status === TOO_MANY || code === 'mask_pending') return true
  // What ends a stream is told in it, and has no status of its own.
  return status >= SERVER_FAULT && problem['status'] !== undefined
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort)
  })
}
