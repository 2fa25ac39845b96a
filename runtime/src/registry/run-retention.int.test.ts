import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { saveConnectorState } from './connector-states.ts'
import { offeredReadAt } from './data-ages.ts'
import { closeIncidents, openIncident, pruneIncidents } from './incidents.ts'
import { recordBlocked, recordEpoch, reserveEpoch } from './materializations.ts'
import { tableReads } from './run-progress.ts'
import { pruneBlocked, pruneLeft, pruneRuns, type RunRetention } from './run-retention.ts'
import type { RunState } from './runs.ts'
import { failuresOf, scheduledOf } from './schedules.ts'
import { startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const DEFAULTS: RunRetention = { days: 30, most: 500, least: 20 }
const prune = (retention: Partial<RunRetention> = {}) =>
  pruneRuns(pool, { ...DEFAULTS, ...retention }, new AbortController().signal)

interface Ended {
  readonly id: string
  readonly daysAgo: number
  readonly state?: RunState
}

/** With a line of its log. */
async function ended(of: { readonly tenant: string; readonly id: string }, runs: readonly Ended[]): Promise<void> {
  const kind = of.id.startsWith('con_') ? 'ingestion' : 'materialization'
  await pool.query(
    `insert into runs (id, tenant, kind, connection_id, product_id, trigger, state, created_by, created_at, started_at, finished_at)
     select r.id, $1, $2, case $2 when 'ingestion' then $3 end, case $2 when 'materialization' then $3 end, 'schedule',
       r.state, '{"issuer":"i","subject":"ann"}', at, at, at
     from jsonb_to_recordset($4) as r (id text, "daysAgo" float8, state text),
       lateral (select now() - make_interval(secs => r."daysAgo" * 86400) as at) t`,
    [of.tenant, kind, of.id, JSON.stringify(runs.map((run) => ({ state: 'succeeded', ...run })))],
  )
  await pool.query(
    `insert into run_log (run_id, level, message) select id, 'info', 'done' from unnest($1::text[]) as id`,
    [runs.map(({ id }) => id)],
  )
}

async function left(target: string): Promise<readonly string[]> {
  const statement =
    'select id from runs where coalesce(connection_id, product_id) = $1 order by created_at desc, id desc'
  return (await pool.query(statement, [target])).rows.map(({ id }) => id)
}

const logged = async () => (await pool.query('select count(distinct run_id)::int as runs from run_log')).rows[0].runs

async function readTable(runId: string, name: string, state: string): Promise<void> {
  await pool.query(
    `insert into run_tables (run_id, name, position, mode, state, read_at, updated_at)
     select id, $2, 0, 'full', $3, finished_at, finished_at from runs where id = $1`,
    [runId, name, state],
  )
}

const numbered = (name: string, count: number, from: number): Ended[] =>
  Array.from({ length: count }, (_, at) => ({ id: `${name}${at}`, daysAgo: from + at }))

test('runs go by age and by number; the newest stay, whatever their age, with what they said', async () => {
  const tenant = await registry.tenant()
  const [old, busy] = [await registry.connection(tenant), await registry.product(tenant)]
  await ended(old, numbered('old', 25, 40))
  await ended(busy, numbered('busy', 60, 0.5))
  assert.equal(await prune(), 5 + 30)
  assert.deepEqual([(await left(old.id)).length, (await left(old.id)).at(-1)], [20, 'old19'])
  assert.deepEqual([(await left(busy.id)).length, (await left(busy.id)).at(-1)], [30, 'busy29'])
  assert.equal(await logged(), 50, 'lines of logs go with their runs')
  assert.equal(await prune({ most: 25 }), 5)
  assert.deepEqual([await prune({ most: 25 }), await logged()], [0, 45])
})

test('what ended within the hour, or has not ended, stays', async () => {
  const tenant = await registry.tenant()
  const connection = await registry.connection(tenant)
  await ended(
    connection,
    numbered('fresh', 10, 0).map((run, at) => ({ ...run, daysAgo: 0.02 + at / 10_000 })),
  )
  await ended(connection, [{ id: 'waiting', daysAgo: 90, state: 'queued' }])
  await prune({ most: 2, least: 2 })
  assert.equal((await left(connection.id)).length, 11)
})

test('the last that succeeded and the last that failed stay', async () => {
  const connection = await registry.connection(await registry.tenant())
  const states = ['cancelled', 'cancelled', 'failed', 'failed', 'cancelled', 'succeeded', 'succeeded'] as const
  await ended(
    connection,
    states.map((state, at) => ({ id: `state${at}`, daysAgo: 40 + at, state })),
  )
  const before = await scheduledOf(pool, 'connection', [connection.id])
  await prune({ least: 1 })
  assert.deepEqual(await left(connection.id), ['state0', 'state2', 'state5'])
  const told = ({ lastRun, failures }: NonNullable<ReturnType<typeof before.get>>) => ({ lastRun, failures })
  const now = (await scheduledOf(pool, 'connection', [connection.id])).get(connection.id)
  assert.ok(now !== undefined)
  assert.deepEqual(told(now), told(before.get(connection.id) as typeof now))
  assert.equal((await failuresOf(pool, 'connection', [connection.id])).size, 0)
})

test('reads that tell how old raw tables are, and where the next one begins, stay', async () => {
  const tenant = await registry.tenant()
  const connection = await registry.connection(tenant)
  const product = await registry.product(tenant)
  await ended(connection, numbered('read', 8, 40))
  for (const run of ['read0', 'read2', 'read4']) await readTable(run, 'public.often', 'succeeded')
  await readTable('read5', 'public.once', 'succeeded')
  await readTable('read3', 'public.broken', 'failed')
  await readTable('read6', 'public.broken', 'succeeded')
  await readTable('read7', 'public.broken', 'failed')
  await inTransaction(pool, (tx) =>
    saveConnectorState(tx, { connectionId: connection.id, tableName: 'public.kept', runId: 'read1' }, {}),
  )
  const normalised = { inputs: [{ connection: connection.name, table: 'once' }] }
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', $2, 'd', '{}')`,
    [product.id, JSON.stringify(normalised)],
  )
  await pool.query(`update products set current_version = '1.0.0' where id = $1`, [product.id])
  const tables = ['public.often', 'public.once', 'public.broken']
  const asked = async () => [
    await tableReads(pool, { id: connection.id, sourceSince: null }, tables),
    await offeredReadAt(pool, product.id),
  ]
  const before = await asked()
  await prune({ least: 1 })
  assert.deepEqual(await left(connection.id), ['read0', 'read1', 'read3', 'read5', 'read6'])
  assert.deepEqual(await asked(), before)
})

