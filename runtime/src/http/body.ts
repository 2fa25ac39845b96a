/** Reads bodies: bounded, in memory, and only after the request is known to be allowed. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { Context, Middleware } from 'koa'
import { koaBody } from 'koa-body'
import type { TSchema } from 'typebox'
import type { BodyBytes, BodyStream } from '../flow.ts'
import { parseKeepingNumbers } from '../parsing/kept-numbers.ts'
import type { ParseThreads } from '../parsing/parse-threads.ts'
import { parseForm } from './form-body.ts'
import { parseJsonBody } from './json-body.ts'
import type { FormTask, JsonTask } from './parse-tasks.ts'
import { refuse } from './problem.ts'
import type { MultipartSpec } from './route.ts'

/** Headers and boundaries of the parts of a form. */
const FORM_OVERHEAD_BYTES = 16 * 1024
const NOTHING = async () => {}
/** Longer bodies are read in a thread: what is hostile in so few bytes costs less than the way there. */
const MOST_BYTES_HERE = 8 * 1024

/** Where bodies are taken apart, and for whom. */
export interface BodyReading {
  /** Null: on the event loop, whatever they cost. */
  readonly threads: ParseThreads | null
  /** Who shares a limit with the sender. */
  readonly key: string
  readonly signal: AbortSignal
}

/** Takes the body of one request apart. */
export type BodyParser = (ctx: Context, reading: BodyReading) => Promise<unknown>

/** Requests whose client waits for `100 Continue` before it sends the body. */
const awaitingContinue = new WeakSet<IncomingMessage>()

export function markAwaitingContinue(request: IncomingMessage): void {
  awaitingContinue.add(request)
}

/** The client has not begun to send its body, and will not before it is asked. */
export function isAwaitingContinue(request: IncomingMessage): boolean {
  return awaitingContinue.has(request)
}

export function hasBody(request: IncomingMessage): boolean {
  const length = request.headers['content-length']
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
}

/** Reads at most that many bytes; throws `body_too_large` before or while reading. */
export type BodyReader = (ctx: Context) => Promise<Buffer>

/**
 * koa-body bounds and collects the bytes. They are taken as latin1, one character a byte, because its own decoding
 * replaces what is not UTF-8 in silence; they are decoded strictly afterwards.
 */
export function bodyBytes(maxBytes: number): BodyReader {
  const collect: Middleware = koaBody({
    text: true,
    textTypes: ['*/*'],
    textLimit: maxBytes,
    encoding: 'latin1',
    json: false,
    urlencoded: false,
    multipart: false,
  })
  return async (ctx) => {
    if (Number(ctx.req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
    refuseEncoding(ctx.req)
    if (awaitingContinue.delete(ctx.req)) ctx.res.writeContinue()
    try {
      await collect(ctx, NOTHING)
    } catch (cause) {
      throw readFailure(cause, maxBytes)
    }
    const text = (ctx.request as { readonly body?: unknown }).body
    return Buffer.from(typeof text === 'string' ? text : '', 'latin1')
  }
}

export interface JsonSpec {
  /** What makes values of the text; default `parseKeepingNumbers`. */
  readonly parse?: (text: string) => unknown
  /** What a body is held against; a long one already in its thread, so that the rest costs little here. */
  readonly schema?: TSchema | undefined
  /** Default 20,000. */
  readonly mostValues?: number | undefined
}

export function jsonReader(
  maxBytes: number,
  { parse = parseKeepingNumbers, schema, mostValues }: JsonSpec = {},
): BodyParser {
  const read = bodyBytes(maxBytes)
  const schemaJson = schema === undefined ? null : JSON.stringify(schema)
  return async (ctx, { threads, key, signal }) => {
    requireType(ctx.req, /^application\/(?:json|[\w.-]+\+json)$/, 'application/json')
    const bytes = await read(ctx)
    if (threads === null || bytes.length <= MOST_BYTES_HERE) return parseJsonBody(bytes, parse, mostValues)
    const input: JsonTask = { bytes, schemaJson, isExact: parse !== parseKeepingNumbers, mostValues }
    await threads.run({ name: 'json', input, key, signal })
    return parse(bytes.toString('utf8'))
  }
}

/** Takes a body of any type, bounded, and leaves it unread. */
export function ignoringReader(maxBytes: number): BodyParser {
  const bytes = bodyBytes(maxBytes)
  return async (ctx) => {
    await bytes(ctx)
    return {}
  }
}

/** Takes a body of any type, bounded, as the bytes that it is. */
export function bytesReader(maxBytes: number): BodyParser {
  const read = bodyBytes(maxBytes)
  return async (ctx) => ({ headers: ctx.req.headers, bytes: await read(ctx) }) satisfies BodyBytes
}

/** Hands the body on unread. */
export function streamReader(): BodyParser {
  return async ({ req, res }) => {
    if (awaitingContinue.delete(req)) res.writeContinue()
    // Of a request that announces none nothing would come, not even the end.
    return { headers: req.headers, bytes: hasBody(req) ? req : Readable.from([]) } satisfies BodyStream
  }
}

/** The texts of a form's parts. The parts are counted before the form is taken apart. */
export function formReader(spec: MultipartSpec): BodyParser {
  const read = bodyBytes(spec.parts.length * spec.maxPartBytes + FORM_OVERHEAD_BYTES)
  return async (ctx, { threads, key, signal }) => {
    const contentType = requireType(ctx.req, /^multipart\/form-data$/, 'multipart/form-data')
    const bytes = await read(ctx)
    if (threads === null || bytes.length <= MOST_BYTES_HERE) return parseForm(bytes, contentType, spec)
    const input: FormTask = { bytes, contentType, spec }
    return threads.run({ name: 'form', input, key, signal })
  }
}

function requireType(request: IncomingMessage, allowed: RegExp, name: string): string {
  const header = request.headers['content-type'] ?? ''
  const type = header.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  const charset = /charset="?([^";\s]+)/i.exec(header)?.[1]?.toLowerCase() ?? 'utf-8'
  if (!allowed.test(type)) throw refuse('unsupported_media_type', `the body must be ${name}`)
  if (charset !== 'utf-8' && charset !== 'utf8') throw refuse('unsupported_media_type', 'the body must be UTF-8')
  return header
}

/** A compressed body has no size that could be bounded before it is unpacked. */
function refuseEncoding(request: IncomingMessage): void {
  const encoding = request.headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity') {
    throw refuse('unsupported_media_type', 'the body must have no Content-Encoding')
  }
}

function readFailure(cause: unknown, maxBytes: number): Error {
  const type = (cause as { readonly type?: unknown } | null)?.type
  if (type === 'entity.too.large') return tooLarge(maxBytes)
  return refuse('malformed_body', 'the body ended before its announced length', { cause })
}

function tooLarge(maxBytes: number): Error {
  return refuse('body_too_large', `the body is larger than ${maxBytes} bytes`)
}
