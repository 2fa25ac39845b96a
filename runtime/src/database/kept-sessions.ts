/**
 * Whether a connection to the database is one session of it. A pooler between (PgBouncer in its modes `transaction` and
 * `statement`) gives each transaction another one: locks that belong to a session are left behind in it, so that a product would
 * never be made again, no notification arrives, and what a session was set to is another client's or nobody's.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { DatabaseAddress } from './address.ts'
import { toDatabaseError } from './errors.ts'
import { openPool } from './pools.ts'

const SETTINGS_AND_SESSION =
  "select pg_backend_pid() as session, current_setting('client_connection_check_interval') <> '0' as settings"
/** Where all sessions of a pooler are in use, one more waits for minutes. */
const LIMIT_MS = 15_000

/**
 * Gives whether sessions begin with what they are asked to. Throws CONFIG `database_pooled` where a connection is not one of them,
 * and as statements do where the database does not answer.
 */
export async function checkSessions(address: DatabaseAddress): Promise<{ readonly keepSettings: boolean }> {
  const pool = openPool(address, { applicationName: 'sluice', maxConnections: 2, statementTimeoutMs: LIMIT_MS })
  try {
    return await withClient(pool, (one) => withClient(pool, (other) => compared(one, other)))
  } catch (error) {
    throw isSluiceError(error) ? error : inWords(error)
  } finally {
    await pool.end()
  }
}

type Asked = Pick<pg.ClientBase, 'query'>

async function withClient<T>(pool: pg.Pool, work: (client: Asked) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    return await work(client)
  } finally {
    client.release(true)
  }
}

async function compared(one: Asked, other: Asked): Promise<{ readonly keepSettings: boolean }> {
  // A pooler gives the next of the free ones, which the second answer shows, or the newest: then the other has the first's.
  const answers = [await asked(one), await asked(one)]
  await other.query('begin')
  const kept = await asked(other)
  const last = await asked(one).catch((cause: unknown) => {
    // Whatever else fails, as a server that is being restarted, says nothing of poolers.
    throw HAS_WAITED.test((cause as Error).message)
      ? pooled('one connection waits for the transaction of another', cause)
      : cause
  })
  const [first, ...later] = [...answers, last].map(({ session }) => session)
  if (kept.session === first || later.some((session) => session !== first)) throw pooled(SHARED)
  return { keepSettings: kept.settings }
}

async function asked(db: Asked) {
  const { rows } = await db.query<{ session: number; settings: boolean }>(SETTINGS_AND_SESSION)
  return rows[0] as { readonly session: number; readonly settings: boolean }
}

/** What the driver says, and PgBouncer. */
const HAS_WAITED = /query read timeout|query_wait_timeout/i

const SHARED = 'it gives each transaction another session'

/** PgBouncer's own words: of parameters that it is not told to let go by, and of its mode `statement`. */
const POOLERS_WORDS = /unsupported startup parameter|pooling mode/

function inWords(error: unknown): SluiceError {
  const { message } = error as Error
  return POOLERS_WORDS.test(message)
    ? pooled('it takes not all that is said to PostgreSQL', error)
    : toDatabaseError(error, 'connecting')
}

function pooled(why: string, cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', `a pooler stands before the database: ${why}`, {
    code: 'database_pooled',
    remedy:
      'Name PostgreSQL itself, its own host and port, in database.registry_url: the runtime has a pool of its own, of 30 connections.',
    cause,
  })
}
