/**
 * Connections to PostgreSQL: bounded pools, and transactions that end.
 *
 * Every setting is given explicitly, because the driver fills what is missing from the PG* environment, and a stray
 * PGOPTIONS or PGSSLMODE must not change what the runtime does.
 */
import pg from 'pg'
import type { DatabaseAddress, TlsMode } from './address.ts'
import { isSerializationFailure, toDatabaseError } from './errors.ts'

/** What a repository function needs: a pool for one statement, a client to join a transaction. */
export type Queryable = pg.Pool | pg.ClientBase

export interface PoolOptions {
  /** Shown in pg_stat_activity: which part of the runtime holds the connection. */
  readonly applicationName: string
  /** Most connections at once. Default 10. */
  readonly maxConnections?: number
  /** How long a caller waits for a free connection before a TRANSIENT error. Default 10 s. */
  readonly connectTimeoutMs?: number
  /** How long one statement may run on the server. Default 30 s; 0 is unbounded. */
  readonly statementTimeoutMs?: number
  /**
   * How long a caller waits for the answer to one statement. Default: 5 s longer than the server may take for it, so that
   * it is over even where the server says nothing any more; unbounded where that is.
   */
  readonly answerTimeoutMs?: number
  /** How long a transaction may sit between two statements before the server ends it. Default 60 s. */
  readonly idleInTransactionTimeoutMs?: number
  /** How long an unused connection stays open; each is a process of some MiB at the server. Default 10 s. */
  readonly idleTimeoutMs?: number
  /** Called when an idle connection breaks; the pool replaces it by itself. */
  readonly onIdleError?: (error: Error) => void
}

const DEFAULTS = {
  maxConnections: 10,
  connectTimeoutMs: 10_000,
  statementTimeoutMs: 30_000,
  idleInTransactionTimeoutMs: 60_000,
  idleTimeoutMs: 10_000,
} as const

/** On the way of an answer, after the server's own limit. */
const ANSWER_MARGIN_MS = 5000
/** To give up a transaction whose connection may be dead. */
const ROLLBACK_TIMEOUT_MS = 2000

/** A bounded pool. It does not connect by itself, and an idle one does not keep the process alive. */
export function openPool(address: DatabaseAddress, options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    ...clientConfig(address, options),
    max: options.maxConnections ?? DEFAULTS.maxConnections,
    idleTimeoutMillis: options.idleTimeoutMs ?? DEFAULTS.idleTimeoutMs,
    allowExitOnIdle: true,
  })
  // Without a listener the loss of an idle connection would end the process.
  pool.on('error', (error) => options.onIdleError?.(error))
  // The pool listens only while a connection is idle; whoever holds one hears of its loss by the statement that fails.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** The driver's settings for one connection, complete enough that it looks up nothing in the environment. */
export function clientConfig(address: DatabaseAddress, options: PoolOptions): pg.ClientConfig {
  const statementTimeoutMs = options.statementTimeoutMs ?? DEFAULTS.statementTimeoutMs
  const answerTimeoutMs =
    options.answerTimeoutMs ?? (statementTimeoutMs === 0 ? 0 : statementTimeoutMs + ANSWER_MARGIN_MS)
  const idleInTransactionMs = options.idleInTransactionTimeoutMs ?? DEFAULTS.idleInTransactionTimeoutMs
  const config = {
    host: address.host,
    port: address.port,
    database: address.database,
    user: address.user,
    // An empty password would send the driver to PGPASSWORD and ~/.pgpass; a function is asked instead.
    password: () => address.password,
    ssl: tlsConfig(address.tls),
    sslnegotiation: 'postgres',
    application_name: options.applicationName,
    client_encoding: 'UTF8',
    // The driver takes PGREPLICATION for a missing value, so "no" is said in words.
    replication: 'false',
    connectionTimeoutMillis: options.connectTimeoutMs ?? DEFAULTS.connectTimeoutMs,
    keepAlive: true,
    statement_timeout: statementTimeoutMs,
    // 0 would be taken for none given; so is what is left out.
    ...(answerTimeoutMs === 0 ? {} : { query_timeout: answerTimeoutMs }),
    options: optionsOf({ ...SESSION, idle_in_transaction_session_timeout: String(idleInTransactionMs) }),
  }
  return config as pg.ClientConfig
}

