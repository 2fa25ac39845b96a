import { AsyncLocalStorage } from 'node:async_hooks'
import http from 'node:http'
import https from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '@sluice/sdk'
import { boundedAnswer } from './bounded-answers.ts'
import { CheckedClient } from './checked-client.ts'

export interface S3Settings {
  /** `https://s3.example.com`, with a port where it is not the scheme's own. */
  readonly endpoint: string
  readonly region: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
  /** `https://endpoint/bucket/key` instead of `https://bucket.endpoint/key`. */
  readonly pathStyle: boolean
  /** For one operation with all its attempts; where an object is fetched into a file, from the last bytes that came. */
  readonly deadlineMs: number
  /** For one attempt, counted likewise; a request that takes longer is given up and sent again. */
  readonly attemptMs: number
}

/** What an answer means for whoever asked. */
type Verdict = 'missing' | 'exists' | 'refused' | 'unsupported' | 'beyond' | 'again'

const VERDICTS: Readonly<Record<string, Verdict>> = {
  NoSuchKey: 'missing',
  NotFound: 'missing',
  NoSuchBucket: 'missing',
  PreconditionFailed: 'exists',
  AccessDenied: 'refused',
  InvalidAccessKeyId: 'refused',
  SignatureDoesNotMatch: 'refused',
  ExpiredToken: 'refused',
  InvalidToken: 'refused',
  RequestTimeTooSkewed: 'refused',
  AuthorizationHeaderMalformed: 'refused',
  PermanentRedirect: 'refused',
  IllegalLocationConstraintException: 'refused',
  NotImplemented: 'unsupported',
  InvalidRange: 'beyond',
}

const MAX_ATTEMPTS = 8
const FIRST_PAUSE_MS = 100
const LAST_PAUSE_MS = 5_000
const MAX_SOCKETS = 32

interface Refusal {
  readonly message: string
  readonly remedy: string
}

const WRONG_REGION: Refusal = {
  message: 'the bucket is in another region than the one that is configured',
  remedy: 'Set object_store.region to the region of the buckets.',
}
const TOKEN_OVER: Refusal = {
  message: 'the object store does not take the session token any more',
  remedy: 'Put a new key and session token under object_store, and start again.',
}
const REFUSED: Refusal = {
  message: 'the object store refuses the configured access key',
  remedy: 'Check object_store.access_key_id, secret_access_key and what the key may do.',
}

const UNAVAILABLE: Refusal = {
  message: 'the object store does not answer as it should',
  remedy: 'Check that the object store is up and reachable; the work is tried again.',
}
const CERTIFICATE: Refusal = {
  message: 'the certificate of the object store is not trusted',
  remedy: 'Name its authority in NODE_EXTRA_CA_CERTS, or correct object_store.endpoint; the work is tried again.',
}

/** By what the connection to the store has failed with. */
export const UNREACHED: Readonly<Record<string, Refusal>> = {
  ECONNREFUSED: {
    message: 'nothing listens at the address of the object store',
    remedy: 'Start the object store, or correct object_store.endpoint; the work is tried again.',
  },
  ENOTFOUND: {
    message: 'the host of the object store is not known',
    remedy: 'Correct object_store.endpoint, or the DNS of this machine; the work is tried again.',
  },
  DEPTH_ZERO_SELF_SIGNED_CERT: CERTIFICATE,
  SELF_SIGNED_CERT_IN_CHAIN: CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: CERTIFICATE,
  CERT_HAS_EXPIRED: CERTIFICATE,
  ERR_TLS_CERT_ALTNAME_INVALID: CERTIFICATE,
  EPROTO: {
    message: 'the object store does not speak TLS there',
    remedy: 'Begin object_store.endpoint with http:// or https:// as the store is set up; the work is tried again.',
  },
}

/** By what the store says, in words of what to do about it. */
export const REFUSALS: Readonly<Record<string, Refusal>> = {
  AccessDenied: {
    message: 'the key of the object store may not do that',
    remedy: 'Let the key list, read, write and remove in the buckets sluice-*, and make them.',
  },
  InvalidAccessKeyId: {
    message: 'the object store does not know the access key',
    remedy: 'Correct object_store.access_key_id, or the endpoint: it may be another store.',
  },
  SignatureDoesNotMatch: {
    message: 'the secret does not belong to the access key of the object store',
    remedy: 'Correct object_store.secret_access_key.',
  },
  RequestTimeTooSkewed: {
    message: 'the clocks of this machine and of the object store differ too much',
    remedy: 'Let both machines keep their time by NTP.',
  },
  AuthorizationHeaderMalformed: WRONG_REGION,
  PermanentRedirect: WRONG_REGION,
  IllegalLocationConstraintException: WRONG_REGION,
  ExpiredToken: TOKEN_OVER,
  InvalidToken: TOKEN_OVER,
}

/** The signal of the request that is being made: the client's own requests take none. */
const underway = new AsyncLocalStorage<AbortSignal>()

