import assert from 'node:assert/strict'
import { after, beforeEach, it } from 'node:test'
import { CATALOG_MIGRATIONS } from '../../catalog/migrations.ts'
import { DASHBOARD_MIGRATIONS } from '../../dashboards/migrations.ts'
import { inTransaction } from '../../database/pools.ts'
import { eventMigrations } from '../../events/migrations.ts'
import { claimJobs, expectJob, renewJob } from '../../jobs/claims.ts'
import { LAKE_MIGRATIONS } from '../../lake/migrations.ts'
import { RateBuckets } from '../../registry/rate-buckets.ts'
import { enqueueRun } from '../../registry/runs.ts'
import { ANN, startTestRegistry } from '../../registry/testing.ts'
import { clockFollower, SOONER } from './clock-set-back.ts'

const registry = await startTestRegistry([eventMigrations, LAKE_MIGRATIONS, CATALOG_MIGRATIONS, DASHBOARD_MIGRATIONS])
const { pool } = registry
const followClock = clockFollower(pool, 0)
after(() => registry[Symbol.asyncDispose]())

const YEAR_S = 365 * 24 * 3600
const MINUTE_MS = 60_000

/** As a clock that was a year ahead until a moment ago has left it. */
const wasAhead = (byS = YEAR_S) =>
  pool.query(
    `insert into registry_clock (seen_at) values (clock_timestamp() + make_interval(secs => $1))
     on conflict (one) do update set seen_at = excluded.seen_at`,
    [byS],
  )

beforeEach(async () => {
  for (const table of ['registry_clock', 'jobs', 'runs', 'rate_buckets']) await pool.query(`delete from ${table}`)
})

/** Told as history, or the end of a right or of something kept. */
const STAYS = `application_keys.created_at application_keys.expires_at application_keys.last_used_at
  application_keys.maker_token_issued_at audit_log.at backfills.asked_at capture_releases.created_at capture_streams.read_at
  captures.checked_at captures.created_at captures.lost_at captures.positioned_at captures.source_time
  captures.spool_full_at captures.spooled_since catalog_logins.created_at
  catalog_logins.rotated_at change_topics.updated_at
  connections.created_at connections.last_tested_at connections.source_since connections.updated_at connector_states.updated_at
  deployments.created_at deployments.finished_at endpoint_states.updated_at erasures.created_at erasures.finished_at
  event_topics.created_at events.at exports.created_at exports.expires_at exports.finished_at follows.behind_since
  follows.followed_at grant_bases.created_at idempotency_keys.expires_at incidents.closed_at incidents.last_at
  incidents.opened_at jobs.finished_at lake_upkeep.finished_at lake_upkeep.lease_until lake_upkeep.started_at
  log_pieces.read_at log_pieces.source_time log_pieces.spooled_at materializations.committed_at notification_targets.created_at
  notification_targets.delivered_at notification_targets.token_issued_at notifications.created_at notifications.done_at
  openlineage_runs.begin_told_at openlineage_runs.begun_at openlineage_runs.ended_at product_dashboards.updated_at
  product_drafts.uploaded_at product_fences.epoch_committed_at product_freshness.missed_since product_grants.created_at
  product_versions.deployed_at products.created_at products.preview_ends_at products.updated_at push_events.received_at
  push_keys.expires_at quarantined_rows.created_at raised_columns.raised_at raw_table_grants.created_at registry_clock.seen_at
  run_log.at run_tables.updated_at schedules.skipped_at schedules.token_issued_at schema_migrations.applied_at
  service_passwords.created_at service_passwords.expires_at service_passwords.last_used_at store_comparisons.compared_at
  store_comparisons.drifted_at store_comparisons.in_order_at tenant_keys.created_at tenant_slugs.released_at
  tenant_slugs.taken_at tenants.created_at tenants.updated_at webhook_dead_letters.created_at
  webhook_dead_letters.failing_since webhook_dead_letters.redelivered_at webhooks.created_at webhooks.delivered_at
  webhooks.failing_since`

it('knows of every moment in the registry whether somebody waits for it', async () => {
  const { rows } = await pool.query(
    `select table_name || '.' || column_name as name from information_schema.columns
     where table_schema = 'public' and data_type like 'timestamp%'`,
  )
  const sooner = SOONER.flatMap(({ moments }) => Object.entries(moments)).flatMap(([table, columns]) =>
    columns.map((column) => `${table}.${column}`),
  )
  assert.deepEqual([...sooner, ...STAYS.split(/\s+/)].sort(), rows.map(({ name }) => name).sort())
})

it('leaves all as it is while the clock goes on', async () => {
  await expectJob(pool, { kind: 'later', key: '' }, 60 * MINUTE_MS)
  const before = (await pool.query('select * from jobs')).rows
  assert.equal(await followClock(), null)
  // Another server of the database, whose clock is a little behind.
  await wasAhead(30)
  assert.equal(await followClock(), null)
  assert.deepEqual((await pool.query('select * from jobs')).rows, before)
})

it('brings every awaited moment back by as much, once, and nothing before its time', async () => {
  await wasAhead()
  await expectJob(pool, { kind: 'noted while it was ahead', key: '' }, YEAR_S * 1000 + 60 * MINUTE_MS)
  await expectJob(pool, { kind: 'noted before', key: '' }, 60 * MINUTE_MS)
  const backS = await followClock()
  assert.ok(backS !== null && Math.abs(backS - YEAR_S) < 600, String(backS))
  assert.equal(await followClock(), null)
  const { rows } = await pool.query(
    `select kind, extract(epoch from due_at - clock_timestamp())::float8 as "inS" from jobs order by kind`,
  )
  const [before, ahead] = rows
  assert.ok(before.inS > -600 && before.inS <= 60, String(before.inS))
  assert.ok(ahead.inS > 3000 && ahead.inS <= 3600, String(ahead.inS))
})

