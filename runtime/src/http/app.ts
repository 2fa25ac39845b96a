/**
 * The edge. Its steps run in a fixed order, each may refuse, and the first refusal is the answer: target → route → token →
 * limits → tenant → media type → inputs → idempotency → handler → reply. It answers by itself; Koa reads bodies, says what a
 * client accepts, and answers where the edge itself has failed, and so has a context for those requests alone.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isSluiceError } from '@sluice/sdk'
import Koa, { type Context } from 'koa'
import type { FaultPoint } from '../fault-points.ts'
import type { Call, TenantCall } from '../flow.ts'
import type { ParseThreads } from '../parsing/parse-threads.ts'
import type { StoredAnswer } from '../registry/idempotency.ts'
import { AnswerCosts } from './answer-costs.ts'
import { type BodyParser, type BodyReading, hasBody } from './body.ts'
import { likesGzip } from './compression.ts'
import { Cors, type CorsOptions } from './cors.ts'
import { Deadlines } from './deadlines.ts'
import { Exchange } from './exchange.ts'
import { FairGate } from './fair-gate.ts'
import { Guard, type GuardDeps, limitKeyOf } from './guard.ts'
import { ICEBERG_PREFIX } from './iceberg-problem.ts'
import { type IdempotencyStore, idempotencyKeyOf, isRepeatable, scopeOf, storable } from './idempotency.ts'
import { InFlight } from './in-flight.ts'
import { mediaTypeFor } from './media-types.ts'
import { mayKnowFiles, problemOf, refuse } from './problem.ts'
import { sendProblem, sendReply } from './reply.ts'
import type { Reply, Route } from './route.ts'
import { type CompiledRoute, type RouteMatch, RouteTable } from './route-table.ts'
import { parseTarget } from './target.ts'

/** What is said of each finished request: to metrics and to the log. Never a body, a query or a token. */
export interface RequestReport {
  readonly requestId: string
  readonly method: string
  /** Template of the path; empty where no route was found. */
  readonly route: string
  readonly status: number
  readonly durationMs: number
  readonly tenant: string | null
  /** Null without a verified token. */
  readonly subject: string | null
  /** Of the answer's body, where it was sent whole; 0 of streams. */
  readonly bytes: number
}

export interface HttpDeps extends GuardDeps {
  readonly routes: readonly Route[]
  readonly idempotency: IdempotencyStore
  /** Default 1 MiB; for JSON. Forms have limits of their own. */
  readonly maxBodyBytes?: number
  /** Requests under way at once; more are answered 503. */
  readonly maxInFlight?: number
  /** Of one tenant, its streams of events included; more are answered 429. */
  readonly maxInFlightPerTenant?: number
  /** Reads that are worked on at once, in units of their cost; one tenant has three quarters at most. Default 64. */
  readonly workAtOnce?: number
  /** How many processes serve alike: the limits above are of all of them, and each has its share. Default 1. */
  readonly processes?: number
  /** Streams of events of one subject at once; more are answered 429. */
  readonly maxStreamsPerSubject?: number
  /**
   * How long a client may take nothing of its answer before its connection is given up, default half a minute; ten times as long
   * where the answer holds nothing but its bytes, and none of its tenant's reads waits for these.
   */
  readonly writeIdleMs?: number
  /** Of whole answers of one tenant that wait for their clients; its reads wait where there are more. Default 64 MiB. */
  readonly maxUnreadBytes?: number
  /** Pages of other origins that may call; absent: none. */
  readonly cors?: CorsOptions
  /** Where long bodies are taken apart; absent: on the event loop. */
  readonly threads?: ParseThreads
  /** Reached before the effect of a request with a key, and between it and its answer. */
  readonly faultPoint?: FaultPoint
  onFinished?(report: RequestReport): void
  /** An error that no client hears the cause of. */
  onFault?(error: unknown, call: Pick<Call, 'requestId' | 'traceparent'>): void
}

export interface HttpApp {
  /** Answers one request, whatever happens. */
  handle(request: IncomingMessage, response: ServerResponse): void
  /** Answers new requests with 503 and ends streams of events. */
  drain(): void
  /** Requests under way. */
  readonly inFlight: number
}

const DEFAULT_TIMEOUT_MS = 30_000
const DEFAULT_MAX_IN_FLIGHT = 1_000
const DEFAULT_MAX_IN_FLIGHT_PER_TENANT = 200
const DEFAULT_WORK_AT_ONCE = 64
const DEFAULT_MAX_STREAMS_PER_SUBJECT = 5
const DEFAULT_MAX_UNREAD_BYTES = 64 * 1024 * 1024
const EMPTY_BODY = Object.freeze({})
/** Of a response that nothing was sent of, as reports tell it. */
const NOT_ANSWERED = 404

