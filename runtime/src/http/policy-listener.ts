/**
 * The listener that an engine outside asks before it does anything, in its own words, on a port of its own. Such clients know
 * no tokens, and show the address that they asked to people whose statement failed, so that nothing in the address may be a
 * secret: both sides show certificates. A question that cannot be answered is a 5xx, and the engine then does nothing.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { isSluiceError, type Logger, type PolicyProtocol, type PolicyRequest } from '@sluice/sdk'
import { principalOfEngineUser } from '../auth/engine-user.ts'
import type { TrustedIssuer } from '../auth/issuers.ts'
import type { CatalogDeps } from '../operations/catalog/deps.ts'
import { type Asker, type Asking, allows } from '../operations/catalog/engine-policy.ts'
import type { RunningServer } from './server.ts'

export interface PolicyListenerOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** PEM texts: the listener's own certificate and key, and what signed the certificates of those who may ask. */
  readonly tls: { readonly cert: string; readonly key: string; readonly clientCa: string }
  readonly protocol: PolicyProtocol
  /** Whose tokens the engine accepts. */
  readonly issuer: TrustedIssuer
  readonly logger: Logger
}

const MAX_BODY_BYTES = 16 * 1024 * 1024
const MAX_QUESTIONS = 100_000
const MAX_AT_ONCE = 200
const ANSWER_MS = 20_000
/**
 * A client may give up a connection that was idle for a minute, as airlift's `http-client.idle-timeout` does, and not ask
 * again where the other side did so first: the statement fails.
 */
const IDLE_MS = 75_000

/** Rejects where the address cannot be had. */
export async function startPolicyListener(deps: CatalogDeps, options: PolicyListenerOptions): Promise<RunningServer> {
  let atOnce = 0
  const { cert, key, clientCa } = options.tls
  const tls = { cert, key, ca: clientCa, requestCert: true, rejectUnauthorized: true, minVersion: 'TLSv1.2' } as const
  const times = { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: IDLE_MS } as const
  const server = createServer({ ...tls, ...times }, (request, response) => {
    if (atOnce >= MAX_AT_ONCE) return reply(response, 503)
    atOnce += 1
    void handle(deps, options, request, response).finally(() => {
      atOnce -= 1
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, resolve)
  })
  const { address, port } = server.address() as AddressInfo
  return { host: address, port, stop: (graceMs) => stop(server, graceMs) }
}

async function handle(
  deps: CatalogDeps,
  options: PolicyListenerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    if (request.method !== 'POST') return reply(response, 405)
    const asking = { requestId: randomUUID(), signal: AbortSignal.timeout(ANSWER_MS) }
    const asked = options.protocol.read((request.url ?? '').slice(1), JSON.parse(await bodyOf(request)))
    if (asked === null) return reply(response, 404)
    if (asked.questions.length > MAX_QUESTIONS) throw new Error('the question is about too much at once')
    reply(response, 200, await answerTo(deps, asking, asked, options.issuer))
  } catch (error) {
    options.logger.warn('a question of an engine outside could not be answered', {
      code: isSluiceError(error) ? error.code : undefined,
      error: error instanceof Error ? error.message : String(error),
    })
    reply(response, 500)
  }
}

async function answerTo(
  deps: CatalogDeps,
  asking: Asking,
  { user, questions, answer }: PolicyRequest,
  issuer: TrustedIssuer,
): Promise<unknown> {
  const asker = { user, principal: personOrNobody(user, issuer) }
  const allowed: boolean[] = []
  for (const question of questions) allowed.push(await allows(deps, asking, asker, question))
  return answer(allowed)
}

/** A user that the issuer has not named is refused everything: that is an answer, too. */
export function personOrNobody(user: string, issuer: TrustedIssuer): Asker['principal'] {
  try {
    return principalOfEngineUser(user, issuer)
  } catch (error) {
    if (isSluiceError(error, 'PERMISSION')) return null
    throw error
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) throw new Error('the question is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function reply(response: ServerResponse, status: number, body: unknown = {}): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function stop(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), graceMs)
  await closed
  clearTimeout(cut)
}
