/** One login for one call, or for all reads of one moment: a read-only transaction, then closed. Nothing outlives it. */
import type { ConnectorHost } from '@sluice/sdk'
import { orAbort, within } from '../server/deadline.ts'
import { openTcp } from '../server/line.ts'
import type { Source } from '../server/settings.ts'
import type { Moment } from './moment.ts'
import { type Greeted, greeted, logIn } from './wire/greeting.ts'
import { Garbled, type Packets } from './wire/packets.ts'
import { isEnd, isJson, openResult, sendQuit, sendStatement, smallResult } from './wire/result.ts'

/** How long an ended call waits for the server to hear of it. */
const CANCEL_TIMEOUT_MS = 500
const CATALOG_TIMEOUT_S = 30
const LOCK_TIMEOUT_S = 10
/** Of a list of numbers: 8,192 partitions, which is as many as a table can have, with 20 digits and a comma each. */
const NAMED_BYTES = 8192 * 21
const NEVER = new AbortController().signal

export interface Way {
  readonly source: Source
  readonly host: ConnectorHost
  /** The sessions that are open, for whoever has to close them all. */
  readonly sessions: Set<Session>
  /** Of all reads; null: each has its own. */
  readonly moment: Moment | null
}

export type SmallRow = readonly (string | null)[]

export async function openSession(way: Way, signal: AbortSignal): Promise<Session> {
  return within(way.host.clock, signal, way.source.connectTimeoutMs, async (hurry) =>
    login(way, await openLine(way, hurry), signal, hurry),
  )
}

/** Resolves, connects and protects; the three steps that a check reports one by one. */
async function openLine({ source, host }: Way, signal: AbortSignal): Promise<Greeted> {
  const to = await host.network.resolve(source.host, source.port, signal)
  return greeted(await openTcp(to, source.port, signal), to.address, source, signal)
}

/** Logs in over the line, and destroys it when that fails. `signal` ends the session, `hurry` only the login. */
export async function login(way: Way, to: Greeted, signal: AbortSignal, hurry = signal): Promise<Session> {
  try {
    await orAbort(hurry, logIn(to, loginOf(way, to)))
    const session = new Session(way, to, signal)
    await orAbort(hurry, session.prepare())
    return session
  } catch (error) {
    to.line.socket.destroy()
    throw error
  }
}

function loginOf({ source, host }: Way, { line }: Greeted) {
  const { user, database, password } = source
  const sendsPassword = line.protection === 'verified' || host.network.allowsCleartextPassword(line.address)
  return { user, database, password, sendsPassword }
}

export class Session {
  readonly #way: Way
  readonly #to: Greeted
  readonly #signal: AbortSignal
  #busy = 0
  #closing: Promise<void> | null = null
  readonly #onAbort = () => void this.close()
  /** Seconds that the oldest open transaction that may write had been open when this one began; null where the login may not see that. */
  openSinceS: number | null = null

  constructor(way: Way, to: Greeted, signal: AbortSignal) {
    this.#way = way
    this.#to = to
    this.#signal = signal
    way.sessions.add(this)
    signal.addEventListener('abort', this.#onAbort, { once: true })
    if (signal.aborted) this.#onAbort()
  }

  get serverVersion(): string {
    return this.#to.greeting.version.replace(/^5\.5\.5-(?=1\d)/, '')
  }

  get isMariaDb(): boolean {
    return /mariadb/i.test(this.#to.greeting.version)
  }

  /** Nothing that was set for the login or the server changes how values are written or statements are understood. */
  async prepare(): Promise<void> {
    const { statementTimeoutMs } = this.#way.source
    const patienceS = Math.ceil(statementTimeoutMs / 1000)
    await this.run('SET NAMES utf8mb4')
    await this.run(
      `SET SESSION sql_mode = '', time_zone = '+00:00', sql_select_limit = 18446744073709551615, sql_big_selects = 1,
        group_concat_max_len = ${NAMED_BYTES}, lock_wait_timeout = ${LOCK_TIMEOUT_S}, net_write_timeout = ${patienceS}, wait_timeout = ${patienceS + 60}`,
    )
    if (this.isMariaDb)
      await this.run('SET SESSION idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0')
    await this.#limit(Math.min(CATALOG_TIMEOUT_S, patienceS))
    await this.run('SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ')
  }

  /** Starts the transaction in which every statement sees the same instant. */
  async begin(): Promise<void> {
    // Asked before the instant: whoever is open afterwards has begun after this, or is older than what is said here.
    this.openSinceS = await this.#oldestTransactionS()
    await this.run('START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY')
  }

  /** A statement without a result. */
  async run(sql: string): Promise<void> {
    await this.query(sql)
  }

  /** A statement whose result is small. */
  async query(sql: string): Promise<readonly SmallRow[]> {
    return this.#exclusively(async (packets) => {
      sendStatement(packets, sql)
      return smallResult(packets)
    })
  }