export function createHttpApp(deps: HttpDeps): HttpApp {
  const koa = new Koa({ env: 'production' })
  koa.on('error', () => {})
  const edge = new Edge(deps, koa)
  return {
    handle(request, response) {
      edge.handle(request, response).catch((error) => koa.createContext(request, response).onerror(error))
    },
    drain: () => edge.drain(),
    get inFlight() {
      return edge.deadlines.size
    },
  }
}

/**
 * What a balancer may send to another server by itself. Anything else that still comes is answered, as its client would
 * have to find out what became of it.
 */
function mayBeSentElsewhere({ method, headers }: IncomingMessage): boolean {
  return (method !== 'POST' && method !== 'PATCH') || headers['idempotency-key'] !== undefined
}

class Edge {
  readonly deadlines = new Deadlines()
  readonly #deps: HttpDeps
  readonly #koa: Koa
  readonly #cors: Cors | null
  readonly #table: RouteTable
  readonly #guard: Guard
  readonly #maxInFlight: number
  readonly #places: InFlight
  readonly #streamsOfTenants: InFlight
  readonly #streamsOfSubjects: InFlight
  readonly #gate: FairGate
  readonly #costs = new AnswerCosts()
  /** Answers that are made, and wait for their clients. */
  #beingTaken = 0
  #isDraining = false

  constructor(deps: HttpDeps, koa: Koa) {
    this.#deps = deps
    this.#koa = koa
    this.#cors = deps.cors === undefined ? null : new Cors(deps.cors)
    this.#table = new RouteTable(deps.routes, deps.maxBodyBytes)
    this.#guard = new Guard(deps)
    const { processes = 1 } = deps
    const share = (whole: number) => (processes === 1 ? whole : Math.max(1, Math.floor(whole / processes)))
    this.#maxInFlight = share(deps.maxInFlight ?? DEFAULT_MAX_IN_FLIGHT)
    const most = share(deps.maxInFlightPerTenant ?? DEFAULT_MAX_IN_FLIGHT_PER_TENANT)
    this.#places = new InFlight(most)
    const unread = share(deps.maxUnreadBytes ?? DEFAULT_MAX_UNREAD_BYTES)
    this.#gate = new FairGate(share(deps.workAtOnce ?? DEFAULT_WORK_AT_ONCE), unread)
    this.#streamsOfTenants = new InFlight(Math.ceil(most / 2))
    this.#streamsOfSubjects = new InFlight(deps.maxStreamsPerSubject ?? DEFAULT_MAX_STREAMS_PER_SUBJECT)
  }

  drain(): void {
    this.#isDraining = true
    this.deadlines.forEach((timed) => {
      if (!(timed instanceof Exchange)) return
      timed.response.shouldKeepAlive = false
      if (!timed.isLive) return
      timed.endBy(performance.now())
      timed.onDeadline()
    })
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.statusCode = NOT_ANSWERED
    // The client's next request is for another server, which it reaches by a connection of its own.
    if (this.#isDraining) response.shouldKeepAlive = false
    const exchange = new Exchange(request, response)
    exchange.cors = this.#cors
    if (this.#deps.writeIdleMs !== undefined) exchange.writeIdleMs = this.#deps.writeIdleMs
    try {
      await this.#answer(exchange)
    } catch (error) {
      this.#fail(exchange, error)
    } finally {
      this.deadlines.unwatch(exchange)
      for (const leave of exchange.places) leave()
      exchange.giveUpUnread()
      this.#report(exchange)
    }
  }

  async #answer(exchange: Exchange): Promise<void> {
    const { request } = exchange
    const { method = '', url = '' } = request
    // An address that cannot be taken apart is refused in the form of the catalog, too.
    if (url.startsWith(ICEBERG_PREFIX)) exchange.path = ICEBERG_PREFIX
    const target = parseTarget(url)
    exchange.path = target.path
    const match = this.#table.match(target.path, method)
    if (match === null) return this.#withoutRoute(exchange, method)
    const { route } = match.compiled
    exchange.routePath = route.path
    exchange.challenge = route.challenge ?? null
    route.admits?.(request.headers)
    if (route.unlimited !== true) this.#refuseOverload(request)
    exchange.timeoutMs = route.timeoutMs ?? DEFAULT_TIMEOUT_MS
    exchange.deadlineMs = performance.now() + exchange.timeoutMs
    exchange.onLate = (late) => this.#fail(late, late.signal.reason)
    this.deadlines.watch(exchange)
    exchange.onMade = () => {
      this.#beingTaken += 1
      exchange.places.push(() => {
        this.#beingTaken -= 1
      })
    }
    // Awaited only where there is something to wait for: on the fast path there is not.
    const admitted = this.#guard.admit(exchange, route)
    if (admitted !== undefined) await admitted
    this.#cors?.check(exchange)
    const context = () => this.#contextOf(exchange)
    const accepts = (types: string[]) => context().accepts(types)
    exchange.mediaType = mediaTypeFor({ headers: request.headers, accepts }, match.compiled.types)
    exchange.mayCompress = match.compiled.mayCompress
    exchange.likesGzip = () => likesGzip(request.headers, context)
    this.#takePlaces(exchange, route)
    const read = this.#readInputs(exchange, match, target.search)
    if (read !== undefined) await read
    if (route.tokens !== undefined) await this.#guard.takeMore(route, exchange)
    const readying = route.ready?.(callOf(exchange))
    if (readying !== undefined) await readying
    const waits = this.#beginWork(exchange, route)
    if (waits !== undefined) await waits
    const reply = await (route.idempotent === true ? this.#runOnce(exchange, route) : run(exchange, route))
    const sent = sendReply(exchange, reply)
    if (sent !== undefined) await sent
  }

  /** Koa's, for the few requests that ask it something. */
  #contextOf(exchange: Exchange): Context {
    exchange.context ??= this.#koa.createContext(exchange.request, exchange.response)
    return exchange.context
  }

  #readInputs(exchange: Exchange, match: RouteMatch, search: string): Promise<void> | undefined {
    const { compiled } = match
    exchange.params = compiled.params.read(match.params)
    exchange.query = compiled.query.read(search)
    if (compiled.readBody === null) {
      if (hasBody(exchange.request)) throw refuse('body_not_expected', 'this request takes no body')
      return undefined
    }
    return readBody(this.#contextOf(exchange), compiled, compiled.readBody, () => this.#readingFor(exchange)).then(
      (body) => {
        exchange.body = body
      },
    )
  }

