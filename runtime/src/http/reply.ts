/** Writes answers. Heads are written in one go, as one flat list, which is what Node sends fastest. */
import type { ServerResponse } from 'node:http'
import { hasBody, isAwaitingContinue } from './body.ts'
import { matchesEtag } from './etag.ts'
import type { Exchange } from './exchange.ts'
import type { Problem } from './problem.ts'
import type { Reply, ReplyStream } from './route.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'
const POLICY = "default-src 'none'; frame-ancestors 'none'"
/** Until a client reads on; then the connection is given up. */
const WRITE_IDLE_MS = 30_000
const COALESCE_BYTES = 64 * 1024
/** What a client may still send after it was refused, so that it gets to read the answer. */
const LINGER_BYTES = 1024 * 1024
const LINGER_MS = 1_000
const NO_CONTENT = new Set([204, 304])

export function sendReply(exchange: Exchange, reply: Reply): Promise<void> | void {
  const { etag } = reply
  const isRead = exchange.request.method === 'GET' || exchange.request.method === 'HEAD'
  if (etag !== undefined && isRead && matchesEtag(exchange.request.headers['if-none-match'], etag)) {
    return sendWhole(exchange, 304, headOf(exchange, reply, null), '')
  }
  if ('stream' in reply) return sendStream(exchange, reply, reply.stream)
  if ('empty' in reply) return sendWhole(exchange, reply.status ?? 204, headOf(exchange, reply, null), '')
  if ('bytes' in reply) {
    return sendWhole(exchange, reply.status ?? 200, headOf(exchange, reply, reply.contentType), reply.bytes)
  }
  const body = 'json' in reply ? reply.json : JSON.stringify(reply.body)
  return sendWhole(exchange, reply.status ?? 200, headOf(exchange, reply, JSON_TYPE), body)
}

export function sendProblem(exchange: Exchange, problem: Problem): void {
  const head = headOf(exchange, problem, PROBLEM_TYPE)
  sendWhole(exchange, problem.status, head, problem.body)
}

function headOf(
  exchange: Exchange,
  reply: { readonly headers?: Readonly<Record<string, string>>; readonly etag?: string },
  contentType: string | null,
): string[] {
  const head = [
    'X-Request-Id',
    exchange.requestId,
    'X-Content-Type-Options',
    'nosniff',
    'Content-Security-Policy',
    POLICY,
    'Cache-Control',
    reply.etag === undefined ? 'private, no-store' : 'private, no-cache',
  ]
  if (contentType !== null) head.push('Content-Type', contentType)
  if (exchange.rateHeaders !== null) head.push(...exchange.rateHeaders)
  if (reply.etag !== undefined) head.push('ETag', `"${reply.etag}"`, 'Vary', 'Authorization, X-Tenant-Id, Accept')
  if (reply.headers !== undefined) override(head, reply.headers)
  return head
}

/** A handler's header takes the place of a default of the same name. */
function override(head: string[], headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    const at = head.findIndex((known, index) => index % 2 === 0 && known.toLowerCase() === name.toLowerCase())
    if (at < 0) head.push(name, value)
    else head[at + 1] = value
  }
}

function sendWhole(exchange: Exchange, status: number, head: string[], body: string | Uint8Array): void {
  const { request, response } = exchange
  if (response.headersSent || response.destroyed) return
  if (!NO_CONTENT.has(status)) {
    exchange.answerBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
    head.push('Content-Length', String(exchange.answerBytes))
  }
  if (hasBody(request) && !request.complete) {
    sendAndLinger(exchange, status, head, body)
    return
  }
  response.writeHead(status, head)
  if (request.method === 'HEAD' || NO_CONTENT.has(status)) response.end()
  else response.end(body)
}

/**
 * The client is still sending a body that nobody wants. Closing at once would reset the connection before it has read
 * the answer; reading everything would let it send for ever.
 */
function sendAndLinger(exchange: Exchange, status: number, head: string[], body: string | Uint8Array): void {
  const { request, response } = exchange
  response.writeHead(status, [...head, 'Connection', 'close'])
  if (request.method !== 'HEAD' && !NO_CONTENT.has(status)) response.write(body)
  let bytes = 0
  const finish = (): void => {
    clearTimeout(timer)
    request.off('data', count).off('end', finish).off('close', finish)
    response.end(() => request.destroy())
  }
  const count = (chunk: Uint8Array): void => {
    bytes += chunk.byteLength
    if (bytes > LINGER_BYTES) finish()
  }
  const timer = setTimeout(finish, isAwaitingContinue(request) ? 0 : LINGER_MS)
  request.on('data', count).once('end', finish).once('close', finish).resume()
}

