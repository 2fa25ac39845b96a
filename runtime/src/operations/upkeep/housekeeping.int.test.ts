/** That what only grows is pruned by the clock; what goes and what stays is tested where it is decided. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { eventMigrations } from '../../events/migrations.ts'
import type { Job } from '../../jobs/claims.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import type { UpkeepDeps } from './deps.ts'
import { housekeeping } from './housekeeping.ts'

const registry = await startTestRegistry([eventMigrations])
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

it('runs and what was not published go by the bounds of the configuration', async () => {
  const tenant = await registry.tenant()
  const connection = await registry.connection(tenant)
  const product = await registry.product(tenant)
  await pool.query(
    `insert into runs (id, tenant, kind, connection_id, trigger, state, created_by, created_at, finished_at)
     select 'run_' || n, $1, 'ingestion', $2, 'schedule', 'succeeded', '{}', at, at
     from generate_series(1, 40) n, lateral (select now() - make_interval(hours => n + 30) as at) t`,
    [tenant, connection.id],
  )
  await pool.query(
    `insert into materializations (id, tenant, product_id, kind, state, version, digest, committed_at)
     select 'mat_' || n, $1, $2, 'materialize', 'blocked', '1.0.0', 'd', now() - make_interval(hours => n * 20) from generate_series(1, 3) n`,
    [tenant, product.id],
  )
  const minutes = { expire_minutes: 0, compact_minutes: 0, clean_minutes: 0, prune_minutes: 15 }
  const upkeep = { ...minutes, quarantine_days: 30, run_days: 1, run_most: 25 }
  const platform = { pool, config: { upkeep }, connectorHost: { network: {} } } as unknown as UpkeepDeps
  const limits = { memoryBytes: 1, timeoutMs: 1, threads: 1 }
  const prune = housekeeping(platform, limits).kinds.find(({ kind }) => kind === 'upkeep.prune')
  const left = async () => {
    await prune?.work({ key: '' } as Job, new AbortController().signal)
    const { rows } = await pool.query(
      'select (select count(*)::int from runs) as runs, (select count(*)::int from materializations) as attempts',
    )
    return rows
  }
  // Nothing is as old as a database says whose clock is ahead; what is too much goes all the same, and so does what is older.
  const { now } = Date
  Date.now = () => now() - 48 * 3_600_000
  try {
    assert.deepEqual(await left(), [{ runs: 25, attempts: 3 }])
    await pool.query("update materializations set committed_at = now() - interval '73 hours' where id = 'mat_3'")
    assert.deepEqual(await left(), [{ runs: 25, attempts: 2 }])
  } finally {
    Date.now = now
  }
  assert.deepEqual(await left(), [{ runs: 20, attempts: 1 }])
})