  #readingFor({ principal, signal }: Exchange): BodyReading {
    return { threads: this.#deps.threads ?? null, key: principal === null ? '' : limitKeyOf(principal), signal }
  }

  #refuseOverload(request: IncomingMessage): void {
    if (this.#isDraining && mayBeSentElsewhere(request))
      throw refuse('shutting_down', 'the server is shutting down', { retryAfterMs: 5_000 })
    // Nothing is worked on for readers who take their time: a thousand of them, without any token, would keep all others out.
    if (this.deadlines.size - this.#beingTaken >= this.#maxInFlight) {
      throw refuse('server_busy', 'the server is working on as many requests as it may', { retryAfterMs: 1_000 })
    }
  }

  /** Streams of events keep theirs for as long as they last, and so have fewer. */
  #takePlaces(exchange: Exchange, route: Route): void {
    const { principal } = exchange
    if (principal === null) return
    const tenant = limitKeyOf(principal)
    this.#takePlace(exchange, this.#places, tenant, 'requests of this tenant')
    if (route.isLive !== true) return
    this.#takePlace(exchange, this.#streamsOfTenants, tenant, 'streams of this tenant')
    const subject = JSON.stringify([principal.issuer, principal.subject])
    this.#takePlace(exchange, this.#streamsOfSubjects, subject, 'streams of this subject')
  }

  #takePlace(exchange: Exchange, places: InFlight, key: string, what: string): void {
    if (!places.enter(key)) throw refuse('too_many_at_once', `too many ${what} are under way`, { retryAfterMs: 1_000 })
    exchange.places.push(() => places.leave(key))
  }

  /** What only reads takes its turn; what is started here goes on elsewhere, and has its own queues there. */
  #beginWork(exchange: Exchange, route: Route): Promise<void> | undefined {
    const { principal, weight } = exchange
    if (principal === null || route.isLive === true || route.timeoutMs !== undefined) return undefined
    if (route.method !== 'GET' && route.method !== 'HEAD' && route.isRead !== true) return undefined
    const key = limitKeyOf(principal)
    const kind = `${key} ${route.name}`
    const cost = this.#costs.expected(kind)
    const begin = (): void => {
      let isWorking = true
      const leave = (): void => {
        if (!isWorking) return
        isWorking = false
        this.#gate.leave(key, cost)
        if (exchange.answerBytes > 0) this.#costs.learn(kind, exchange.answerBytes)
      }
      exchange.places.push(leave)
      // A client that reads slowly keeps nobody from work, but its own tenant where that has much unread.
      const { onMade } = exchange
      exchange.onMade = (bytes) => {
        onMade(bytes)
        exchange.isInTheWay = () => this.#gate.isShort(key)
        this.#gate.keep(key, bytes)
        leave()
        exchange.places.push(() => this.#gate.drop(key, bytes))
      }
    }
    const waits = this.#gate.enter(key, weight, cost, () => exchange.signal)
    if (waits !== undefined) return waits.then(begin)
    begin()
    return undefined
  }

  #withoutRoute(exchange: Exchange, method: string): void {
    this.#guard.admitAddress(exchange)
    const methods = this.#table.methodsOf(exchange.path)
    if (methods.length === 0) throw refuse('not_found', 'there is nothing at this address')
    const allow = [...methods, 'OPTIONS'].join(', ')
    if (method === 'OPTIONS') {
      const preflight = this.#cors?.preflightFor(exchange.request, methods) ?? {}
      void sendReply(exchange, { empty: true, headers: { ...preflight, Allow: allow } })
      return
    }
    const error = refuse('method_not_allowed', 'this address does not take this method')
    const problem = problemOf(error, contextOf(exchange))
    sendProblem(exchange, { ...problem, headers: { ...problem.headers, Allow: allow } })
  }

  /** The stored answer of an earlier request with the same key, or the answer of this one, which is then stored. */
  async #runOnce(exchange: Exchange, route: Route): Promise<Reply> {
    const key = idempotencyKeyOf(exchange)
    if (key === null) return run(exchange, route)
    exchange.idempotencyKey = key
    const start = await this.#deps.idempotency.start(
      scopeOf(exchange, callOf(exchange).principal, key),
      exchange.signal,
    )
    switch (start.state) {
      case 'finished':
        await route.authorize?.(callOf(exchange))
        return replayOf(start.answer)
      case 'mismatch':
        throw refuse('idempotency_key_reused', 'this Idempotency-Key was used for another request')
      case 'in_progress':
        throw refuse('idempotency_in_progress', 'a request with this Idempotency-Key is under way', {
          retryAfterMs: start.retryAfterMs,
        })
      case 'started':
        exchange.idempotency = start.claim
        return this.#runAndStore(exchange, route)
    }
  }

  async #runAndStore(exchange: Exchange, route: Route): Promise<Reply> {
    const { idempotency } = this.#deps
    const claim = exchange.idempotency as NonNullable<Exchange['idempotency']>
    let answer: StoredAnswer
    try {
      await this.#deps.faultPoint?.('http.before-effect')
      answer = storable(await run(exchange, route))
      await this.#deps.faultPoint?.('http.before-answer')
    } catch (error) {
      const problem = problemOf(error, contextOf(exchange))
      if (isRepeatable(problem.status)) await idempotency.abandon(claim)
      else await idempotency.finish(claim, problem)
      throw error
    }
    await idempotency.finish(claim, answer)
    return { ...replayOf(answer), headers: answer.headers }
  }

  #fail(exchange: Exchange, error: unknown): void {
    const cause = exchange.isLate && !exchange.response.headersSent ? exchange.signal.reason : error
    const problem = problemOf(cause, contextOf(exchange))
    if (problem.status >= 500 && !isClientGone(exchange)) this.#deps.onFault?.(error, exchange)
    // A half answer must not look whole: the connection is cut instead of ended.
    if (exchange.response.headersSent) exchange.cutOff()
    else sendProblem(exchange, problem)
  }

  #report(exchange: Exchange): void {
    this.#deps.onFinished?.({
      requestId: exchange.requestId,
      method: exchange.request.method ?? '',
      route: exchange.routePath,
      status: exchange.response.statusCode,
      durationMs: performance.now() - exchange.startedAtMs,
      tenant: exchange.tenant,
      subject: exchange.principal?.subject ?? null,
      bytes: exchange.answerBytes,
    })
  }
}

