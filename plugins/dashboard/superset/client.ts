/**
 * Requests to Superset's REST API: logged in, bounded in time and size, and with errors that say what to do. What
 * Superset itself says may hold statements and addresses, so it stays in the cause.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '@sluice/sdk'
import type { SupersetSettings } from './settings.ts'

export type SupersetLogin = Omit<SupersetSettings, 'timeout_ms'> & {
  /** Of one request. */
  readonly timeoutMs: number
}

/** Requests go out under one login; it is renewed when Superset has forgotten it. */
export interface SupersetSession {
  /** The answer's JSON; null for 404. Asked again a few times after a 500. */
  get(path: string): Promise<unknown>
  send(method: 'POST' | 'PUT', path: string, body: unknown): Promise<unknown>
  upload(path: string, form: FormData): Promise<void>
  /** What is not there is deleted. */
  delete(path: string): Promise<void>
}

const MAX_ANSWER_BYTES = 8 * 1024 * 1024
const KEPT_WORDS = 2_000
// Superset reads a list in several statements, and answers 500 where another request deletes a row between them.
const READ_ATTEMPTS = 8
const READ_AGAIN_MS = 100

interface Login {
  readonly authorization: string
  readonly csrf: string
  readonly cookie: string
}

interface Request {
  readonly method: string
  readonly path: string
  readonly body?: string | FormData
}

export class SupersetClient {
  readonly #settings: SupersetLogin

  constructor(settings: SupersetLogin) {
    this.#settings = settings
  }

  /** Logs in. Throws TRANSIENT `dashboards_unavailable`, CONFIG `dashboards_login_refused`. */
  async open(signal: AbortSignal): Promise<SupersetSession> {
    const login = await this.#login(signal)
    const ask = (request: Request) => this.#ask(request, login, signal)
    const json = (body: unknown) => JSON.stringify(body)
    return {
      get: async (path) => (await ask({ method: 'GET', path })).body,
      send: async (method, path, body) => required(await ask({ method, path, body: json(body) })),
      upload: async (path, form) => void required(await ask({ method: 'POST', path, body: form })),
      delete: async (path) => void (await ask({ method: 'DELETE', path })),
    }
  }

  /** Without a login. Throws TRANSIENT `dashboards_unavailable`. */
  async ping(signal: AbortSignal): Promise<void> {
    const request = { method: 'GET', path: '/health' }
    const { status, text } = await this.#send(request, null, signal)
    if (status < 200 || status > 299)
      throw unavailable(new Error(`GET /health: ${status}: ${text.slice(0, KEPT_WORDS)}`))
  }

  async #login(signal: AbortSignal): Promise<Login> {
    const { username, password } = this.#settings
    const body = JSON.stringify({ username, password, provider: 'db', refresh: false })
    const { body: granted } = await this.#ask({ method: 'POST', path: '/api/v1/security/login', body }, null, signal)
    const { access_token: token } = (granted ?? {}) as { readonly access_token?: unknown }
    if (typeof token !== 'string') throw loginRefused(null)
    const bearer = { authorization: `Bearer ${token}`, csrf: '', cookie: '' }
    const answer = await this.#ask({ method: 'GET', path: '/api/v1/security/csrf_token/' }, bearer, signal)
    const { result } = (answer.body ?? {}) as { readonly result?: unknown }
    return { ...bearer, csrf: typeof result === 'string' ? result : '', cookie: answer.cookie }
  }

  async #ask(request: Request, login: Login | null, signal: AbortSignal): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const { status, text, cookie } = await this.#send(request, login, signal)
      if (status === 500 && request.method === 'GET' && attempt < READ_ATTEMPTS) {
        // An abort ends the pause, and the next attempt throws it.
        await sleep(READ_AGAIN_MS * attempt * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined)
        continue
      }
      if (status === 404) return { body: null, cookie: '' }
      if (status < 200 || status > 299) throw refusal(status, request, text)
      return { body: jsonOf(text), cookie }
    }
  }

  async #send(request: Request, login: Login | null, signal: AbortSignal): Promise<Sent> {
    signal.throwIfAborted()
    const deadline = AbortSignal.timeout(this.#settings.timeoutMs)
    try {
      const answer = await fetch(`${this.#settings.url.replace(/\/+$/, '')}${request.path}`, {
        method: request.method,
        headers: headersOf(request, login, this.#settings.url),
        ...(request.body === undefined ? {} : { body: request.body }),
        // The password and the token go to the configured server only.
        redirect: 'error',
        signal: AbortSignal.any([signal, deadline]),
      })
      return { status: answer.status, text: await boundedText(answer), cookie: cookieOf(answer) }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw unavailable(error)
    }
  }
}

interface Sent {
  readonly status: number
  readonly text: string
  readonly cookie: string
}

interface Answer {
  /** Null for 404. */
  readonly body: unknown
  readonly cookie: string
}

function jsonOf(text: string): unknown {
  if (text === '') return {}
  try {
    return JSON.parse(text)
  } catch (error) {
    throw unavailable(error)
  }
}

function required({ body }: Answer): unknown {
  if (body !== null) return body
  throw refused(404, 'changing what is not there')
}

function headersOf({ body }: Request, login: Login | null, referer: string): Record<string, string> {
  return {
    accept: 'application/json',
    ...(typeof body === 'string' ? { 'content-type': 'application/json' } : {}),
    ...(login === null ? {} : { authorization: login.authorization, referer }),
    ...(login === null || login.csrf === '' ? {} : { 'x-csrftoken': login.csrf, cookie: login.cookie }),
  }
}

function cookieOf(answer: Response): string {
  return answer.headers
    .getSetCookie()
    .map((cookie) => cookie.split(';', 1)[0])
    .join('; ')
}

async function boundedText(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer is longer than any that was asked for')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function refusal(status: number, { method, path }: Request, words: string): SluiceError {
  const cause = new Error(`${method} ${path.split('?', 1)[0]}: ${status}: ${words.slice(0, KEPT_WORDS)}`)
  if (status === 401) return loginRefused(cause)
  if (status >= 500 || status === 429 || status === 408) return unavailable(cause)
  return refused(status, 'seeing to a product', cause)
}

function refused(status: number, doing: string, cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', `the dashboard server refused ${doing} (${status})`, {
    code: 'dashboards_refused',
    remedy: 'Give the login of dashboards.username the role Admin, and use the release that this runtime is made for.',
    cause,
  })
}

function loginRefused(cause: unknown): SluiceError {
  return new SluiceError('CONFIG', 'the dashboard server refused the login', {
    code: 'dashboards_login_refused',
    remedy: 'Check dashboards.username and dashboards.password in the configuration.',
    cause,
  })
}

function unavailable(cause: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the dashboard server does not answer as it should', {
    code: 'dashboards_unavailable',
    remedy: 'Check that it is up and reachable under dashboards.url; it is tried again by itself.',
    retryAfterMs: 5_000,
    cause,
  })
}