/**
 * What an operator may have set for a role or a database that others use, too: statements would find other tables, end too soon,
 * or show values in another form. What a whole server must not do, as writing, stays as it says.
 */
const SESSION: Readonly<Record<string, string>> = {
  // The server looks every two seconds whether its client is still there, so that an abandoned statement ends.
  client_connection_check_interval: '2000',
  search_path: '"$user", public',
  lock_timeout: '0',
  // Whoever listens says nothing for hours.
  idle_session_timeout: '0',
  default_transaction_isolation: 'read committed',
  standard_conforming_strings: 'on',
  row_security: 'on',
  // Without it a null in a list that is sent is the text NULL.
  array_nulls: 'on',
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
}

const optionsOf = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
    .join(' ')

function tlsConfig(tls: TlsMode): false | { rejectUnauthorized: boolean } {
  if (tls === 'disable') return false
  return { rejectUnauthorized: tls === 'verify-full' }
}

export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export interface TransactionOptions {
  /** Default `read committed`. */
  readonly isolation?: Isolation
  readonly readOnly?: boolean
  /** Ends the transaction: its connection is closed, the server rolls back. Ignored once COMMIT has been sent. */
  readonly signal?: AbortSignal
  /** How often the whole function is run again after a serialization failure or a deadlock. Default 0. */
  readonly retries?: number
}

/**
 * Runs `work` in one transaction: commits what it returns from, rolls back what it throws from. With `retries` the
 * function may run several times, so it must do nothing but database work. A driver's error comes out as a SluiceError;
 * an abort as the signal's reason.
 */
export async function inTransaction<T>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<T>,
  options: TransactionOptions = {},
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await runOnce(pool, work, options)
    } catch (error) {
      if (options.signal?.aborted) throw options.signal.reason
      if (attempt < (options.retries ?? 0) && isSerializationFailure(error)) continue
      throw error instanceof Error && 'severity' in error ? toDatabaseError(error, 'changing the registry') : error
    }
  }
}

async function runOnce<T>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<T>,
  options: TransactionOptions,
): Promise<T> {
  options.signal?.throwIfAborted()
  const client = await connect(pool)
  const abort = (): void => endConnection(client)
  options.signal?.addEventListener('abort', abort, { once: true })
  let broken: Error | undefined
  try {
    options.signal?.throwIfAborted()
    await client.query(beginStatement(options))
    const result = await work(client)
    options.signal?.throwIfAborted()
    options.signal?.removeEventListener('abort', abort)
    await commit(client)
    return result
  } catch (error) {
    options.signal?.removeEventListener('abort', abort)
    broken = await rollback(client)
    throw error
  } finally {
    client.release(broken)
  }
}

/** Whether the database is a standby, or set to read only. */
export async function takesNoWrites(db: Queryable): Promise<boolean> {
  try {
    const { rows } = await (db as pg.Pool).query<{ setting: string }>(
      "select current_setting('transaction_read_only') as setting",
    )
    return rows[0]?.setting === 'on'
  } catch (error) {
    throw toDatabaseError(error, 'asking whether it takes writes')
  }
}

async function connect(pool: pg.Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect()
  } catch (error) {
    throw toDatabaseError(error, 'connecting')
  }
}

function beginStatement(options: TransactionOptions): string {
  return `begin isolation level ${options.isolation ?? 'read committed'}${options.readOnly ? ' read only' : ''}`
}

/** COMMIT of a transaction in which a statement failed answers ROLLBACK without an error: that is no success. */
async function commit(client: pg.PoolClient): Promise<void> {
  const result = await client.query('commit')
  if (result.command !== 'COMMIT') {
    throw toDatabaseError(new Error('the server rolled back at commit'), 'committing a transaction')
  }
}

/** Leaves the connection clean, or tells why it must not return to the pool. */
async function rollback(client: pg.PoolClient): Promise<Error | undefined> {
  try {
    await client.query({ text: 'rollback', query_timeout: ROLLBACK_TIMEOUT_MS } as pg.QueryConfig)
    return undefined
  } catch (error) {
    endConnection(client)
    return error instanceof Error ? error : new Error('rollback failed')
  }
}

/** Closes the socket under a running statement; its promise rejects, and the server notices within two seconds. */
function endConnection(client: pg.PoolClient): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
  connection.stream.destroy()
}
