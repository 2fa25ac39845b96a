/** For tests of this folder: the app on a real port with tokens of the embedded issuer, in a folder of its own. */
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EmbeddedIssuer, type TokenSubject } from '../auth/embedded-issuer.ts'
import { TokenVerifier } from '../auth/verifier.ts'
import type { IdempotencyScope, IdempotencyStart, StoredAnswer } from '../registry/idempotency.ts'
import { createHttpApp, type HttpApp, type HttpDeps } from './app.ts'
import { canonicalJson, type IdempotencyStore } from './idempotency.ts'
import type { Route } from './route.ts'
import { type RunningServer, type ServerOptions, startServer } from './server.ts'

export interface TestServer extends AsyncDisposable {
  readonly url: string
  readonly port: number
  readonly app: HttpApp
  readonly server: RunningServer
  readonly issuer: EmbeddedIssuer
  token(subject?: TokenSubject, ttlS?: number): Promise<string>
  /** A request with a token of a developer of the tenant acme, unless `init` has its own. */
  ask(path: string, init?: RequestInit): Promise<Response>
}

export const ANN: TokenSubject = { tenant: 'acme', groups: ['svc-developers'], user: 'ann' }
export const ROOT: TokenSubject = { role: 'admin' }

/** High enough that no test but those of the limits meets them. */
const AMPLE = { ratePerS: 100_000, burst: 100_000 }

export async function startTestServer(
  routes: readonly Route[],
  deps: Partial<HttpDeps> = {},
  options: Partial<ServerOptions> = {},
): Promise<TestServer> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-http-'))
  const removeFolder = (): Promise<void> => rm(directory, { recursive: true, force: true })
  const where = { dataDirectory: directory, issuer: 'http://localhost/oidc', audience: 'sluice' }
  const issuer = await EmbeddedIssuer.open(where)
  const app = createApp(issuer, routes, deps, removeFolder)
  const server = await startServer(app, { host: '127.0.0.1', port: 0, ...options })
  const url = `http://127.0.0.1:${server.port}`
  const token = (subject: TokenSubject = ANN, ttlS = 3600): Promise<string> => issuer.issue(subject, { ttlS })
  return {
    url,
    port: server.port,
    app,
    server,
    issuer,
    token,
    ask: async (path, init = {}) => {
      const headers = new Headers(init.headers)
      if (!headers.has('authorization')) headers.set('authorization', `Bearer ${await token()}`)
      return fetch(url + path, { ...init, headers })
    },
    [Symbol.asyncDispose]: async () => {
      await server.stop(0)
      await removeFolder()
    },
  }
}

function createApp(
  issuer: EmbeddedIssuer,
  routes: readonly Route[],
  deps: Partial<HttpDeps>,
  onFailure: () => Promise<void>,
): HttpApp {
  try {
    return createHttpApp({
      routes,
      authenticator: new TokenVerifier({ issuers: [issuer.trusted()] }),
      standingOf: () => ({ tier: 'standard', status: 'active' }),
      onAdminUse: () => {},
      rateLimits: { tiers: { free: AMPLE, standard: AMPLE, enterprise: AMPLE }, address: AMPLE },
      trustedProxies: 0,
      idempotency: new KeptAnswers(),
      ...deps,
    })
  } catch (error) {
    void onFailure()
    throw error
  }
}

/** The contract of idempotency keys in one process, without an end of their life. */
class KeptAnswers implements IdempotencyStore {
  readonly #kept = new Map<string, { readonly hash: string; answer: StoredAnswer | null }>()

  async start(scope: IdempotencyScope): Promise<IdempotencyStart> {
    const { requestHash, ...rest } = scope
    const id = canonicalJson(rest)
    const kept = this.#kept.get(id)
    if (kept === undefined) {
      this.#kept.set(id, { hash: requestHash, answer: null })
      return { state: 'started', claim: { id } }
    }
    if (kept.hash !== requestHash) return { state: 'mismatch' }
    return kept.answer === null
      ? { state: 'in_progress', retryAfterMs: 1000 }
      : { state: 'finished', answer: kept.answer }
  }

  async finish(claim: { readonly id: string }, answer: StoredAnswer): Promise<void> {
    const kept = this.#kept.get(claim.id)
    if (kept !== undefined) kept.answer ??= answer
  }

  async abandon(claim: { readonly id: string }): Promise<void> {
    this.#kept.delete(claim.id)
  }
}

/** Sends bytes as they are and gives what comes back until the server closes the connection. */
export function sendRaw(port: number, bytes: string | Uint8Array): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')))
    socket.on('error', (error) =>
      chunks.length > 0 ? resolve(Buffer.concat(chunks).toString('latin1')) : reject(error),
    )
  })
}

export async function codeOf(response: Response): Promise<string> {
  const problem = (await response.json()) as { readonly code: string }
  return problem.code
}
