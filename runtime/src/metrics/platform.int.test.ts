import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { Registry } from 'prom-client'
import { inTransaction } from '../database/pools.ts'
import { eventMigrations } from '../events/migrations.ts'
import { appendEvent, numberEvents, provisionTopics } from '../events/outbox.ts'
import { acquireRelay, enlistTenants, moveRelay } from '../events/relay-positions.ts'
import { startRegistryLake } from '../lake/testing.ts'
import { createConnection } from '../registry/connections.ts'
import { registryMigrations } from '../registry/migrations.ts'
import { enqueueRun } from '../registry/runs.ts'
import { createTenant, setTenantStatus } from '../registry/tenants.ts'
import { ANN } from '../registry/testing.ts'
import { changeMetrics } from './changes.ts'
import { platformMetrics } from './platform.ts'

const world = await startRegistryLake([registryMigrations, eventMigrations])
after(() => world[Symbol.asyncDispose]())
const { pool } = world

async function valuesOf(registry: Registry): Promise<ReadonlyMap<string, number>> {
  const lines = (await registry.metrics()).matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)
  return new Map([...lines].map(([, name, value]) => [name as string, Number(value)]))
}

it('are all there from the start, with 0', async () => {
  const registry = new Registry()
  platformMetrics(registry, pool)
  changeMetrics(registry, pool)
  const values = await valuesOf(registry)
  for (const name of ['relay_events_waiting{relay="kafka"}', 'change_epochs_behind{variant="clear"}']) {
    assert.equal(values.get(`sluice_${name}`), 0, name)
  }
  const own = [...values].filter(([name]) =>
    /^sluice_(runs|products|endpoints|events|schedules|upkeep|tenants|relay|change)/.test(name),
  )
  assert.ok(own.length > 25, `${own.length}`)
  assert.deepEqual(
    own.filter(([, value]) => value !== 0),
    [],
  )
  assert.equal(values.get('sluice_registry_up'), 1)
  for (const name of [
    'process_cpu_seconds_total',
    'nodejs_eventloop_lag_p99_seconds',
    'process_resident_memory_bytes',
  ]) {
    assert.ok(values.has(name), name)
  }
})

it('count what the registry has, and what has ended here', async () => {
  const registry = new Registry()
  const ended = platformMetrics(registry, pool)
  await inTransaction(pool, (tx) => createTenant(tx, { slug: 'acme', displayName: 'Acme', tier: 'free' }))
  await setTenantStatus(pool, 'acme', 'active')
  const { id: connectionId } = await inTransaction(pool, (tx) =>
    createConnection(tx, { tenant: 'acme', name: 'db', connectorType: 'postgresql', config: {}, createdBy: ANN }),
  )
  await enqueueRun(pool, { tenant: 'acme', kind: 'ingestion', connectionId, trigger: 'manual', createdBy: ANN })
  await pool.query(`update runs set available_at = now() - interval '1 hour'`)
  await pool.query(`insert into lake_upkeep (catalog_name, task, lease_until, started_at, finished_at)
    values ('acme', 'expire', now(), now(), now() - interval '2 days')`)
  await pool.query(`insert into cpu_budgets (tenant, used_s, counted_at, spent_until)
    values ('acme', 7200, now(), now() + interval '1 hour')`)
  await pool.query(`insert into runs (id, tenant, kind, connection_id, state, trigger, created_by, finished_at)
    select 'run_failed', tenant, kind, connection_id, 'failed', trigger, created_by, now() from runs`)
  await pool.query(
    `insert into schedules (id, tenant, connection_id, schedule, created_by, token_issued_at, since, ticked_at, next_run_at, may_sync)
     values ($1, 'acme', $1, '{}', '{}', now(), now() - interval '1 hour', now(), now(), false)`,
    [connectionId],
  )
  ended('ingestion', 'failed')
  const values = await valuesOf(registry)
  assert.equal(values.get('sluice_runs{kind="ingestion",state="queued"}'), 1)
  assert.equal(values.get('sluice_runs{kind="materialization",state="queued"}'), 0)
  assert.equal(values.get('sluice_runs_ended_total{kind="ingestion",state="failed"}'), 1)
  assert.ok(Number(values.get('sluice_runs_oldest_wait_seconds{kind="ingestion"}')) >= 3600)
  assert.ok(Number(values.get('sluice_upkeep_age_seconds{task="expire"}')) >= 172_800)
  assert.equal(values.get('sluice_upkeep_age_seconds{task="clean"}'), 0)
  assert.equal(values.get('sluice_tenants_out_of_cpu_time'), 1)
  for (const state of ['set', 'failing', 'right_lost']) {
    assert.equal(values.get(`sluice_schedules{of="connection",state="${state}"}`), 1, state)
    assert.equal(values.get(`sluice_schedules{of="product",state="${state}"}`), 0, state)
  }
})

it('say how far a relay of events is behind, numbered or not, and of how long ago the oldest is', async () => {
  const registry = new Registry()
  platformMetrics(registry, pool)
  const tenant = (slug: string) =>
    inTransaction(pool, (tx) => createTenant(tx, { slug, displayName: slug, tier: 'free' }))
  const write = (slug: string, age: string) =>
    inTransaction(pool, async (tx) => {
      await appendEvent(tx, { tenant: slug, kind: 'tenant', name: 'updated', subject: slug, data: {} })
      await tx.query(`update events set at = now() - $2::interval where tenant = $1 and sequence is null`, [slug, age])
    })
  for (const slug of ['one', 'two', 'new']) {
    await tenant(slug)
    await setTenantStatus(pool, slug, 'active')
    await inTransaction(pool, (tx) => provisionTopics(tx, slug))
  }
  await enlistTenants(pool, 'kafka')
  await write('one', '3 hours')
  await inTransaction(pool, (tx) => numberEvents(tx, 'one'))
  const lease = await acquireRelay(pool, 'kafka', 'me', 60_000)
  await inTransaction(pool, (tx) => moveRelay(tx, lease as NonNullable<typeof lease>, { tenant: 'one', sequence: 1 }))
  await write('one', '2 hours')
  await inTransaction(pool, (tx) => numberEvents(tx, 'one'))
  await write('one', '1 minute')
  await write('two', '1 hour')
  const values = await valuesOf(registry)
  assert.equal(values.get('sluice_relay_events_waiting{relay="kafka"}'), 3)
  const oldestS = Number(values.get('sluice_relay_oldest_event_seconds{relay="kafka"}'))
  assert.ok(oldestS >= 7200 && oldestS < 10_800, `${oldestS}`)
})
