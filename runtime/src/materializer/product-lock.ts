import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'

const POLL_MS = 200

/** Runs `work` where nobody else has the product now; null where somebody has. */
export async function ifProductIsFree<T>(pool: pg.Pool, productId: string, work: () => Promise<T>): Promise<T | null> {
  const client = await pool.connect()
  try {
    return (await tryLock(client, productId)) ? await work() : null
  } finally {
    await unlock(client)
  }
}

/**
 * Runs `work` while no other process materializes the product: a lock of the registry's database that ends with its
 * connection, so a process that dies leaves none behind. It keeps work from being done twice; that nothing wrong is
 * committed is the fence's part.
 */
export async function withProductLock<T>(
  pool: pg.Pool,
  productId: string,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  try {
    await lockUntil(client, productId, Number.POSITIVE_INFINITY, signal)
    return await work()
  } finally {
    await unlock(client)
  }
}

/**
 * Runs `work` where nobody else has the product, or after `waitMs` beside whoever has. For removals, which have fenced all
 * runs off before: only one that was writing to stores already goes on with it, and is waited for.
 */
export async function afterWriters<T>(
  pool: pg.Pool,
  productId: string,
  waitMs: number,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  try {
    await lockUntil(client, productId, performance.now() + waitMs, signal)
    return await work()
  } finally {
    await unlock(client)
  }
}

/** Whoever waits has it in the end, or goes on without it. */
async function lockUntil(
  client: pg.PoolClient,
  productId: string,
  untilMs: number,
  signal: AbortSignal,
): Promise<void> {
  while (!(await tryLock(client, productId)) && performance.now() < untilMs) {
    signal.throwIfAborted()
    await sleep(POLL_MS)
  }
}

function unlock(client: pg.PoolClient): Promise<void> {
  return client.query('select pg_advisory_unlock_all()').then(
    () => client.release(),
    () => client.release(true),
  )
}

async function tryLock(client: pg.PoolClient, productId: string): Promise<boolean> {
  const { rows } = await client.query('select pg_try_advisory_lock(hashtextextended($1, 7)) as locked', [productId])
  return (rows[0] as { locked: boolean }).locked
}
