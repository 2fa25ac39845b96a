import { randomUUID } from 'node:crypto'
import {
  createServer,
  type ServerOptions as HttpOptions,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect, Server as Listener, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '@sluice/sdk'
import type { HttpApp } from './app.ts'
import { markAwaitingContinue } from './body.ts'
import { ERROR_CODES, type KnownCode } from './codes.ts'
import { Doors } from './doors.ts'
import { passOverConnections } from './shut-door.ts'

export interface ServerOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Until all headers are here. */
  readonly headersTimeoutMs?: number
  /** Until the whole request is here. */
  readonly requestTimeoutMs?: number
  readonly keepAliveTimeoutMs?: number
  readonly maxHeaderBytes?: number
  readonly maxConnections?: number
  /** Until the first byte of a connection; default 5 s. */
  readonly firstByteTimeoutMs?: number
  /** Default: no limit of its own, as behind proxies, where all connections are theirs. */
  readonly maxConnectionsPerAddress?: number
}

export interface RunningServer {
  readonly host: string
  readonly port: number
  /**
   * Lets requests under way end for up to that long, then cuts what is left. Who connected before it was called is told
   * `503 shutting_down`, or answered where the request may not be sent to another; later on connections are refused.
   * Repeatable.
   */
  stop(graceMs: number): Promise<void>
}

const MAX_HEADERS = 100
const MAX_CONNECTIONS = 10_000
const FIRST_BYTE_MS = 5_000
/** Than clients are told: one that is held up sends the next request on a connection that is still there. */
const KEPT_LONGER_MS = 10_000
const TIMEOUT_CHECK_MS = 1_000
const DRAIN_CHECK_MS = 50
const LISTEN_ON_MS = { least: 100, most: 5_000 } as const
const QUIET_TURNS = 5
/** On one's own machine a connection is there at once, or refused. */
const TAKEN_MS = 1_000

/** Listens; rejects where the address cannot be had. */
export async function startServer(app: HttpApp, options: ServerOptions): Promise<RunningServer> {
  const { server, sockets } = createHttpServer(app, options)
  await listen(server, options)
  const { address, port } = server.address() as AddressInfo
  return { host: address, port, stop: (graceMs) => stop(server, sockets, app, graceMs) }
}

/** A server whose connections another listener accepts, as where several processes serve one port. */
export interface FedServer {
  /** A connection of which nothing has been read. */
  take(socket: Socket): void
  /** From now on whoever asks is told `503 shutting_down`, or answered where the request may not be sent to another. */
  drain(): void
  /** Lets requests under way end for up to that long, then cuts what is left. To be called when no connection comes any more. */
  end(graceMs: number): Promise<void>
}

export type FedOptions = Omit<ServerOptions, 'host' | 'port'>

export function createFedServer(app: HttpApp, options: FedOptions): FedServer {
  const { server, sockets } = createHttpServer(app, options)
  // Node begins to look for requests that are late when a server listens, which this one never does.
  server.emit('listening')
  return {
    take(socket) {
      // As of connections that a server of HTTP accepts itself, which ends them when it has dealt with what came.
      socket.allowHalfOpen = true
      server.emit('connection', socket)
      socket.resume()
    },
    drain: () => app.drain(),
    async end(graceMs) {
      const untilMs = performance.now() + graceMs
      await answered(server, sockets, app, untilMs)
      while (sockets.size > 0 && performance.now() < untilMs) await sleep(DRAIN_CHECK_MS)
      server.closeAllConnections()
    },
  }
}

interface HttpServer {
  readonly server: Server
  /** Those that are open. */
  readonly sockets: ReadonlySet<Socket>
}

function createHttpServer(app: HttpApp, options: FedOptions): HttpServer {
  const server = createServer(nodeOptions(options), app.handle)
  server.maxHeadersCount = MAX_HEADERS
  server.maxConnections = options.maxConnections ?? MAX_CONNECTIONS
  new Doors(server, {
    firstByteMs: options.firstByteTimeoutMs ?? FIRST_BYTE_MS,
    mostConnections: server.maxConnections,
    mostPerAddress: options.maxConnectionsPerAddress ?? null,
  })
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    markAwaitingContinue(request)
    app.handle(request, response)
  })
  // Node would answer 417 by itself: past the limits, the record and the form of all other answers. HTTP lets it be passed over.
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    app.handle(request, response)
  })
  server.on('clientError', refuseClient)
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  return { server, sockets }
}

interface NodeOptions extends HttpOptions {
  /** Node 24 knows it from its twelfth release on; its types do not yet. */
  readonly optimizeEmptyRequests: boolean
}