test('runs of incidents and of epochs that are served stay, until these are', async () => {
  const tenant = await registry.tenant()
  const product = await registry.product(tenant)
  await ended(product, numbered('made', 6, 40))
  await inTransaction(pool, (tx) =>
    openIncident(tx, tenant, { productId: product.id }, { cause: 'no_disk', runId: 'made5' }),
  )
  const made = (runId: string) => ({
    ...({ tenant, productId: product.id, kind: 'materialize', runId, version: '1.0.0', digest: 'd' } as const),
    ...{ maskedColumns: {}, inputs: {}, counts: {}, quality: { checks: [] }, qualityScore: 50 },
  })
  const epochs = ['made4', 'made3', 'made2']
  for (const run of epochs) {
    await inTransaction(pool, async (tx) => {
      const { rows } = await tx.query('select token from product_fences where product_id = $1', [product.id])
      const epoch = await reserveEpoch(tx, product.id, BigInt(rows[0].token))
      await recordEpoch(tx, epoch, { ...made(run), snapshots: {} })
    })
  }
  const blocked = await recordBlocked(pool, made('made1'))
  const shown = await recordBlocked(pool, made('made1'))
  await pool.query(`update materializations set committed_at = now() - interval '40 days' where epoch is null`)
  await pool.query(`insert into violating_rows values ($1, 'clear', $2, '')`, [product.id, shown.id])
  await pool.query(
    `insert into endpoint_states (product_id, endpoint, variant, applied_epoch, state) values ($1, 'lookup', 'clear', 2, 'failed')`,
    [product.id],
  )
  await prune({ least: 1 })
  assert.deepEqual(await left(product.id), ['made0', 'made1', 'made2', 'made3', 'made5'])
  assert.equal(await pruneBlocked(pool, 30, 10), 1)
  const { rows } = await pool.query('select id, epoch from materializations where product_id = $1', [product.id])
  assert.ok(rows.length === 4 && !rows.some(({ id }) => id === blocked.id), 'what was published keeps its quality')
  await inTransaction(pool, (tx) => closeIncidents(tx, { productId: product.id }))
  await pool.query(`update incidents set closed_at = now() - interval '40 days'`)
  await pruneIncidents(pool, 10)
  await pool.query('update endpoint_states set applied_epoch = 3')
  await prune({ least: 1 })
  assert.deepEqual(await left(product.id), ['made0', 'made1', 'made2'])
})

test('ten thousand schedules of every minute do not fill the registry', async () => {
  const tenant = await registry.tenant()
  await pool.query(
    `insert into connections (id, tenant, name, connector_type, config, created_by)
     select 'con_many' || n, $1, 'many' || n, 'postgresql', '{}', '{}' from generate_series(1, 10000) n`,
    [tenant],
  )
  const counted = async () =>
    (await pool.query(`select count(*)::int as n from runs where connection_id like 'con_many%'`)).rows[0].n
  for (let round = 0; round < 3; round++) {
    // Two minutes of each, and the clock goes on by two hours.
    await pool.query(
      `update runs set created_at = created_at - interval '2 hours', finished_at = finished_at - interval '2 hours'
       where connection_id like 'con_many%'`,
    )
    await pool.query(
      `insert into runs (id, tenant, kind, connection_id, trigger, state, created_by, created_at, started_at, finished_at)
       select 'run_' || $2 || '_' || n || '_' || m, $1, 'ingestion', 'con_many' || n, 'schedule', 'succeeded', '{}', at, at, at
       from generate_series(1, 10000) n, generate_series(1, 2) m,
         lateral (select now() - make_interval(mins => m) as at) t`,
      [tenant, round],
    )
    await prune({ most: 2, least: 2 })
    assert.equal(await counted(), 20_000, `after round ${round}`)
  }
})

test('of runs that a product is left to the newest stay, and all that somebody asked for', async () => {
  const product = await registry.product(await registry.tenant())
  await ended(product, numbered('own', 60, 1))
  await ended(product, numbered('mine', 3, 100))
  await pool.query(`update runs set input = '{"left":{}}' where id like 'own%' and product_id = $1`, [product.id])
  assert.equal(await pruneLeft(pool, product.id), 9)
  const kept = await left(product.id)
  assert.deepEqual(
    [kept.filter((id) => id.startsWith('own')).length, kept.filter((id) => id.startsWith('mine')).length],
    [51, 3],
  )
})
