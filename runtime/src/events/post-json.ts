/** One request to an address that somebody has named: resolved once, judged by the rules for addresses, and gone to as it is. */
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP } from 'node:net'
import { isSluiceError, type NetworkPolicy, SluiceError } from '@sluice/sdk'

const TIMEOUT_MS = 5_000
/** Of the answer, of which the status alone counts. */
const MAX_ANSWER_BYTES = 64 * 1024
/** Of all that comes: interim answers (1xx) and empty lines may go before the one that counts, without an end. */
const MAX_SAID_BYTES = 2 * MAX_ANSWER_BYTES

export interface Post {
  readonly url: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

export interface Answer {
  readonly status: number
  /** Of the header Retry-After, as it came. */
  readonly retryAfter: string | null
}

interface Place {
  readonly url: URL
  readonly host: string
  readonly port: number
  readonly address: string
}

/** Throws PERMISSION `address_refused`, INVALID_DATA `invalid_notification_target`, TRANSIENT `host_not_found`. */
export async function placeOf(text: string, network: NetworkPolicy, signal: AbortSignal): Promise<Place> {
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '') {
    throw refused('the address is no https:// address', 'Write it whole, without a user or a password.')
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  const { address } = await network.resolve(host, port, signal)
  if (url.protocol === 'http:' && !network.allowsCleartextPassword(address)) {
    throw refused('the address is not encrypted', 'Use https://.')
  }
  return { url, host, port, address }
}

function refused(message: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'invalid_notification_target', remedy })
}

/** Redirects are answers like others that are no success. Throws TRANSIENT `notification_refused` or `notification_failed`. */
export async function postJson(post: Post, network: NetworkPolicy, signal: AbortSignal): Promise<void> {
  const { status } = await answerTo(post, network, signal).catch((cause: unknown) => {
    if (isSluiceError(cause) || signal.aborted) throw cause
    throw failed('notification_failed', 'the target of notifications does not answer', cause)
  })
  if (status < 200 || status > 299)
    throw failed('notification_refused', `the target of notifications answers ${status}`)
}

/**
 * The answer's status, whatever it is, and when to come again. Throws as `placeOf`, with the signal's reason, and what Node says
 * where no whole answer came in time: by default five seconds.
 */
export async function answerTo(
  { url, body, headers }: Post,
  network: NetworkPolicy,
  signal: AbortSignal,
  timeoutMs: number = TIMEOUT_MS,
): Promise<Answer> {
  // Also whose name it is may keep silent.
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  try {
    return await answerFrom(await placeOf(url, network, inTime), body, headers, inTime)
  } catch (cause) {
    signal.throwIfAborted()
    throw cause
  }
}

function failed(code: string, message: string, cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', message, {
    code,
    remedy: 'Look at who listens there; it is tried again for a day.',
    cause,
  })
}

function answerFrom(
  { url, host, port, address }: Place,
  body: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Answer> {
  const isTls = url.protocol === 'https:'
  const name = isTls && isIP(host) === 0 ? { servername: host } : {}
  return new Promise((resolve, reject) => {
    const asked = (isTls ? requestHttps : requestHttp)({
      ...name,
      host: address,
      port,
      method: 'POST',
      path: `${url.pathname}${url.search}`,
      headers: {
        ...headers,
        host: url.host,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      },
      agent: false,
      signal,
    })
    asked.on('error', reject)
    // Of one that nobody listens for Node says nothing more, and neither does the end of the time.
    asked.on('upgrade', (_, socket) => {
      socket.destroy()
      reject(new Error('the answer asks for another protocol'))
    })
    let said = 0
    asked.on('socket', (socket) => {
      socket.on('data', (chunk: Buffer) => {
        said += chunk.length
        if (said > MAX_SAID_BYTES) asked.destroy(new Error('what is said is too long'))
      })
    })
    asked.on('response', (response) => {
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > MAX_ANSWER_BYTES) asked.destroy(new Error('the answer is too long'))
      })
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] ?? null })
      })
      response.on('error', reject)
    })
    asked.end(body)
  })
}