function nodeOptions(options: FedOptions): NodeOptions {
  return {
    headersTimeout: options.headersTimeoutMs ?? 10_000,
    requestTimeout: options.requestTimeoutMs ?? 60_000,
    keepAliveTimeout: options.keepAliveTimeoutMs ?? 65_000,
    keepAliveTimeoutBuffer: KEPT_LONGER_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    maxHeaderSize: options.maxHeaderBytes ?? 24 * 1024,
    // Two tokens in one request are refused, instead of one of them being chosen.
    joinDuplicateHeaders: true,
    // What announces no body is not read as one, with all that a stream does until it has ended.
    optimizeEmptyRequests: true,
  }
}

/** Rejects where the address cannot be had, in words for whoever started it. */
export function listen(server: Listener, options: Pick<ServerOptions, 'host' | 'port'>): Promise<void> {
  return new Promise((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException): void => reject(inWords(error, options))
    server.once('error', refused)
    server.listen(options.port, options.host, () => {
      server.off('error', refused)
      resolve()
    })
  })
}

/**
 * Rejects, as `startServer` would, where another process listens there or the host is none of this machine; of port 0, which
 * is a free one, only the latter. It does not listen there itself: whoever connected to it in that moment would be cut off.
 */
export async function checkAddress(host: string, port: number): Promise<void> {
  const server = createServer()
  await listen(server, { host, port: 0 }).catch((cause) => {
    throw inWords(cause.cause ?? cause, { host, port })
  })
  await new Promise((resolve) => server.close(resolve))
  if (port !== 0 && (await isTaken(host, port)))
    throw inWords(Object.assign(new Error('taken'), { code: 'EADDRINUSE' }), { host, port })
}

function isTaken(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const end = (taken: boolean) => {
      socket.destroy()
      resolve(taken)
    }
    socket.once('connect', () => end(true)).once('error', () => end(false))
    socket.setTimeout(TAKEN_MS, () => end(false))
  })
}

const WHY_NOT: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens there',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'this machine has no such address',
  EAI_AGAIN: 'names of machines cannot be looked up just now',
  EAFNOSUPPORT: 'this machine has no addresses of that kind',
  EINVAL: 'this machine has no such address',
  EACCES: 'this account may not listen there',
}

/** Why an address cannot be had, as whoever started the server would say it. */
function inWords(cause: NodeJS.ErrnoException, { host, port }: Pick<ServerOptions, 'host' | 'port'>): unknown {
  const reason = WHY_NOT[cause.code ?? '']
  if (reason === undefined) return cause
  return new SluiceError('CONFIG', `the server cannot listen on ${host}, port ${port}: ${reason}`, {
    code: 'invalid_config',
    remedy: 'Choose another --port or --host, or stop what listens there.',
    cause,
  })
}

async function stop(server: Server, sockets: ReadonlySet<Socket>, app: HttpApp, graceMs: number): Promise<void> {
  const untilMs = performance.now() + graceMs
  passOverConnections(server)
  app.drain()
  await acceptWaiting(server)
  // Not as a server of HTTP closes: that takes for idle what has been answered and not yet sent.
  const closed = new Promise<void>((resolve) => Listener.prototype.close.call(server, () => resolve()))
  await answered(server, sockets, app, untilMs)
  setTimeout(() => server.closeAllConnections(), Math.max(0, untilMs - performance.now())).unref()
  await closed
}

/** Waits for answers under way; what is idle then is closed, and where it is too late everything. */
async function answered(server: Server, sockets: ReadonlySet<Socket>, app: HttpApp, untilMs: number): Promise<void> {
  const isAnswering = () => app.inFlight > 0 || [...sockets].some((socket) => socket.writableLength > 0)
  while (isAnswering() && performance.now() < untilMs) await sleep(DRAIN_CHECK_MS)
  server.close()
  if (isAnswering()) server.closeAllConnections()
}

/**
 * Closing at once would reset the connections that the kernel has taken and this process has not yet seen. Of those one
 * comes with each turn of the event loop, and its request with the next.
 */
export async function acceptWaiting(server: Listener): Promise<void> {
  let quietTurns = 0
  const hear = (): void => {
    quietTurns = 0
  }
  server.on('connection', hear)
  const untilMs = performance.now() + LISTEN_ON_MS.most
  await sleep(LISTEN_ON_MS.least)
  for (quietTurns = 0; quietTurns < QUIET_TURNS && performance.now() < untilMs; quietTurns += 1) {
    await new Promise((resolve) => setImmediate(resolve))
  }
  server.off('connection', hear)
}

/** Requests that never became one: there is only a socket to answer on. */
function refuseClient(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const code = codeOf(error)
  const { status, title, remedy } = ERROR_CODES[code]
  // What could not be read has no path and no id of its own.
  const [instance, request_id] = ['/', randomUUID()]
  const body = JSON.stringify({
    type: `/docs#error-${code}`,
    title,
    status,
    detail: title,
    instance,
    code,
    request_id,
    remedy,
  })
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/problem+json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}

function codeOf(error: NodeJS.ErrnoException): KnownCode {
  if (error.code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large'
  return error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'request_timeout' : 'malformed_request'
}
