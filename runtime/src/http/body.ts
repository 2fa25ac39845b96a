/** Reads bodies: bounded, in memory, and only after the request is known to be allowed. */
import type { IncomingMessage } from 'node:http'
import type { Context, Middleware } from 'koa'
import { koaBody } from 'koa-body'
import { hintOf } from './input.ts'
import { decodeText, parseJsonBody } from './json-body.ts'
import { refuse, validationFailed } from './problem.ts'
import type { FormBody, MultipartSpec } from './route.ts'

/** Headers and boundaries of the parts of a form. */
const FORM_OVERHEAD_BYTES = 16 * 1024
const NOTHING = async () => {}

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

export function jsonReader(maxBytes: number, parse?: (text: string) => unknown): (ctx: Context) => Promise<unknown> {
  const bytes = bodyBytes(maxBytes)
  return async (ctx) => {
    requireType(ctx.req, /^application\/(?:json|[\w.-]+\+json)$/, 'application/json')
    return parseJsonBody(await bytes(ctx), parse)
  }
}

/** Takes a body of any type, bounded, and leaves it unread. */
export function ignoringReader(maxBytes: number): (ctx: Context) => Promise<unknown> {
  const bytes = bodyBytes(maxBytes)
  return async (ctx) => {
    await bytes(ctx)
    return {}
  }
}

/** The texts of a form's parts. The parts are counted before the form is taken apart. */
export function formReader(spec: MultipartSpec): (ctx: Context) => Promise<FormBody> {
  const bytes = bodyBytes(spec.parts.length * spec.maxPartBytes + FORM_OVERHEAD_BYTES)
  return async (ctx) => {
    const type = requireType(ctx.req, /^multipart\/form-data$/, 'multipart/form-data')
    const form = await parseForm(await bytes(ctx), type, spec.parts.length)
    return checkParts(form, spec)
  }
}

async function parseForm(bytes: Buffer, contentType: string, maxParts: number): Promise<FormData> {
  const boundary = /boundary=(?:"([^"]{1,70})"|([^;\s]{1,70}))/i.exec(contentType)
  const delimiter = boundary?.[1] ?? boundary?.[2]
  if (delimiter === undefined) throw malformedForm('its Content-Type has no boundary')
  if (countOf(bytes, `--${delimiter}`) > maxParts + 1) throw malformedForm(`it has more than ${maxParts} parts`)
  decodeText(bytes)
  try {
    return await new Response(new Uint8Array(bytes), { headers: { 'content-type': contentType } }).formData()
  } catch {
    throw malformedForm('it is not multipart/form-data')
  }
}

async function checkParts(form: FormData, spec: MultipartSpec): Promise<FormBody> {
  const texts: Record<string, string> = {}
  for (const [name, value] of form) {
    if (!spec.parts.includes(name)) {
      const pointer = `/${name.slice(0, 64)}`
      throw validationFailed([{ in: 'body', pointer, message: 'is not known', ...hintOf(name, spec.parts) }])
    }
    if (Object.hasOwn(texts, name)) throw malformedForm('a part stands in it twice')
    const text = typeof value === 'string' ? value : await value.text()
    if (Buffer.byteLength(text) > spec.maxPartBytes) {
      throw refuse('body_too_large', `the part ${name} is larger than ${spec.maxPartBytes} bytes`)
    }
    texts[name] = text
  }
  const missing = spec.required.filter((name) => !Object.hasOwn(texts, name))
  if (missing.length === 0) return texts
  throw validationFailed(missing.map((name) => ({ in: 'body', pointer: `/${name}`, message: 'is required' })))
}

function countOf(bytes: Buffer, text: string): number {
  let count = 0
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + text.length)) count++
  return count
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

function malformedForm(reason: string): Error {
  return refuse('malformed_body', `the form is refused: ${reason}`)
}
