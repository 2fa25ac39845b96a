/** Writes answers. Heads are written in one go, as one flat list, which is what Node sends fastest. */
import type { Writable } from 'node:stream'
import { hasBody, isAwaitingContinue } from './body.ts'
import { rangeOf } from './byte-range.ts'
import { compressed, endOf, gzipInto, isCompressible, LEAST_BYTES } from './compression.ts'
import { matchedEtag } from './etag.ts'
import type { Exchange } from './exchange.ts'
import type { Problem } from './problem-document.ts'
import type { Reply, ReplyFile, ReplyStream } from './route.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM_TYPE = 'application/problem+json; charset=utf-8'
const POLICY = "default-src 'none'; frame-ancestors 'none'"
const COALESCE_BYTES = 64 * 1024
/** Of a whole answer that is longer than that; each is written by itself. */
const PIECE_BYTES = COALESCE_BYTES + 1
/** What a client may still send after it was refused, so that it gets to read the answer. */
const LINGER_BYTES = 1024 * 1024
const LINGER_MS = 1_000
const NO_CONTENT = new Set([204, 304])

export function sendReply(exchange: Exchange, reply: Reply): Promise<void> | void {
  const { etag } = reply
  const isRead = exchange.request.method === 'GET' || exchange.request.method === 'HEAD'
  const known = etag !== undefined && isRead ? matchedEtag(exchange.request.headers['if-none-match'], etag) : null
  if (known !== null) return sendWhole(exchange, 304, headOf(exchange, reply, null, { etag: known }), '')
  if ('stream' in reply) return sendStream(exchange, reply, reply.stream)
  if ('file' in reply) return sendFile(exchange, reply, reply.file)
  if ('empty' in reply) return sendWhole(exchange, reply.status ?? 204, headOf(exchange, reply, null), '')
  if ('bytes' in reply) return sendBody(exchange, reply, reply.contentType, reply.bytes)
  const body = 'json' in reply ? reply.json : JSON.stringify(reply.body)
  return sendBody(exchange, reply, JSON_TYPE, body)
}

function sendBody(
  exchange: Exchange,
  reply: Reply,
  contentType: string,
  body: string | Uint8Array,
): Promise<void> | void {
  const status = reply.status ?? 200
  if (!isToBeCompressed(exchange, contentType, body.length)) {
    return sendAsTaken(exchange, status, headOf(exchange, reply, contentType), body)
  }
  const head = headOf(exchange, reply, contentType, GZIPPED)
  exchange.answerBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
  return compressed(body).then((bytes) => sendAsTaken(exchange, status, head, bytes))
}

function isToBeCompressed(exchange: Exchange, contentType: string, bytes: number): boolean {
  return exchange.mayCompress && bytes >= LEAST_BYTES && isCompressible(contentType) && exchange.likesGzip()
}

export function sendProblem(exchange: Exchange, problem: Problem): void {
  const head = headOf(exchange, problem, PROBLEM_TYPE)
  sendWhole(exchange, problem.status, head, problem.body)
}

interface Form {
  /** As it stands in the header; default: the reply's, strong or, where the body is compressed, weak. */
  readonly etag?: string
  readonly isCompressed?: boolean
}

const GZIPPED: Form = { isCompressed: true }
const VARY = 'Authorization, X-Tenant-Id, Accept'

function headOf(
  exchange: Exchange,
  reply: { readonly headers?: Readonly<Record<string, string>>; readonly etag?: string },
  contentType: string | null,
  { etag, isCompressed = false }: Form = {},
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
  if (reply.etag !== undefined) head.push('ETag', etag ?? `${isCompressed ? 'W/' : ''}"${reply.etag}"`)
  if (isCompressed) head.push('Content-Encoding', 'gzip')
  const varies = variesBy(exchange, reply.etag !== undefined)
  if (varies !== '') head.push('Vary', varies)
  if (exchange.cors !== null) head.push(...exchange.cors.headersFor(exchange))
  if (reply.headers !== undefined) override(head, reply.headers)
  return head
}

