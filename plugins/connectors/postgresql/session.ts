/**
 * One login: opened, used for one read-only transaction, closed. Calls that read no rows hand it on instead (`KeptSession`).
 * Nothing outlives it at the source.
 */
import type { Socket } from 'node:net'
import type { ConnectorHost } from '@sluice/sdk'
import { Client, type QueryResultRow } from 'pg'
import { orAbort, within } from '../server/deadline.ts'
import { PasswordWithheld } from '../server/failure.ts'
import { type Line, openTcp } from '../server/line.ts'
import { CopyOut } from './copy-out.ts'
import type { KeptSession } from './kept-session.ts'
import { protect } from './line.ts'
import type { LogStream } from './log/stream.ts'
import type { Moment } from './moment.ts'
import type { Source } from './settings.ts'

const APPLICATION_NAME = 'sluice connector'
/** How long an ended call waits for the server to hear of it. */
const CANCEL_TIMEOUT_MS = 500
/** What a call has brought waits for so long for its session to be cleared. */
export const CLEAR_TIMEOUT_MS = 5_000
/** Not `DISCARD ALL`: before PostgreSQL 17 it takes away the role that a login is given by `ALTER ROLE … SET role`. */
const AS_AFTER_LOGIN = 'RESET ALL; SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP'
const CATALOG_TIMEOUT_MS = 30_000
const LOCK_TIMEOUT_MS = 10_000

/** What pg keeps to itself of a connected client. */
interface Backend {
  readonly processID: number | null
  readonly secretKey: number | null
  readonly connectionParameters: { options: string | undefined; replication: string | undefined }
}

export interface Way {
  readonly source: Source
  readonly host: ConnectorHost
  /** The sessions that are open, for whoever has to close them all. */
  readonly sessions: Set<Session>
  /** The one that a former call has left to the next. */
  readonly kept: KeptSession
  /** Of all reads; null: each has its own. */
  readonly moment: Moment | null
}

/** What a session is for, beside statements. */
export interface SessionUse {
  /** It reads the log, and calls itself by this name. */
  readonly replication?: string
}

export async function openSession(way: Way, signal: AbortSignal, use: SessionUse = {}): Promise<Session> {
  const kept = use.replication === undefined ? way.kept.take(signal) : null
  if (kept !== null) return kept
  return within(way.host.clock, signal, way.source.connectTimeoutMs, async (hurry) => {
    const line = await openLine(way, hurry)
    return login(way, line, signal, hurry, use)
  })
}

/** A call whose session the next call may go on with; where it fails, its session ends with it. */
export async function inKeptSession<T>(
  way: Way,
  signal: AbortSignal,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await openSession(way, signal)
  try {
    const result = await work(session)
    await way.kept.giveBack(session)
    return result
  } catch (error) {
    await session.close()
    throw error
  }
}

/** Resolves, connects and protects; the three steps that check() reports one by one. */
async function openLine(way: Way, signal: AbortSignal): Promise<Line> {
  const { source, host } = way
  const to = await host.network.resolve(source.host, source.port, signal)
  return protect(await openTcp(to, source.port, signal), to.address, source, signal)
}

/** Logs in over `line`, and destroys it when that fails. `signal` ends the session, `hurry` only the login. */
export async function login(
  way: Way,
  line: Line,
  signal: AbortSignal,
  hurry = signal,
  use: SessionUse = {},
): Promise<Session> {
  const client = clientOver(way, line, use)
  try {
    const connected = client.connect()
    // A line that was left unencrypted has been read from and stands paused.
    line.socket.resume()
    await orAbort(hurry, connected)
    return new Session(way, line, client, signal)
  } catch (error) {
    line.socket.destroy()
    throw error
  }
}

