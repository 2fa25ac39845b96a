/**
 * The listener that Trino asks before it does anything: the endpoints of its Open Policy Agent protocol, on a port of
 * their own. Trino's client knows no tokens, and shows the address that it asked to people whose statement failed, so
 * that nothing in the address may be a secret: both sides show certificates. A question that cannot be answered is a
 * 5xx, and Trino then does nothing.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { isSluiceError, type Logger } from '@sluice/sdk'
import type { TrustedIssuer } from '../auth/issuers.ts'
import { principalOfTrinoUser } from '../auth/trino-user.ts'
import {
  type Asking,
  allowedIndexes,
  allows,
  columnMasks,
  rowFilters,
  type TrinoQuestion,
} from '../operations/catalog/trino-policy.ts'
import type { Platform } from '../operations/platform.ts'
import type { RunningServer } from './server.ts'

export interface PolicyListenerOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** PEM texts: the listener's own certificate and key, and what signed the certificates of those who may ask. */
  readonly tls: { readonly cert: string; readonly key: string; readonly clientCa: string }
  /** Whose tokens Trino accepts. */
  readonly issuer: TrustedIssuer
  readonly logger: Logger
}

type Answer = (platform: Platform, asking: Asking, question: TrinoQuestion) => Promise<unknown>

/** By the path, as Trino’s `opa.policy.…-uri` settings name them. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  allow: allows,
  batch: allowedIndexes,
  'row-filters': rowFilters,
  'column-masks': columnMasks,
}

const MAX_BODY_BYTES = 16 * 1024 * 1024
const MAX_RESOURCES = 100_000
const MAX_AT_ONCE = 200
const ANSWER_MS = 20_000
/**
 * Trino's client gives up a connection that was idle for a minute (airlift's `http-client.idle-timeout`), and does not
 * ask again where the other side did so first: the statement fails.
 */
const IDLE_MS = 75_000

/** Rejects where the address cannot be had. */
export async function startPolicyListener(platform: Platform, options: PolicyListenerOptions): Promise<RunningServer> {
  let atOnce = 0
  const { cert, key, clientCa } = options.tls
  const tls = { cert, key, ca: clientCa, requestCert: true, rejectUnauthorized: true, minVersion: 'TLSv1.2' } as const
  const times = { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: IDLE_MS } as const
  const server = createServer({ ...tls, ...times }, (request, response) => {
    if (atOnce >= MAX_AT_ONCE) return reply(response, 503)
    atOnce += 1
    void handle(platform, options, request, response).finally(() => {
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
  platform: Platform,
  options: PolicyListenerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    const name = (request.url ?? '').slice(1)
    const answer = Object.hasOwn(ANSWERS, name) ? ANSWERS[name] : undefined
    if (answer === undefined) return reply(response, 404)
    if (request.method !== 'POST') return reply(response, 405)
    const asking = { requestId: randomUUID(), signal: AbortSignal.timeout(ANSWER_MS) }
    const question = questionOf(JSON.parse(await bodyOf(request)), options.issuer)
    reply(response, 200, { result: await answer(platform, asking, question) })
  } catch (error) {
    options.logger.warn('a question of Trino’s could not be answered', {
      code: isSluiceError(error) ? error.code : undefined,
      error: error instanceof Error ? error.message : String(error),
    })
    reply(response, 500)
  }
}

/** Throws where the question is none: what is half understood is not answered. */
function questionOf(body: unknown, issuer: TrustedIssuer): TrinoQuestion {
  const { context, action } = recordOf(recordOf(body)['input'])
  const { operation, resource, filterResources } = recordOf(action)
  const user = recordOf(recordOf(context)['identity'])['user']
  const resources = filterResources ?? []
  if (typeof operation !== 'string' || typeof user !== 'string' || !Array.isArray(resources)) {
    throw new Error('the question is not one of the protocol')
  }
  if (resources.length > MAX_RESOURCES) throw new Error('the question is about too much at once')
  const question = { user, principal: personOrNobody(user, issuer), operation, filterResources: resources }
  return resource === undefined || resource === null ? question : { ...question, resource: recordOf(resource) }
}

/** A user that the issuer has not named is refused everything: that is an answer, too. */
export function personOrNobody(user: string, issuer: TrustedIssuer): TrinoQuestion['principal'] {
  try {
    return principalOfTrinoUser(user, issuer)
  } catch (error) {
    if (isSluiceError(error, 'PERMISSION')) return null
    throw error
  }
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new Error('the question is not one of the protocol')
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