it('leaves what a living runtime has in hand, and frees what a dead one had', async () => {
  await expectJob(pool, { kind: 'held', key: '' }, 0)
  const [job] = await claimJobs(pool, [{ kinds: ['held'] }], 10 * MINUTE_MS)
  assert.ok(job)
  await wasAhead()
  await followClock()
  assert.deepEqual(await claimJobs(pool, [{ kinds: ['held'] }], MINUTE_MS), [], 'it has a while to renew it')
  await renewJob(pool, job, 10 * MINUTE_MS)
  await pool.query('update jobs set lease_until = lease_until + make_interval(secs => $1)', [YEAR_S])
  await wasAhead()
  await followClock()
  const { rows } = await pool.query("select lease_until < clock_timestamp() + interval '16 minutes' as soon from jobs")
  assert.deepEqual(rows, [{ soon: true }])
})

it('lets what waits for nothing but being asked for wait', async () => {
  await pool.query("insert into jobs (kind, key, started_at) values ('asked', '', now() + interval '365 days')")
  await wasAhead()
  await followClock()
  assert.deepEqual((await pool.query('select due_at, lease_until from jobs')).rows, [
    { due_at: null, lease_until: null },
  ])
})

it('lets runs begin and limits fill again', async () => {
  const tenant = await registry.tenant()
  const { id } = await registry.connection(tenant)
  await inTransaction(pool, (tx) =>
    enqueueRun(tx, { tenant, kind: 'ingestion', connectionId: id, trigger: 'manual', createdBy: ANN }),
  )
  const buckets = new RateBuckets(pool)
  await buckets.lease('all', 10, { ratePerS: 1000, burst: 10 })
  await pool.query('update runs set available_at = available_at + make_interval(secs => $1)', [YEAR_S])
  await pool.query('update rate_buckets set refilled_at = refilled_at + make_interval(secs => $1)', [YEAR_S])
  await wasAhead()
  await followClock()
  const soon = "< clock_timestamp() + interval '2 minutes' as soon"
  const ofRuns = `select available_at ${soon}, finished_at from runs`
  assert.deepEqual((await pool.query(ofRuns)).rows, [{ soon: true, finished_at: null }])
  assert.deepEqual((await pool.query(`select refilled_at ${soon} from rate_buckets`)).rows, [{ soon: true }])
})

const runOf = async (connectionId: string, tenant: string, createdS: number) =>
  pool.query(
    `insert into runs (id, tenant, kind, connection_id, trigger, state, created_by, created_at, finished_at)
     select 'run_' || $3::int, $1, 'ingestion', $2, 'schedule', 'failed', '{}', at, at
     from (select clock_timestamp() + make_interval(secs => $3::int) as at) t`,
    [tenant, connectionId, createdS],
  )

it('keeps the order and the distance of what was done while the clock was ahead', async () => {
  const tenant = await registry.tenant()
  const { id } = await registry.connection(tenant)
  for (const createdS of [-7200, YEAR_S - 3600, YEAR_S - 1800]) await runOf(id, tenant, createdS)
  await wasAhead()
  await followClock()
  const gaps = await pool.query(
    `select round(extract(epoch from created_at - lag(created_at) over (order by created_at)))::int as gap from runs
     order by created_at offset 1`,
  )
  for (const [index, expectedS] of [3600, 1800].entries()) {
    const gapS = gaps.rows[index]?.gap
    assert.ok(Math.abs(gapS - expectedS) < 600, `${expectedS}: ${gapS}`)
  }
})

it('changes nothing where the clock is behind for the first minutes of a machine alone', async () => {
  await expectJob(pool, { kind: 'later', key: '' }, 60 * MINUTE_MS)
  const before = (await pool.query('select * from jobs')).rows
  const follow = clockFollower(pool)
  await wasAhead()
  assert.equal(await follow(), null)
  assert.equal(await follow(), null)
  assert.deepEqual((await pool.query('select * from jobs')).rows, before)
})

it('believes no clock that is behind this release', async () => {
  const tenant = await registry.tenant()
  const { id } = await registry.connection(tenant)
  await runOf(id, tenant, -7200)
  const before = (await pool.query('select created_at from runs')).rows
  const own = registry.database.pool({ maxConnections: 1 })
  await own.query(`create schema early; create function early.clock_timestamp() returns timestamptz language sql as
    $$ select pg_catalog.clock_timestamp() - interval '50 years' $$`)
  await own.query('set search_path = early, pg_catalog, public')
  try {
    await pool.query('insert into registry_clock (seen_at) values (clock_timestamp())')
    assert.equal(await clockFollower(own, 0)(), null)
  } finally {
    await own.query('drop schema early cascade')
  }
  assert.deepEqual((await pool.query('select created_at from runs')).rows, before)
})

it('leaves what is not renewed in hand for as long as it may last', async () => {
  await pool.query(
    `insert into idempotency_keys (scope_hash, claim_id, tenant, request_hash, abandoned_at, expires_at)
     values ('asked', 'one', 't', 'hash', clock_timestamp() + interval '14 minutes', clock_timestamp() + interval '1 day')`,
  )
  const before = (await pool.query('select abandoned_at from idempotency_keys')).rows
  await wasAhead()
  await followClock()
  assert.deepEqual((await pool.query('select abandoned_at from idempotency_keys')).rows, before)
})