function clientOver({ source, host }: Way, line: Line, use: SessionUse): Client {
  let asked: 'scram' | 'password' = 'scram'
  const client = new Client({
    host: source.host,
    port: source.port,
    user: source.user,
    database: source.database,
    // A function, since an absent value makes the driver look into PGPASSWORD and ~/.pgpass.
    password: async () => {
      if (source.password === null) throw new PasswordWithheld('none_given')
      const safe = asked === 'scram' || line.protection === 'verified'
      if (!safe && !host.network.allowsCleartextPassword(line.address)) throw new PasswordWithheld('unprotected')
      return source.password
    },
    application_name: use.replication ?? APPLICATION_NAME,
    client_encoding: 'UTF8',
    sslnegotiation: 'postgres',
    ssl: false,
    stream: () => alreadyConnected(line.socket),
    enableChannelBinding: line.protection !== 'none',
  })
  // The server chooses how it wants the password: the driver's listeners for it come later than these.
  client.connection.prependListener('authenticationCleartextPassword', () => {
    asked = 'password'
  })
  client.connection.prependListener('authenticationMD5Password', () => {
    asked = 'password'
  })
  client.on('error', () => line.socket.destroy())
  const backend = client as unknown as Backend
  backend.connectionParameters.options = undefined
  backend.connectionParameters.replication = use.replication === undefined ? undefined : 'database'
  return client
}

/** The driver insists on connecting the socket that it is given. */
function alreadyConnected(socket: Socket): Socket {
  socket.connect = () => {
    queueMicrotask(() => socket.emit('connect'))
    return socket
  }
  return socket
}

export class Session {
  readonly #way: Way
  readonly #line: Line
  readonly #client: Client
  #signal: AbortSignal
  #copy: { readonly running: boolean } | null = null
  #busy = 0
  #isInTransaction = false
  readonly #onAbort = () => void this.close()
  #closing: Promise<void> | null = null

  constructor(way: Way, line: Line, client: Client, signal: AbortSignal) {
    this.#way = way
    this.#line = line
    this.#client = client
    this.#signal = signal
    way.sessions.add(this)
    this.#listen(signal)
  }

