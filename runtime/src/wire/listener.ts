/**
 * The listener for clients of PostgreSQL. Whoever connects is a stranger until a token or password was verified: he has little time, few
 * bytes and few places, and learns nothing but that he was not let in.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Logger } from '@sluice/sdk'
import { Doors, markKnown } from '../http/doors.ts'
import { parseStart, type StartMessage } from './protocol/client-messages.ts'
import * as say from './protocol/server-messages.ts'
import { WireError } from './protocol/wire-error.ts'
import { type Authorities, type Authority, authenticationFailed, tokenEnded } from './session/authority.ts'
import { ClientStream } from './session/client-stream.ts'
import { CredentialWatch } from './session/credential-watch.ts'
import { isSilence, logIn } from './session/login.ts'
import type { PlanParts } from './session/row-plan.ts'
import { Session } from './session/session.ts'
import { REPORTED, Settings } from './session/settings.ts'
import { startedWith } from './session/started-with.ts'

export interface WireOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Null: only clients of this machine are let in. */
  readonly tls: SecureContext | null
  /** Hash of its certificate, which logins by service passwords can be bound to (`tls-server-end-point`); null: they cannot. */
  readonly tlsEndPoint: Buffer | null
  readonly maxConnections: number
  readonly maxConnectionsPerTenant: number
  /** Null: no limit of its own. */
  readonly maxConnectionsPerAddress: number | null
  /** Until a client is let in. */
  readonly loginMs: number
  /** Until the next message of a session. */
  readonly idleMs: number
  /** Of the PostgreSQL whose catalogue is shown. */
  readonly serverVersion: string
  readonly authorities: Authorities
  readonly plans: PlanParts
  readonly logger: Logger
  readonly count: WireCounts
}

/** What is told to the metrics. */
export interface WireCounts {
  connected(by: 1 | -1): void
  login(outcome: 'let_in' | 'refused'): void
  statement(outcome: 'answered' | 'refused' | 'failed'): void
}

export interface RunningWire {
  readonly host: string
  readonly port: number
  stop(graceMs: number): Promise<void>
}

const FIRST_BYTE_MS = 5_000
const MAX_LOGIN_BYTES = 16 * 1024
const MAX_MESSAGE_BYTES = 2 * 1024 * 1024
/** Of timers; a token that ends later is looked at again then. */
const MOST_TIMER_MS = 2 ** 31 - 1
const SECRET_BYTES = 4

interface Living {
  readonly session: Session
  readonly secret: Buffer
}

export async function startWire(options: WireOptions): Promise<RunningWire> {
  const wire = new Wire(options)
  const server = createServer({ allowHalfOpen: false }, (socket) => void wire.meet(socket))
  server.maxConnections = options.maxConnections
  new Doors(server, {
    firstByteMs: Math.min(FIRST_BYTE_MS, options.loginMs),
    mostConnections: options.maxConnections,
    mostPerAddress: options.maxConnectionsPerAddress,
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, resolve)
  })
  const { address, port } = server.address() as AddressInfo
  return { host: address, port, stop: (graceMs) => wire.stop(server, graceMs) }
}

class Wire {
  readonly #options: WireOptions
  readonly #sockets = new Set<Socket>()
  readonly #living = new Map<number, Living>()
  readonly #byTenant = new Map<string, number>()
  readonly #credentials: CredentialWatch
  #nextId = 1
  #isStopping = false

  constructor(options: WireOptions) {
    this.#options = options
    this.#credentials = new CredentialWatch(options.authorities.good)
  }

