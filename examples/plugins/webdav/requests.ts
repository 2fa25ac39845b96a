/** One request to the server, and what its answer means. */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '@sluice/sdk'

export interface Login {
  readonly username: string
  readonly password: string
  readonly deadline_ms: number
  readonly attempt_ms: number
}

export interface Asked {
  readonly method: string
  readonly url: URL
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | AsyncIterable<Uint8Array> | string
  readonly signal?: AbortSignal | undefined
}

const MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
const FIRST_PAUSE_MS = 50
const LAST_PAUSE_MS = 2_000

/** The answer once its head is there, of any status. Given up when nothing comes or goes for `attempt_ms`. */
export async function send(login: Login, { method, url, headers = {}, body, signal }: Asked): Promise<IncomingMessage> {
  signal?.throwIfAborted()
  const open = url.protocol === 'https:' ? httpsRequest : httpRequest
  const auth = `${login.username}:${login.password}`
  const length = typeof body === 'string' || body instanceof Uint8Array ? Buffer.byteLength(body) : null
  const sent = open(url, {
    ...{ method, auth, timeout: login.attempt_ms, agent: false },
    ...(signal === undefined ? {} : { signal }),
    headers: { ...headers, ...(length === null ? {} : { 'content-length': length }) },
  })
  sent.on('timeout', () => sent.destroy(new Error('nothing came')))
  const answer = new Promise<IncomingMessage>((resolve, reject) => sent.on('response', resolve).on('error', reject))
  const bytes = body === undefined ? [] : typeof body === 'string' ? [Buffer.from(body)] : chunks(body)
  // What ends first counts: a server may refuse before it has taken all.
  return Promise.race([answer, pipeline(Readable.from(bytes), sent).then(() => answer)])
}

function chunks(body: Uint8Array | AsyncIterable<Uint8Array>): Iterable<Uint8Array> | AsyncIterable<Uint8Array> {
  return body instanceof Uint8Array ? [body] : body
}

/** A whole document, which is small. */
export async function textOf(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of answer as AsyncIterable<Buffer>) {
    size += part.length
    if (size > MAX_DOCUMENT_BYTES) throw new Error('a document of the server is larger than it may be')
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

/** Tries again what may pass, until `deadline_ms` are over; `advanced` lets them begin anew. */
export async function insist<Result>(
  login: Login,
  signal: AbortSignal | undefined,
  work: (advanced: () => void) => Promise<Result>,
): Promise<Result> {
  let startedMs = performance.now()
  for (let attempt = 0; ; attempt += 1) {
    signal?.throwIfAborted()
    try {
      return await work(() => {
        startedMs = performance.now()
      })
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof SluiceError && error.kind !== 'TRANSIENT') throw error
      if (performance.now() - startedMs > login.deadline_ms) throw error instanceof SluiceError ? error : away(error)
    }
    const pauseMs = Math.min(LAST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10)) * (0.5 + Math.random() / 2)
    // An abort ends the pause; the next turn throws its reason.
    await sleep(pauseMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
  }
}

/** What an answer of that status means where it is not one of those expected. */
export function refusalOf(status: number, path: string): SluiceError {
  const cause = new Error(`status ${status} for ${JSON.stringify(path)}`)
  if (status === 401 || status === 403) {
    return new SluiceError('CONFIG', 'the WebDAV server refuses the login', {
      code: 'object_store_refused',
      remedy: 'Check object_store.username and password, and what that login may do.',
      cause,
    })
  }
  if (status === 405 || status === 501) {
    return new SluiceError('UNSUPPORTED', 'the WebDAV server does not offer a request that is needed', {
      code: 'object_store_unsupported',
      remedy: 'Use a server of WebDAV class 2, and give the address of its folder.',
      cause,
    })
  }
  return away(cause)
}

export function away(cause: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the WebDAV server does not answer as it should', {
    code: 'object_store_unavailable',
    remedy: 'Check that the server is up and reachable at object_store.url; the work is tried again.',
    cause,
  })
}