  /** Whether the session lives, and is now another call's: `signal` ends it from here on. */
  goOnFor(signal: AbortSignal): boolean {
    if (this.#closing !== null) return false
    if (this.#line.socket.destroyed) {
      void this.close()
      return false
    }
    this.#listen(signal)
    return true
  }

  /** Leaves nothing of its call: no transaction, lock or setting. False where it cannot be used again. */
  async clear(): Promise<boolean> {
    if (this.#closing !== null || this.#copy !== null) return false
    // What a transaction has set ends with it, and behind a pooler the session may be others' too. Where none is open, the server
    // would write a warning into its log.
    const sql = this.#isInTransaction ? 'ROLLBACK' : AS_AFTER_LOGIN
    try {
      await within(this.#way.host.clock, NEVER, CLEAR_TIMEOUT_MS, (hurry) => orAbort(hurry, this.run(sql)))
    } catch {
      // What the call has brought is whole; the next one logs in.
      return false
    }
    this.#isInTransaction = false
    this.#signal.removeEventListener('abort', this.#onAbort)
    return this.#closing === null
  }

  #listen(signal: AbortSignal): void {
    this.#signal = signal
    signal.addEventListener('abort', this.#onAbort, { once: true })
    if (signal.aborted) this.#onAbort()
  }

  /**
   * Starts a read-only transaction in which every statement sees the same instant, and in which nothing that was set
   * for the login or database changes how values are written. SET LOCAL, so that it holds behind poolers too.
   */
  async begin(): Promise<void> {
    this.#isInTransaction = true
    await this.run(
      'BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;' +
        "SET LOCAL search_path = pg_catalog; SET LOCAL client_encoding = 'UTF8';" +
        "SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'iso_8601'; SET LOCAL TimeZone = 'UTC';" +
        "SET LOCAL extra_float_digits = 3; SET LOCAL bytea_output = 'hex'; SET LOCAL xmlbinary = 'base64';" +
        'SET LOCAL tcp_keepalives_idle = 30; SET LOCAL tcp_keepalives_interval = 10; SET LOCAL tcp_keepalives_count = 3;' +
        `SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; SET LOCAL statement_timeout = ${this.#catalogTimeoutMs};` +
        `SET LOCAL idle_in_transaction_session_timeout = ${this.#way.source.statementTimeoutMs}`,
    )
  }

  async rollback(): Promise<void> {
    await this.run('ROLLBACK')
    this.#isInTransaction = false
  }

  /** A statement without a result. */
  async run(sql: string): Promise<void> {
    await this.#exclusively(() => this.#client.query(sql))
  }

  async query<R extends QueryResultRow>(sql: string, values: readonly unknown[] = []): Promise<R[]> {
    const result = await this.#exclusively(() => this.#client.query<R>(sql, [...values]))
    return result.rows
  }

  /** Runs `COPY … TO STDOUT`; to be read to its end or followed by `close`. */
  async copyOut(sql: string, options: { readonly judged: boolean }): Promise<CopyOut> {
    await this.run(`SET LOCAL statement_timeout = ${this.#way.source.statementTimeoutMs}`)
    this.#signal.throwIfAborted()
    const copy = this.#client.query(new CopyOut(sql, options))
    this.#copy = copy
    return copy
  }

  /** Begins to read the log, of a session that is for it; ends with the session. */
  replicate(stream: LogStream): LogStream {
    this.#signal.throwIfAborted()
    this.#copy = stream
    return this.#client.query(stream)
  }

  /** Ends the session when the log is no longer read: the server lets go of its slot, and need not be told to by another line. */
  async endLog(stream: LogStream): Promise<void> {
    try {
      await within(this.#way.host.clock, NEVER, CANCEL_TIMEOUT_MS, (hurry) => orAbort(hurry, stream.leave()))
    } catch {
      // It does not listen now: what it does is cancelled.
    }
    await this.close()
  }

  /** May be called at any time and more than once; a statement that still runs is cancelled at the server. */
  close(): Promise<void> {
    this.#closing ??= this.#shut()
    return this.#closing
  }

  get #catalogTimeoutMs(): number {
    return Math.min(CATALOG_TIMEOUT_MS, this.#way.source.statementTimeoutMs)
  }

  async #exclusively<T>(work: () => Promise<T>): Promise<T> {
    this.#signal.throwIfAborted()
    this.#busy += 1
    try {
      return await work()
    } finally {
      this.#busy -= 1
    }
  }

  async #shut(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort)
    const running = this.#busy > 0 || this.#copy?.running === true
    try {
      if (running) await this.#cancel()
      else await within(this.#way.host.clock, NEVER, CANCEL_TIMEOUT_MS, (hurry) => orAbort(hurry, this.#client.end()))
    } catch {
      // The socket goes either way, and the server notices that too.
    } finally {
      this.#line.socket.destroy()
      this.#way.sessions.delete(this)
    }
  }

  /** Over a line of the same protection, since the key in it would let others cancel too. */
  async #cancel(): Promise<void> {
    const { processID, secretKey } = this.#client as unknown as Backend
    if (processID === null || secretKey === null) return
    const { source, host } = this.#way
    await within(host.clock, NEVER, CANCEL_TIMEOUT_MS, async (hurry) => {
      const to = { address: this.#line.address, family: this.#line.address.includes(':') ? 6 : 4 } as const
      const { socket } = await protect(await openTcp(to, source.port, hurry), to.address, source, hurry)
      try {
        await orAbort(hurry, sendAndWait(socket, cancelRequest(processID, secretKey)))
      } finally {
        socket.destroy()
      }
    })
  }
}

const NEVER = new AbortController().signal

function cancelRequest(processId: number, secretKey: number): Buffer {
  const packet = Buffer.alloc(16)
  packet.writeInt32BE(16, 0)
  packet.writeInt32BE(80877102, 4)
  packet.writeInt32BE(processId, 8)
  packet.writeInt32BE(secretKey, 12)
  return packet
}

/** The server closes the line once it has passed the request on. */
function sendAndWait(socket: Socket, packet: Buffer): Promise<void> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve())
    socket.resume()
    socket.end(packet)
  })
}
