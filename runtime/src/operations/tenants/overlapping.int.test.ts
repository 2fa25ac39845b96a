/**
 * Two of the operations that change a tenant, its products and its connections, of which the second begins while the first is half
 * done: each ends as though it were alone, or is refused, and PostgreSQL has to end none of them.
 */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import type pg from 'pg'
import { until } from '../../../../test/until.ts'
import { CATALOG_MIGRATIONS } from '../../catalog/migrations.ts'
import { inTransaction } from '../../database/pools.ts'
import { eventMigrations } from '../../events/migrations.ts'
import { appendEvent, numberEvents, provisionTopics } from '../../events/outbox.ts'
import { LAKE_MIGRATIONS } from '../../lake/migrations.ts'
import { deleteConnection, lockConnection } from '../../registry/connections.ts'
import { beginDeletion, requireStays } from '../../registry/deletions.ts'
import { lockFence } from '../../registry/fences.ts'
import { lockPreviewed } from '../../registry/previews.ts'
import { deleteProduct, setPause } from '../../registry/products.ts'
import { lockClasses } from '../../registry/raw-classes.ts'
import { checkRun } from '../../registry/run-claims.ts'
import { enqueueRun } from '../../registry/runs.ts'
import type { Transaction } from '../../registry/sql.ts'
import { ANN, startTestRegistry } from '../../registry/testing.ts'
import { forgetTenant } from './tenants.ts'

const registry = await startTestRegistry([eventMigrations, LAKE_MIGRATIONS, CATALOG_MIGRATIONS])
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

interface World {
  readonly tenant: string
  readonly product: string
  readonly connection: string
  /** A worker has it. */
  readonly run: string
}

async function newWorld(): Promise<World> {
  const tenant = await registry.tenant()
  await inTransaction(pool, (tx) => provisionTopics(tx, tenant))
  const { id: product } = await registry.product(tenant)
  const { id: connection } = await registry.connection(tenant)
  const work = { tenant, kind: 'ingestion', connectionId: connection, trigger: 'manual', createdBy: ANN } as const
  const { id: run } = await enqueueRun(pool, work)
  await pool.query(
    `update runs set state = 'running', token = 1, worker_id = 'w', started_at = now(), lease_until = now() + interval '1 hour'
     where id = $1`,
    [run],
  )
  // With an epoch, of which the registry keeps a line for the name.
  await pool.query('update product_fences set epoch = 1 where product_id = $1', [product])
  return { tenant, product, connection, run }
}

const tells =
  (kind: 'deployment' | 'materialization' | 'ingestion') =>
  (tx: Transaction, { tenant, product }: World) =>
    appendEvent(tx, { tenant, kind, name: 'told', subject: product, traceparent: null })

type Step = (tx: Transaction, world: World) => Promise<unknown>

/** The steps of each operation, in the order of its transaction. */
const OPERATIONS: Readonly<Record<string, readonly Step[]>> = {
  'removal of the tenant': [(tx, { tenant }) => forgetTenant(tx, tenant)],
  'decision to delete the product': [
    (tx, { tenant }) => lockClasses(tx, tenant),
    (tx, { product }) => beginDeletion(tx, product),
  ],
  'deletion of the product': [
    (tx, { product }) => lockPreviewed(tx, product),
    (tx, { tenant, product }) => deleteProduct(tx, tenant, product),
    tells('deployment'),
  ],
  deployment: [
    (tx, { tenant }) => lockClasses(tx, tenant),
    (tx, { product }) => requireStays(tx, product),
    (tx, { product }) => setPause(tx, product, null),
    (tx, { tenant, product }) =>
      enqueueRun(tx, { tenant, kind: 'materialization', productId: product, trigger: 'deploy', createdBy: ANN }),
    tells('deployment'),
  ],
  rollback: [
    (tx, { tenant }) => lockClasses(tx, tenant),
    (tx, { product }) => requireStays(tx, product),
    (tx, { product }) =>
      setPause(tx, product, { reason: 'rollback', version: '1.0.0', since: '2026-01-01T00:00:00.000Z' } as never),
    tells('deployment'),
  ],
  'commit of an epoch': [(tx, { product }) => lockFence(tx, product), tells('materialization')],
  'commit of a sync': [
    (tx, { run }) => checkRun(tx, { runId: run, token: 1n } as never),
    (tx, { connection }) => tx.query('update connections set updated_at = now() where id = $1', [connection]),
    tells('ingestion'),
  ],
  sync: [
    (tx, { tenant, connection }) =>
      enqueueRun(tx, { tenant, kind: 'ingestion', connectionId: connection, trigger: 'manual', createdBy: ANN }),
    tells('ingestion'),
  ],
  'deletion of the connection': [
    (tx, { tenant }) => lockClasses(tx, tenant),
    (tx, { tenant, connection }) => lockConnection(tx, tenant, connection),
    (tx, { tenant, connection }) => deleteConnection(tx, tenant, connection),
    tells('ingestion'),
  ],
  'numbering of events': [(tx, { tenant }) => numberEvents(tx, tenant)],
}

async function isWaiting(pid: number): Promise<boolean> {
  const { rows } = await pool.query<{ waits: boolean }>(
    `select wait_event_type is not distinct from 'Lock' as waits from pg_stat_activity where pid = $1`,
    [pid],
  )
  return rows[0]?.waits ?? false
}

const pidOf = async (tx: pg.PoolClient): Promise<number> =>
  (await tx.query('select pg_backend_pid() as pid')).rows[0].pid

/** The second one whole, while the first stands still after each of its steps. */
async function overlap(first: readonly Step[], second: readonly Step[], world: World): Promise<readonly unknown[]> {
  const errors: unknown[] = []
  const keep = (error: unknown) => errors.push(error)
  let other: Promise<unknown> | null = null
  await inTransaction(pool, async (tx) => {
    for (const [at, step] of first.entries()) {
      await step(tx, world)
      if (at !== 0) continue
      const { promise: known, resolve } = Promise.withResolvers<number>()
      let isOver = false
      other = inTransaction(pool, async (beside) => {
        resolve(await pidOf(beside))
        for (const one of second) await one(beside, world)
      })
        .catch(keep)
        .finally(() => {
          isOver = true
        })
      const pid = await known
      await until('the second one waits or has ended', async () => isOver || (await isWaiting(pid)))
    }
  }).catch(keep)
  await other
  return errors
}

const REFUSALS: readonly string[] = ['CONFLICT', 'INVALID_DATA', 'FENCED']

describe('operations that overlap', () => {
  for (const [one, first] of Object.entries(OPERATIONS)) {
    it(`${one}, and each of the others in the middle of it`, async () => {
      for (const [other, second] of Object.entries(OPERATIONS)) {
        for (const error of await overlap(first, second, await newWorld())) {
          const isRefused = isSluiceError(error) && REFUSALS.includes(error.kind) && error.code !== 'database_conflict'
          assert.ok(isRefused, `${one}, with ${other} in the middle of it: ${String(error)}`)
        }
      }
    })
  }

  it('were ended by PostgreSQL never', async () => {
    const { rows } = await pool.query('select deadlocks::int from pg_stat_database where datname = current_database()')
    assert.deepEqual(rows, [{ deadlocks: 0 }])
  })
})