function variesBy({ mayCompress, cors }: Exchange, isMarked: boolean): string {
  const names = mayCompress ? `${VARY}, Accept-Encoding` : isMarked ? VARY : ''
  if (cors === null) return names
  return names === '' ? 'Origin' : `${names}, Origin`
}

/** A handler's header takes the place of a default of the same name. */
function override(head: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) {
    const at = placeOf(name, head)
    if (at < 0) head.push(name, headers[name] as string)
    else head[at + 1] = headers[name] as string
  }
}

/** Where the header stands; below 0 where it does not. */
function placeOf(name: string, head: readonly string[]): number {
  return head.findIndex(
    (known, at) => at % 2 === 0 && known.length === name.length && known.toLowerCase() === name.toLowerCase(),
  )
}

function sendWhole(exchange: Exchange, status: number, head: string[], body: string | Uint8Array): void {
  if (beginWhole(exchange, status, head, body)) exchange.response.end(body)
}

/** False where nothing is left to be sent. */
function beginWhole(exchange: Exchange, status: number, head: string[], body: string | Uint8Array): boolean {
  const { request, response } = exchange
  if (response.headersSent || response.destroyed) return false
  if (!NO_CONTENT.has(status)) {
    const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
    // What it has cost to make, which compressing makes no less.
    exchange.answerBytes ||= bytes
    head.push('Content-Length', String(bytes))
  }
  if (hasBody(request) && !request.complete) {
    sendAndLinger(exchange, status, head, body)
    return false
  }
  response.writeHead(status, head)
  if (request.method !== 'HEAD' && !NO_CONTENT.has(status)) return true
  response.end()
  return false
}

/** What is long goes as its client takes it: written in one go it would lie in memory for as long as the client likes. */
function sendAsTaken(
  exchange: Exchange,
  status: number,
  head: string[],
  body: string | Uint8Array,
): Promise<void> | void {
  if (!beginWhole(exchange, status, head, body)) return
  if (body.length <= COALESCE_BYTES) exchange.response.end(body)
  else return sendInPieces(exchange, typeof body === 'string' ? Buffer.from(body) : body)
}