function contextOf(exchange: Exchange) {
  const { requestId, path, principal, challenge } = exchange
  return { requestId, instance: path, challenge, mayKnowFiles: mayKnowFiles(principal) }
}

/** The guard has made true what the route's kind of call promises: a principal, a tenant. */
function callOf(exchange: Exchange): TenantCall {
  return exchange as Call as TenantCall
}

function run(exchange: Exchange, route: Route): Promise<Reply> | Reply {
  const call = callOf(exchange)
  const authorized = route.authorize?.(call)
  return authorized === undefined ? route.handler(call) : authorized.then(() => route.handler(call))
}

async function readBody(
  ctx: Context,
  compiled: CompiledRoute,
  read: BodyParser,
  reading: () => BodyReading,
): Promise<unknown> {
  const { route, body } = compiled
  const mayBeEmpty = compiled.mayLackBody || (route.body === undefined && route.multipart === undefined)
  const value = !hasBody(ctx.req) && mayBeEmpty ? EMPTY_BODY : await read(ctx, reading())
  return body === null ? value : body.read(value)
}

function replayOf(answer: StoredAnswer): Reply {
  const { status, body } = answer
  const type = status >= 400 ? { 'Content-Type': 'application/problem+json; charset=utf-8' } : {}
  const headers = { ...answer.headers, ...type, 'Idempotency-Replayed': 'true' }
  return body === '' ? { status, headers, empty: true } : { status, headers, json: body }
}

function isClientGone(exchange: Exchange): boolean {
  return exchange.response.destroyed && !isSluiceError(exchange.signal.reason)
}