export function openClient(settings: S3Settings): { readonly client: CheckedClient; close(): void } {
  const url = new URL(settings.endpoint)
  const isTls = url.protocol === 'https:'
  const driver = isTls ? https : http
  const agent = new driver.Agent({ keepAlive: true, maxSockets: MAX_SOCKETS })
  const request = ((options: http.RequestOptions, answered: (response: http.IncomingMessage) => void) => {
    const signal = underway.getStore()
    return driver.request({ ...options, agent, ...(signal === undefined ? {} : { signal }) }, (answer) =>
      answered(boundedAnswer(options, answer)),
    )
  }) as typeof http.request
  const client = new CheckedClient({
    endPoint: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
    useSSL: isTls,
    region: settings.region,
    accessKey: settings.accessKeyId,
    secretKey: settings.secretAccessKey,
    ...(settings.sessionToken === undefined ? {} : { sessionToken: settings.sessionToken }),
    pathStyle: settings.pathStyle,
    retryOptions: { disableRetry: true },
    transport: { request },
  })
  return { client, close: () => agent.destroy() }
}

export interface Attempt {
  /** 0 for the first. */
  readonly number: number
  /** Aborted when the attempt is given up; what it does afterwards must not count. */
  readonly signal: AbortSignal
  /** Says that a part of the work is done for good, as bytes that are kept: the times begin anew. */
  advanced(): void
}

/**
 * Runs one request until it has an answer that counts. What may have been done twice has to be told apart by `work`.
 * Throws INTERNAL `object_missing`, CONFLICT `object_exists`, CONFIG
 * `object_store_refused`, UNSUPPORTED `object_store_unsupported`, or TRANSIENT `object_store_unavailable` when the
 * deadline is over.
 */
export async function insist<Result>(
  settings: Pick<S3Settings, 'deadlineMs' | 'attemptMs'>,
  path: string,
  work: (attempt: Attempt) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const deadline = new Stopwatch(settings.deadlineMs)
  const outer = signal === undefined ? deadline.signal : AbortSignal.any([deadline.signal, signal])
  let last: unknown
  try {
    for (let number = 0, left = MAX_ATTEMPTS; left > 0 && !outer.aborted; number += 1, left -= 1) {
      const limit = new Stopwatch(settings.attemptMs)
      const stop = AbortSignal.any([outer, limit.signal])
      const advanced = () => {
        left = MAX_ATTEMPTS
        deadline.restart()
        limit.restart()
      }
      try {
        return await underway.run(stop, () => orAborted(work({ number, signal: stop, advanced }), stop))
      } catch (error) {
        signal?.throwIfAborted()
        if (error instanceof SluiceError && error.kind !== 'TRANSIENT') throw error
        const verdict = verdictOf(error)
        if (verdict !== 'again' && verdict !== 'beyond') throw objectError(verdict, path, error)
        // The one that the deadline cuts off says nothing of why those before it failed.
        if (last === undefined || !deadline.signal.aborted) last = error
      } finally {
        limit.stop()
      }
      // An abort ends the pause and the loop, which tells what failed last.
      await sleep(pauseMs(MAX_ATTEMPTS - left), undefined, { signal: outer }).catch(() => undefined)
    }
  } finally {
    deadline.stop()
  }
  signal?.throwIfAborted()
  throw unavailable(last)
}

export function unavailable(cause: unknown): SluiceError {
  const { message, remedy } = UNREACHED[codeOf(cause)] ?? UNAVAILABLE
  return new SluiceError('TRANSIENT', message, { code: 'object_store_unavailable', remedy, cause })
}

/** Aborts its signal when the time is over since it was made or last restarted. */
class Stopwatch {
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout

  constructor(ms: number) {
    const over = () => this.#controller.abort(new DOMException(`nothing came for ${ms} ms`, 'TimeoutError'))
    this.#timer = setTimeout(over, ms)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  restart(): void {
    if (!this.signal.aborted) this.#timer.refresh()
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

/** Half fixed, half random, so that those who failed together do not come back together. */
function pauseMs(attempt: number): number {
  const ms = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LAST_PAUSE_MS)
  return ms / 2 + (Math.random() * ms) / 2
}

/** A driver that overlooks the signal must not hold up whoever waits. */
function orAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

function verdictOf(error: unknown): Verdict {
  return VERDICTS[codeOf(error)] ?? 'again'
}

export function isVerdict(error: unknown, verdict: Verdict): boolean {
  return verdictOf(error) === verdict
}

/** What a store says of a bucket that is somebody else's, there or in another region: the names are all its users' together. */
const OF_OTHERS: ReadonlySet<string> = new Set([
  'AccessDenied',
  'AllAccessDisabled',
  'AuthorizationHeaderMalformed',
  'IllegalLocationConstraintException',
  'PermanentRedirect',
  'TemporaryRedirect',
])

export const isOfOthers = (error: unknown): boolean => OF_OTHERS.has(codeOf(error))

function objectError(verdict: Exclude<Verdict, 'again' | 'beyond'>, path: string, cause: unknown): SluiceError {
  const place = new Error(`object store path ${JSON.stringify(path)}`, { cause })
  switch (verdict) {
    case 'missing':
      return new SluiceError('INTERNAL', 'a file of the object store is missing', {
        code: 'object_missing',
        cause: place,
      })
    case 'exists':
      return objectExists(place)
    case 'refused': {
      const { message, remedy } = REFUSALS[codeOf(cause)] ?? REFUSED
      return new SluiceError('CONFIG', message, { code: 'object_store_refused', remedy, cause: place })
    }
    case 'unsupported':
      return new SluiceError('UNSUPPORTED', 'the object store does not offer a request that is needed', {
        code: 'object_store_unsupported',
        cause: place,
      })
  }
}

export function objectExists(cause: unknown): SluiceError {
  return new SluiceError('CONFLICT', 'a file of the object store exists already', { code: 'object_exists', cause })
}
