import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { HttpApp } from './app.ts'
import { markAwaitingContinue } from './body.ts'
import { ERROR_CODES, type KnownCode } from './codes.ts'

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
}

export interface RunningServer {
  readonly host: string
  readonly port: number
  /**
   * Takes no new connections, lets requests under way end for up to that long, then cuts what is left. Repeatable.
   */
  stop(graceMs: number): Promise<void>
}

const MAX_HEADERS = 100
const TIMEOUT_CHECK_MS = 1_000
const DRAIN_CHECK_MS = 50

/** Listens; rejects where the address cannot be had. */
export async function startServer(app: HttpApp, options: ServerOptions): Promise<RunningServer> {
  const handler = app.koa.callback()
  const server = createServer(
    {
      headersTimeout: options.headersTimeoutMs ?? 10_000,
      requestTimeout: options.requestTimeoutMs ?? 60_000,
      keepAliveTimeout: options.keepAliveTimeoutMs ?? 65_000,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      maxHeaderSize: options.maxHeaderBytes ?? 16 * 1024,
      // Two tokens in one request are refused, instead of one of them being chosen.
      joinDuplicateHeaders: true,
    },
    handler,
  )
  server.maxHeadersCount = MAX_HEADERS
  server.maxConnections = options.maxConnections ?? 10_000
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    markAwaitingContinue(request)
    void handler(request, response)
  })
  server.on('clientError', refuseClient)
  await listen(server, options)
  const { address, port } = server.address() as AddressInfo
  return { host: address, port, stop: (graceMs) => stop(server, app, graceMs) }
}

function listen(server: Server, options: ServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

async function stop(server: Server, app: HttpApp, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  app.drain()
  const untilMs = Date.now() + graceMs
  while (app.inFlight > 0 && Date.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, DRAIN_CHECK_MS))
  server.closeIdleConnections()
  if (app.inFlight > 0) server.closeAllConnections()
  else setTimeout(() => server.closeAllConnections(), Math.max(0, untilMs - Date.now())).unref()
  await closed
}

/** Requests that never became one: there is only a socket to answer on. */
function refuseClient(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const code = codeOf(error)
  const { status, title, remedy } = ERROR_CODES[code]
  const body = JSON.stringify({ type: `/docs#error-${code}`, title, status, detail: title, code, remedy })
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/problem+json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}

function codeOf(error: NodeJS.ErrnoException): KnownCode {
  if (error.code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large'
  return error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'request_timeout' : 'malformed_request'
}