async function sendInPieces(exchange: Exchange, bytes: Uint8Array): Promise<void> {
  exchange.onMade(bytes.byteLength)
  const { response } = exchange
  // Not by the signal: an answer that came late is still one, and whoever takes nothing of it is cut off by the deadline.
  for (let at = 0; at < bytes.byteLength && !response.destroyed; at += PIECE_BYTES) {
    exchange.awaitTaken(true)
    if (!response.write(bytes.subarray(at, at + PIECE_BYTES))) await drained(response)
  }
  response.end()
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

/** As its bytes are, also for who likes gzip: a part is one of these bytes, and their number is told before they come. */
function sendFile(exchange: Exchange, reply: Reply & { readonly etag: string }, file: ReplyFile): Promise<void> {
  const { request } = exchange
  const range = request.method === 'HEAD' ? null : rangeOf(request.headers, reply.etag, file.bytes)
  const length = range === null ? file.bytes : range.to - range.from + 1
  const part = range === null ? {} : { 'Content-Range': `bytes ${range.from}-${range.to}/${file.bytes}` }
  const headers = { ...reply.headers, 'Accept-Ranges': 'bytes', 'Content-Length': String(length), ...part }
  const head = { ...reply, status: range === null ? 200 : 206, headers }
  return sendStream(exchange, head, { contentType: file.contentType, chunks: file.chunks(range) }, { asItIs: true })
}

async function sendStream(
  exchange: Exchange,
  reply: Reply,
  source: ReplyStream | (() => ReplyStream),
  { asItIs = false }: { readonly asItIs?: boolean } = {},
): Promise<void> {
  const { request, response } = exchange
  const isHead = request.method === 'HEAD'
  const stream = typeof source === 'function' ? source() : source
  const chunks = stream.chunks[Symbol.asyncIterator]()
  const beginning = isHead || stream.live ? NOTHING_YET : await beginningOf(exchange, chunks)
  if (response.headersSent || response.destroyed || isHead) await chunks.return?.()
  if (response.headersSent || response.destroyed) return
  exchange.isLive = stream.live === true
  exchange.deadlineMs = exchange.isLive ? liveUntilMs(exchange) : performance.now() + exchange.writeIdleMs
  const bytes = beginning.isAll ? lengthOf(beginning.chunks) : Number.POSITIVE_INFINITY
  const isCompressed = !asItIs && stream.live !== true && isToBeCompressed(exchange, stream.contentType, bytes)
  response.writeHead(reply.status ?? 200, headOf(exchange, reply, stream.contentType, { isCompressed }))
  if (stream.live) response.flushHeaders()
  const encoder = isCompressed && !isHead ? gzipInto(response) : null
  if (!isHead) await pump(exchange, encoder ?? response, beginning, chunks)
  if (exchange.signal.aborted && !exchange.isLive) return exchange.cutOff()
  if (encoder === null) response.end()
  else await endOf(encoder)
}

const lengthOf = (chunks: Beginning['chunks']): number => chunks.reduce((sum, { length }) => sum + length, 0)

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

const LONGEST_LIVE_MS = 60 * 60_000

function liveUntilMs(exchange: Exchange): number {
  const expiresAtMs = exchange.principal?.tokenExpiresAtMs ?? Number.POSITIVE_INFINITY
  const nowMs = performance.now()
  exchange.tokenEndsAtMs = nowMs + expiresAtMs - Date.now()
  return Math.min(exchange.tokenEndsAtMs, nowMs + LONGEST_LIVE_MS)
}

async function pump(
  exchange: Exchange,
  sink: Writable,
  beginning: Beginning,
  chunks: AsyncIterator<string | Uint8Array>,
): Promise<void> {
  const { signal } = exchange
  const untilMs = exchange.deadlineMs
  const writer = new CoalescingWriter(sink, exchange.isLive ? 0 : COALESCE_BYTES)
  let isRead = beginning.isAll
  try {
    for (const chunk of beginning.chunks) await writer.write(chunk)
    while (!signal.aborted && !beginning.isAll) {
      if (!exchange.isLive) exchange.deadlineMs = performance.now() + exchange.timeoutMs
      const next = await chunks.next()
      if (next.done) {
        isRead = true
        break
      }
      // Others are waited for by what makes their rows.
      exchange.awaitTaken(exchange.isLive)
      await writer.write(next.value)
      // Of a live one the end alone is set: whoever reads on may wait for what comes.
      if (exchange.isLive) exchange.endBy(untilMs)
    }
    if (!signal.aborted) await writer.flush()
  } finally {
    // Also where it could not be written: whoever makes the chunks holds something for as long as they are wanted.
    if (!isRead) await chunks.return?.()
  }
}

/** Small rows are joined: a write of its own for each would cost more than making it. */
class CoalescingWriter {
  readonly #sink: Writable
  readonly #limitBytes: number
  #pending: Uint8Array[] = []
  #text = ''
  #bytes = 0

  constructor(sink: Writable, limitBytes: number) {
    this.#sink = sink
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
    if (bytes === undefined || bytes.length === 0 || this.#sink.destroyed) return
    if (this.#sink.write(bytes)) return
    await drained(this.#sink)
  }

  #settleText(): void {
    if (this.#text !== '') this.#pending.push(Buffer.from(this.#text))
    this.#text = ''
  }
}

/** Settles when the client has read on, or has gone. */
function drained(sink: Writable): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      sink.off('drain', settle).off('close', settle)
      resolve()
    }
    sink.on('drain', settle).on('close', settle)
  })
}
