/** The connections of a store: three logins, four pools. Nothing tenant-bound is ever left on one of them. */
import { type Health, type Host, SluiceError } from '@sluice/sdk'
import pg from 'pg'
import { storeError } from './driver-errors.ts'
import { FastReaders } from './fast-readers.ts'
import { wireOf } from './one-sync.ts'
import { type Login, parseLogin, type Settings } from './settings.ts'

/** Values are written and read in one notation whatever the server's defaults, and names are always qualified. */
const SESSION_OPTIONS = [
  '-c DateStyle=ISO,YMD',
  '-c TimeZone=UTC',
  '-c IntervalStyle=postgres',
  '-c bytea_output=hex',
  '-c extra_float_digits=1',
  '-c standard_conforming_strings=on',
  '-c search_path=pg_catalog',
  '-c client_min_messages=warning',
  '-c row_security=on',
].join(' ')

/** The statements of a batch see one state; nothing is written there, so nothing fails for it. */
const ONE_STATE = '-c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on'

/** A lost client is noticed in the middle of a statement, so that an abandoned read ends. */
const WATCH_CLIENT = '-c client_connection_check_interval=200'

const CONNECT_TIMEOUT_MS = 10_000

/** A fast read that takes longer is ended and started again where it holds nobody up. */
export const FAST_STATEMENT_TIMEOUT_MS = 1000

export type Client = pg.PoolClient

export interface Roles {
  readonly owner: string
  readonly writer: string
  readonly reader: string
}

export class Sessions {
  readonly roles: Roles
  readonly fast: FastReaders
  readonly #owner: pg.Pool
  readonly #writer: pg.Pool
  readonly #slow: pg.Pool
  readonly #running = new Set<Promise<unknown>>()
  #closing: Promise<void> | null = null
  #trouble: string | null = null

  private constructor(logins: Record<keyof Roles, Login>, settings: Settings, host: Host) {
    this.roles = { owner: logins.owner.user, writer: logins.writer.user, reader: logins.reader.user }
    const noteLoss = (error: unknown) => this.#note(storeError(error, 'an idle connection was lost').message)
    this.#owner = pool(logins.owner, 4, SESSION_OPTIONS, noteLoss)
    this.#writer = pool(logins.writer, settings.writers ?? 4, SESSION_OPTIONS, noteLoss)
    this.#slow = pool(logins.reader, settings.slow_readers ?? 8, `${SESSION_OPTIONS} ${WATCH_CLIENT}`, noteLoss)
    const timeout = `-c statement_timeout=${FAST_STATEMENT_TIMEOUT_MS}`
    const config = clientConfig(logins.reader, `${SESSION_OPTIONS} ${ONE_STATE} ${timeout}`)
    this.fast = new FastReaders(config, settings.fast_readers ?? 2, host.clock)
  }

  /** Logs in once as each role. Throws CONFIG `invalid_settings` or `login_refused`, TRANSIENT `store_unavailable`. */
  static async open(settings: Settings, host: Host): Promise<Sessions> {
    const logins = {
      owner: parseLogin('owner', settings.owner),
      writer: parseLogin('writer', settings.writer),
      reader: parseLogin('reader', settings.reader),
    }
    const sessions = new Sessions(logins, settings, host)
    try {
      for (const role of ['owner', 'writer', 'reader'] as const) {
        await sessions.use(role, `logging in as ${role}`, (client) => client.query('select 1'))
      }
      return sessions
    } catch (error) {
      await sessions.close()
      throw error
    }
  }

  /**
   * Runs with a connection of the role. When the signal fires the connection is destroyed: the server ends what it
   * was doing there, and nobody else ever uses it.
   */
  async use<T>(
    role: 'owner' | 'writer' | 'reader',
    doing: string,
    run: (client: Client) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    throwIfAborted(signal, doing)
    const client = await this.#connect(role, doing)
    const abandon = () => wireOf(client as unknown as pg.Client).stream.destroy()
    signal?.addEventListener('abort', abandon, { once: true })
    let failed = true
    try {
      throwIfAborted(signal, doing)
      const result = await run(client)
      failed = false
      this.#note(null)
      return result
    } catch (error) {
      throwIfAborted(signal, doing)
      throw this.#noted(storeError(error, doing))
    } finally {
      signal?.removeEventListener('abort', abandon)
      client.removeListener('error', ignore)
      client.release(failed)
    }
  }

  /** As `use`, in a transaction of which the tenant is part: begin, set the tenant, run, commit. */
  async transaction<T>(
    role: 'owner' | 'writer' | 'reader',
    tenant: string,
    doing: string,
    run: (client: Client) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    return await this.use(
      role,
      doing,
      async (client) => {
        await begin(client, tenant, role === 'reader' ? 'isolation level repeatable read read only' : '')
        const result = await run(client)
        await client.query('commit')
        return result
      },
      signal,
    )
  }

  health(): Health {
    if (this.#closing) return { status: 'down', message: 'the store is closed' }
    return this.#trouble === null ? { status: 'ok' } : { status: 'degraded', message: this.#trouble }
  }

  /** Refuses what comes after `close`; what runs already, `close` waits for. */
  async whileOpen<T>(doing: string, run: () => Promise<T>): Promise<T> {
    if (this.#closing) throw closed(doing)
    const running = run()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      await Promise.allSettled(this.#running)
      await Promise.all([this.#owner.end(), this.#writer.end(), this.#slow.end(), this.fast.close()])
    })()
    return this.#closing
  }

  async #connect(role: 'owner' | 'writer' | 'reader', doing: string): Promise<Client> {
    const chosen = { owner: this.#owner, writer: this.#writer, reader: this.#slow }[role]
    try {
      const client = await chosen.connect()
      // A loss while the client is out is told by the query that fails; unheard, the event would end the process.
      client.on('error', ignore)
      return client
    } catch (error) {
      throw this.#noted(storeError(error, doing))
    }
  }

  #noted(error: SluiceError): SluiceError {
    if (error.code === 'store_unavailable' || error.code === 'store_exhausted') this.#note(error.message)
    return error
  }

  #note(trouble: string | null): void {
    this.#trouble = trouble
  }
}

/**
 * Begins a transaction with the setting that every policy reads, for this transaction only, in one round trip. `settings`:
 * statements of the transaction's own, which take no value.
 */
export async function begin(client: Client, tenant: string, mode = '', settings = ''): Promise<void> {
  await client.query(`begin ${mode}; ${settings} set local app.tenant_id = ${client.escapeLiteral(tenant)}`)
}

function ignore(): void {}

function clientConfig(login: Login, options: string): pg.ClientConfig {
  return {
    ...login.config,
    options,
    application_name: 'sluice',
    client_encoding: 'UTF8',
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  }
}

function pool(login: Login, max: number, options: string, onError: (error: unknown) => void): pg.Pool {
  const made = new pg.Pool({ ...clientConfig(login, options), max, idleTimeoutMillis: 60_000 })
  made.on('error', onError)
  return made
}

function throwIfAborted(signal: AbortSignal | undefined, doing: string): void {
  if (!signal?.aborted) return
  throw new SluiceError('TRANSIENT', `${doing} was called off`, { code: 'aborted', cause: signal.reason })
}

function closed(doing: string): SluiceError {
  return new SluiceError('TRANSIENT', `${doing}: the store is closed`, { code: 'store_closed' })
}