  async meet(socket: Socket): Promise<void> {
    const { count, logger, idleMs } = this.#options
    this.#sockets.add(socket)
    count.connected(1)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      count.connected(-1)
    })
    let isKnown = false
    const limits = { maxMessageBytes: () => (isKnown ? MAX_MESSAGE_BYTES : MAX_LOGIN_BYTES), writeMs: idleMs }
    const stream = new ClientStream(socket, limits)
    try {
      const known = await this.#letIn(stream, socket)
      if (known === null) return stream.end()
      isKnown = true
      markKnown(socket)
      await this.#serve(stream, known)
    } catch (error) {
      if (!(error instanceof WireError)) logger.debug('a client of PostgreSQL was not let in', { error: String(error) })
      stream.end(say.errorResponse(error instanceof WireError ? error : authenticationFailed()))
    }
  }

  /** Null where there is nothing to serve: the client is gone, or asked to cancel something. */
  async #letIn(stream: ClientStream, socket: Socket): Promise<Known | null> {
    const untilMs = performance.now() + this.#options.loginMs
    const leftMs = (): number => Math.max(1, untilMs - performance.now())
    const start = await this.#start(stream, leftMs)
    if (start === null) return null
    if (!stream.isSecure && !isLoopback(stream.remoteAddress)) {
      throw new WireError('28000', 'this server is only talked to under TLS', {
        isFatal: true,
        hint: 'Set sslmode=require.',
      })
    }
    const unknown = [...start.settings.keys()].filter((name) => name.startsWith('_pq_.'))
    if (start.minor > 0 || unknown.length > 0) stream.queue(say.negotiateProtocol(unknown))
    const user = start.settings.get('user') ?? ''
    const { authorities, tlsEndPoint, count } = this.#options
    const endPoint = stream.isSecure ? tlsEndPoint : null
    const parts = { authorities, stream, endPoint, connection: socket, leftMs }
    const authority = await logIn(parts, { user, database: start.settings.get('database') ?? user }).catch(
      (error: unknown) => {
        if (!isSilence(error)) count.login('refused')
        throw error
      },
    )
    if (authority === null) return null
    count.login('let_in')
    const settings = new Settings(this.#options.serverVersion, user)
    begun(() => settings.start(startedWith(start.settings)))
    return { authority, settings }
  }

  async #start(stream: ClientStream, leftMs: () => number): Promise<Startup | null> {
    // Of each kind once: TLS, encryption by GSSAPI, and then the start itself.
    for (let asked = 0; asked < 3; asked += 1) {
      const frame = await stream.next('start', leftMs())
      if (frame === null) return null
      const start = parseStart(frame)
      if (start.kind === 'startup') return start
      if (start.kind === 'cancel') {
        this.#cancel(start.processId, start.secret)
        return null
      }
      const { tls } = this.#options
      if (start.kind === 'ssl' && tls !== null && !stream.isSecure) await stream.startTls(tls, leftMs())
      else {
        stream.queue(Buffer.from('N'))
        await stream.flush()
      }
    }
    throw new WireError('08P01', 'the start of a session was expected', { isFatal: true })
  }

  async #serve(stream: ClientStream, { authority, settings }: Known): Promise<void> {
    const { plans, idleMs, count, logger, maxConnectionsPerTenant } = this.#options
    if (this.#isStopping) throw shuttingDown()
    const { tenant } = authority
    const others = this.#byTenant.get(tenant) ?? 0
    if (others >= maxConnectionsPerTenant) {
      throw new WireError('53300', 'this tenant has as many connections as it may', {
        isFatal: true,
        hint: 'Close some, or use a pool.',
      })
    }
    const session = new Session({
      ...plans,
      stream,
      authority,
      settings,
      idleMs,
      onStatement: (outcome) => count.statement(outcome),
      onFault: (error, requestId) =>
        logger.error('a statement of a client of PostgreSQL failed', {
          request_id: requestId,
          error: error instanceof Error ? (error.stack ?? error.message) : String(error),
        }),
    })
    const id = this.#nextId++ & 0x7fffffff
    const secret = randomBytes(SECRET_BYTES)
    this.#living.set(id, { session, secret })
    this.#byTenant.set(tenant, others + 1)
    const isOver = this.#credentials.hold(authority.held, () => session.end(tokenEnded()))
    const ends = [endWithToken(session, authority.expiresAtMs), isOver]
    try {
      stream.queue(say.authenticationOk())
      for (const name of REPORTED) stream.queue(say.parameterStatus(name, settings.value(name)))
      stream.queue(say.backendKey(id, secret))
      await session.run()
    } finally {
      for (const end of ends) end()
      this.#living.delete(id)
      const left = (this.#byTenant.get(tenant) ?? 1) - 1
      if (left > 0) this.#byTenant.set(tenant, left)
      else this.#byTenant.delete(tenant)
    }
  }

  /** Whether there was one is not told. */
  #cancel(id: number, secret: Buffer): void {
    const living = this.#living.get(id)
    if (living?.secret.length === secret.length && timingSafeEqual(living.secret, secret)) living.session.cancel()
  }

  async stop(server: Server, graceMs: number): Promise<void> {
    this.#isStopping = true
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const { session } of this.#living.values()) session.end(shuttingDown())
    const cut = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy()
    }, graceMs)
    await closed
    clearTimeout(cut)
  }
}

interface Known {
  readonly authority: Authority
  readonly settings: Settings
}

type Startup = Extract<StartMessage, { readonly kind: 'startup' }>

/** A session that would not be as it was asked for is none. */
function begun(start: () => void): void {
  try {
    start()
  } catch (error) {
    if (!(error instanceof WireError) || error.isFatal) throw error
    const hint = error.hint === undefined ? {} : { hint: error.hint }
    throw new WireError(error.sqlState, error.message, { ...hint, isFatal: true })
  }
}

function shuttingDown(): WireError {
  return new WireError('57P01', 'the server is shutting down', {
    isFatal: true,
    code: 'shutting_down',
    hint: 'Connect again.',
  })
}

/** Returns what stops the watch. */
function endWithToken(session: Session, atMs: number): () => void {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const leftMs = atMs - Date.now()
    if (leftMs <= 0) session.end(tokenEnded())
    else timer = setTimeout(wait, Math.min(leftMs, MOST_TIMER_MS)).unref()
  }
  wait()
  return () => clearTimeout(timer)
}

const isLoopback = (address: string): boolean => address === '::1' || /^(?:::ffff:)?127\./.test(address)