  /** Of these expressions of a statement that gives no row, those that are JSON. */
  async jsonAmong(columns: readonly string[], from: string): Promise<readonly boolean[]> {
    if (!this.#to.greeting.tellsFormats) return columns.map(() => false)
    return this.#exclusively(async (packets) => {
      sendStatement(packets, `SELECT ${columns.join(', ')} FROM ${from} LIMIT 0`)
      const found = (await openResult(packets)).map(isJson)
      if (!isEnd(await packets.next())) throw new Garbled('rows that nobody asked for')
      return found
    })
  }

  /** Whether the login may see the engine's tables and everybody's transactions (PROCESS). */
  async seesEngine(): Promise<boolean> {
    return (await this.#oldestTransactionS()) !== null
  }

  /** Runs the statement that reads rows, for `take` to consume to their end. */
  async *stream<Item>(
    sql: string,
    columns: number,
    take: (packets: Packets) => AsyncIterable<Item>,
  ): AsyncGenerator<Item> {
    await this.#limit(Math.ceil(this.#way.source.statementTimeoutMs / 1000))
    this.#signal.throwIfAborted()
    const { packets } = this.#to
    // Stays busy where the rows are left in the middle: what is then closed is cancelled first.
    this.#busy += 1
    sendStatement(packets, sql)
    if ((await openResult(packets)).length !== columns)
      throw new Garbled('another number of columns than was asked for')
    yield* take(packets)
    this.#busy -= 1
    await this.#limit(CATALOG_TIMEOUT_S)
  }

  /** May be called at any time and more than once; a statement that still runs is ended at the server. */
  close(): Promise<void> {
    this.#closing ??= this.#shut()
    return this.#closing
  }

  async #oldestTransactionS(): Promise<number | null> {
    try {
      const [row] = await this.query(
        `SELECT CEILING(COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(trx_started), NOW(6)), 0) / 1000000)
         FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id <> CONNECTION_ID() AND trx_is_read_only = 0`,
      )
      return Math.max(0, Number(row?.[0] ?? 0)) || 0
    } catch (error) {
      if ((error as { errno?: unknown }).errno === NEEDS_PRIVILEGE) return null
      throw error
    }
  }

  /** Of each statement: both products have it, by other names and units. */
  async #limit(seconds: number): Promise<void> {
    await this.run(
      this.isMariaDb
        ? `SET SESSION max_statement_time = ${seconds}`
        : `SET SESSION max_execution_time = ${Math.min(seconds * 1000, 0x7fffffff)}`,
    )
  }

  async #exclusively<T>(work: (packets: Packets) => Promise<T>): Promise<T> {
    this.#signal.throwIfAborted()
    this.#busy += 1
    const result = await work(this.#to.packets).catch((error: unknown) => {
      // The server has answered, and waits for the next statement; whatever else it was, the line is of no use.
      if ((error as { name?: unknown }).name !== 'ServerError') this.#to.line.socket.destroy()
      this.#busy -= 1
      throw error
    })
    this.#busy -= 1
    return result
  }

  async #shut(): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort)
    const { line, packets } = this.#to
    try {
      if (line.socket.destroyed) return
      if (this.#busy > 0) await this.#cancel()
      else sendQuit(packets)
    } catch {
      // The socket goes either way, and the server notices that too.
    } finally {
      if (this.#busy > 0) line.socket.destroy()
      else line.socket.end(() => line.socket.destroy())
      this.#way.sessions.delete(this)
    }
  }

  /** By another login: a server that sorts or waits does not notice that nobody listens any more. */
  async #cancel(): Promise<void> {
    const { connectionId } = this.#to.greeting
    await within(this.#way.host.clock, NEVER, CANCEL_TIMEOUT_MS, async (hurry) => {
      const other = await openLine(this.#way, hurry)
      try {
        await orAbort(hurry, logIn(other, loginOf(this.#way, other)))
        sendStatement(other.packets, `KILL ${connectionId}`)
        await orAbort(hurry, smallResult(other.packets))
      } finally {
        other.line.socket.destroy()
      }
    })
  }
}

/** ER_SPECIFIC_ACCESS_DENIED_ERROR */
const NEEDS_PRIVILEGE = 1227