async function sendStream(exchange: Exchange, reply: Reply, source: ReplyStream | (() => ReplyStream)): Promise<void> {
  const { request, response } = exchange
  const isHead = request.method === 'HEAD'
  const stream = typeof source === 'function' ? source() : source
  const chunks = stream.chunks[Symbol.asyncIterator]()
  const beginning = isHead || stream.live ? NOTHING_YET : await beginningOf(exchange, chunks)
  if (response.headersSent || response.destroyed || isHead) await chunks.return?.()
  if (response.headersSent || response.destroyed) return
  exchange.isLive = stream.live === true
  exchange.deadlineMs = exchange.isLive ? liveUntilMs(exchange) : Date.now() + WRITE_IDLE_MS
  response.writeHead(reply.status ?? 200, headOf(exchange, reply, stream.contentType))
  if (stream.live) response.flushHeaders()
  if (!isHead) await pump(exchange, beginning, chunks)
  if (exchange.signal.aborted && !exchange.isLive) exchange.cutOff()
  else response.end()
}

interface Beginning {
  readonly chunks: readonly (string | Uint8Array)[]
  readonly isAll: boolean
}

const NOTHING_YET: Beginning = { chunks: [], isAll: false }

/**
 * As much as is written in one go comes before the head: what fails until then, and a short answer as a whole, is
 * still answered as a problem.
 */
async function beginningOf(exchange: Exchange, source: AsyncIterator<string | Uint8Array>): Promise<Beginning> {
  const chunks: (string | Uint8Array)[] = []
  let bytes = 0
  while (bytes <= COALESCE_BYTES && !exchange.response.destroyed && !exchange.response.headersSent) {
    const next = await source.next()
    if (next.done) return { chunks, isAll: true }
    chunks.push(next.value)
    bytes += next.value.length
  }
  return { chunks, isAll: false }
}

/** Nobody goes on reading under a token that has ended. */
function liveUntilMs(exchange: Exchange): number {
  return Math.min(exchange.principal?.tokenExpiresAtMs ?? Number.POSITIVE_INFINITY, Date.now() + 60 * 60_000)
}

async function pump(
  exchange: Exchange,
  beginning: Beginning,
  chunks: AsyncIterator<string | Uint8Array>,
): Promise<void> {
  const { response, signal } = exchange
  const writer = new CoalescingWriter(response, exchange.isLive ? 0 : COALESCE_BYTES)
  try {
    for (const chunk of beginning.chunks) await writer.write(chunk)
    while (!signal.aborted && !beginning.isAll) {
      if (!exchange.isLive) exchange.deadlineMs = Date.now() + exchange.timeoutMs
      const next = await chunks.next()
      if (next.done) break
      if (!exchange.isLive) exchange.deadlineMs = Date.now() + WRITE_IDLE_MS
      await writer.write(next.value)
    }
    if (!signal.aborted) await writer.flush()
  } finally {
    if (signal.aborted) await chunks.return?.()
  }
}

/** Small rows are joined: a write of its own for each would cost more than making it. */
class CoalescingWriter {
  readonly #response: ServerResponse
  readonly #limitBytes: number
  #pending: Uint8Array[] = []
  #text = ''
  #bytes = 0

  constructor(response: ServerResponse, limitBytes: number) {
    this.#response = response
    this.#limitBytes = limitBytes
  }

  async write(chunk: string | Uint8Array): Promise<void> {
    if (typeof chunk === 'string') this.#text += chunk
    else {
      this.#settleText()
      this.#pending.push(chunk)
    }
    this.#bytes += chunk.length
    if (this.#bytes > this.#limitBytes) await this.flush()
  }

  async flush(): Promise<void> {
    this.#settleText()
    const bytes = this.#pending.length === 1 ? this.#pending[0] : Buffer.concat(this.#pending)
    this.#pending = []
    this.#bytes = 0
    if (bytes === undefined || bytes.length === 0 || this.#response.destroyed) return
    if (this.#response.write(bytes)) return
    await drained(this.#response)
  }

  #settleText(): void {
    if (this.#text !== '') this.#pending.push(Buffer.from(this.#text))
    this.#text = ''
  }
}

/** Settles when the client has read on, or has gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      response.off('drain', settle).off('close', settle)
      resolve()
    }
    response.on('drain', settle).on('close', settle)
  })
}
