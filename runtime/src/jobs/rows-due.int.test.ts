import assert from 'node:assert/strict'
import { after, beforeEach, describe, it } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { raiseFence } from '../registry/fences.ts'
import { recordEpoch, reserveEpoch } from '../registry/materializations.ts'
import { deleteProduct, type Product, setPause } from '../registry/products.ts'
import { SCHEDULE_JOB } from '../registry/schedule-job.ts'
import { refreshSetter, type Schedule, scheduledOf, scheduleLoad } from '../registry/schedules.ts'
import { ANN, startTestRegistry } from '../registry/testing.ts'
import { claimJobs, finishJob } from './claims.ts'
import { keepSchedule } from './set-schedule.ts'
import { breakerOf, nextRunAt, tick } from './ticks.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const HOUR_MS = 3_600_000
const SETTER = { ...ANN, tokenIssuedAtMs: Date.now() - HOUR_MS }
const hoursAgo = (hours: number) => new Date(Date.now() - hours * HOUR_MS)

let tenant: string
let product: Product
beforeEach(async () => {
  await pool.query('delete from jobs')
  tenant = await registry.tenant()
  product = await registry.product(tenant)
})

const nameOf = ({ domain, name }: Product) => `${domain}.${name}`
const target = ({ id }: Product) => ({ id, tenant, of: 'product' }) as const

function set(schedule: Schedule, followed: readonly Product[] = [], of = product, setter = SETTER): Promise<void> {
  const names = followed.map((one) => ({ name: nameOf(one), id: one.id }))
  return inTransaction(pool, (tx) => keepSchedule(tx, target(of), { schedule, followed: names, setter }))
}

const follow = (followed: readonly Product[], of = product) =>
  set({ after: followed.map(nameOf), catchUp: 'one' }, followed, of)
const maxAge = (hours: number) => set({ maxAge: `${hours}h`, maxAgeMs: hours * HOUR_MS, catchUp: 'one' })

/** A new epoch of inputs that were read then. */
function commit({ id }: Product, readAt: Date = new Date()): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const { token } = await raiseFence(tx, id)
    const about = { tenant, productId: id, kind: 'materialize', runId: null, version: '1.0.0', digest: '' } as const
    const inputs = { source: { read_at: readAt.toISOString() }, other: { read_at: new Date().toISOString() } }
    const none = { maskedColumns: {}, counts: {}, quality: null, qualityScore: null }
    await recordEpoch(tx, await reserveEpoch(tx, id, token), { ...about, ...none, inputs, snapshots: { clear: '1' } })
  })
}

/** What a runtime does that finds it due. False: there was nothing for it to do. */
async function turn(): Promise<boolean> {
  const [job] = await claimJobs(pool, [{ kinds: [SCHEDULE_JOB] }], HOUR_MS)
  if (job === undefined) return false
  await finishJob(pool, job, await inTransaction(pool, (tx) => tick(tx, job)))
  return true
}

/** As if it was looked at because nobody had been woken. */
async function look(): Promise<void> {
  await pool.query('update jobs set due_at = now()')
  assert.equal(await turn(), true)
}

async function runs(of = product): Promise<readonly { readonly state: string; readonly by: string }[]> {
  const { rows } = await pool.query(
    `select state, created_by->>'subject' as by from runs where product_id = $1 and kind = 'materialization' and trigger = 'schedule'`,
    [of.id],
  )
  return rows
}

const end = (state: 'running' | 'succeeded' | 'failed') =>
  pool.query(
    `update runs set state = $1, started_at = now(), worker_id = case $1 when 'running' then 'w' end,
       lease_until = case $1 when 'running' then now() + interval '1 hour' end,
       finished_at = case $1 when 'running' then null else now() end
     where state in ('queued', 'running')`,
    [state],
  )

async function seen(of = product) {
  const scheduled = (await scheduledOf(pool, 'product', [of.id])).get(of.id)
  assert.ok(scheduled?.row)
  return { ...scheduled.row, next: nextRunAt(scheduled.row, breakerOf(scheduled.failures, scheduled.now)) }
}

describe('a schedule after other products', () => {
  it('begins one run when each of them has a new epoch, whichever of three runtimes sees to it', async () => {
    const [one, two] = [await registry.product(tenant), await registry.product(tenant)]
    await commit(one)
    await follow([one, two])
    await turn()
    assert.deepEqual(await runs(), [], 'what was there before is not new')
    await commit(two)
    assert.equal(await turn(), true, 'the commit has woken it')
    assert.deepEqual([await runs(), (await seen()).next], [[], null])
    await commit(one)
    await commit(one)
    const turns = await Promise.all([turn(), turn(), turn()])
    assert.equal(turns.filter(Boolean).length, 1)
    assert.deepEqual(await runs(), [{ state: 'queued', by: 'ann' }])
    await end('succeeded')
    await commit(one)
    await look()
    assert.equal((await runs()).length, 1, 'two was taken into account already')
    await commit(two)
    await turn()
    assert.equal((await runs()).length, 2)
  })

  it('waits for a run under way, which may have begun before, and not for one that has not begun', async () => {
    const other = await registry.product(tenant)
    await follow([other])
    await commit(other)
    await turn()
    await commit(other)
    await turn()
    assert.equal((await runs()).length, 1, 'the one that is queued sees it')
    await end('running')
    await commit(other)
    await turn()
    assert.equal((await runs()).length, 1)
    await end('succeeded')
    await look()
    assert.equal((await runs()).length, 2)
  })

  it('says what it waits for in vain: a deleted product, a pause, a right that was lost, failures', async () => {
    const other = await registry.product(tenant)
    await follow([other])
    const pause = { reason: 'rollback', version: '1.0.0', since: new Date().toISOString() } as const
    await inTransaction(pool, (tx) => setPause(tx, product.id, pause))
    await commit(other)
    await turn()
    assert.equal((await seen()).skippedReason, 'paused')
    await inTransaction(pool, (tx) => setPause(tx, product.id, null))
    await look()
    assert.equal((await runs()).length, 0, 'whoever ends the pause has it made anew')
    const principal = {
      ...ANN,
      tenant,
      groups: [],
      isAdmin: false,
      isViewer: false,
      claimedClearance: null,
      email: null,
    }
    const says = (isDeveloper: boolean) =>
      refreshSetter(pool, { ...principal, isDeveloper, tokenExpiresAtMs: Date.now(), tokenIssuedAtMs: Date.now() })
    await says(false)
    await commit(other)
    await turn()
    assert.deepEqual([(await seen()).skippedReason, (await runs()).length], ['right_lost', 0])
    await says(true)
    await look()
    assert.equal((await runs()).length, 1)
    await pool.query('delete from schedules where tenant <> $1', [tenant])
    assert.deepEqual(await scheduleLoad(pool), [{ of: 'product', set: 1, failing: 0, right_lost: 0 }])
    await end('failed')
    assert.deepEqual(await scheduleLoad(pool), [{ of: 'product', set: 1, failing: 1, right_lost: 0 }])
    await commit(other)
    await turn()
    assert.equal((await runs()).length, 1, 'it is asked ever more seldom')
    await pool.query(`update runs set finished_at = now() - interval '1 hour'`)
    await look()
    assert.equal((await runs()).length, 2)
    await end('succeeded')
    await inTransaction(pool, (tx) => deleteProduct(tx, tenant, other.id))
    await look()
    assert.deepEqual([(await seen()).skippedReason, (await runs()).length], ['product_gone', 2])
  })

  it('that would wait for itself is refused, through others as well, and two that are set at once see each other', async () => {
    const [one, two] = [await registry.product(tenant), await registry.product(tenant)]
    await follow([one], two)
    await follow([two])
    await assert.rejects(follow([product], one), {
      code: 'manifests_invalid',
      message: new RegExp(`"${nameOf(product)}" waits for this product`),
    })
    const [left, right] = [await registry.product(tenant), await registry.product(tenant)]
    const ends = await Promise.allSettled([follow([right], left), follow([left], right)])
    assert.deepEqual(ends.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  })

  it('is replaced, passed on and removed with all that belongs to it', async () => {
    const [one, two] = [await registry.product(tenant), await registry.product(tenant)]
    await follow([one, two])
    await commit(one)
    await turn()
    await set({ after: [nameOf(one), nameOf(two)], catchUp: 'one' }, [one, two], product, { ...SETTER, subject: 'bob' })
    assert.equal((await seen()).createdBy.subject, 'bob', 'it runs for whoever deployed last')
    await commit(two)
    await turn()
    assert.deepEqual(await runs(), [{ state: 'queued', by: 'bob' }], 'and goes on where it was')
    await set({ every: '1h', everyMs: HOUR_MS, catchUp: 'one' })
    assert.equal((await pool.query('select from schedule_follows where schedule_id = $1', [product.id])).rowCount, 0)
    await inTransaction(pool, (tx) => keepSchedule(tx, target(product), null))
    assert.equal((await pool.query('select from jobs')).rowCount, 0)
    assert.equal((await scheduledOf(pool, 'product', [product.id])).get(product.id)?.row, null)
  })
})

/** A version of that product which reads these tables. */
async function deployReading(
  tables: readonly { readonly connection: string; readonly table: string }[],
): Promise<void> {
  const inputs = tables.map((one, at) => ({ name: `i${at}`, ...one }))
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', $2, '', '{}')`,
    [product.id, JSON.stringify({ inputs })],
  )
  await pool.query(`update products set current_version = '1.0.0' where id = $1`, [product.id])
}

/** A sync that has read the table from then on. */
async function readTable(connectionId: string, name: string, at: Date): Promise<void> {
  const { rows } = await pool.query(
    `insert into runs (id, tenant, kind, connection_id, trigger, state, created_by, started_at)
     values (gen_random_uuid(), $1, 'ingestion', $2, 'manual', 'succeeded', '{}', $3) returning id`,
    [tenant, connectionId, at],
  )
  await pool.query(
    `insert into run_tables (run_id, name, position, mode, state, read_at) values ($1, $2, 0, 'full', 'succeeded', $3)`,
    [rows[0].id, name, at],
  )
}

describe('a schedule by age', () => {
  it('makes the product anew when the first read of its inputs is that long ago, and there is a newer one', async () => {
    const { id, name } = await registry.connection(tenant)
    await deployReading([
      { connection: name, table: 'people' },
      { connection: name, table: 'crm.orders' },
      { connection: 'sandbox', table: 'plain' },
    ])
    await maxAge(2)
    await readTable(id, 'public.people', hoursAgo(3))
    await look()
    assert.deepEqual([await runs(), (await seen()).skippedReason], [[], 'inputs_not_newer'], 'an input was never read')
    await readTable(id, 'crm.orders', hoursAgo(3))
    await look()
    assert.equal((await runs()).length, 1, 'it has no rows yet')
    await end('succeeded')
    await commit(product, hoursAgo(1))
    await look()
    assert.equal((await runs()).length, 1)
    const until = (await seen()).nextRunAt.getTime()
    assert.ok(Math.abs(until - hoursAgo(-1).getTime()) < 60_000, 'two hours after the first read')

    await commit(product, hoursAgo(3))
    await look()
    assert.equal((await runs()).length, 1, 'a run would find what is there')
    await readTable(id, 'public.people', hoursAgo(0))
    await look()
    assert.equal((await runs()).length, 1, 'the other input is as old as before')
    await readTable(id, 'crm.orders', hoursAgo(0.5))
    await pool.query('update jobs set due_at = now()')
    await Promise.all([turn(), turn(), turn()])
    assert.equal((await runs()).length, 2)
  })

  it('syncs a connection when the newest sync that succeeded began that long ago, whoever asked for it', async () => {
    const { id } = await registry.connection(tenant)
    const schedule: Schedule = { maxAge: '2h', maxAgeMs: 2 * HOUR_MS, catchUp: 'one' }
    const wanted = { schedule, followed: [], setter: SETTER }
    const syncs = async () =>
      (await pool.query(`select from runs where connection_id = $1 and trigger = 'schedule'`, [id])).rowCount
    await readTable(id, 'public.people', hoursAgo(1))
    await inTransaction(pool, (tx) => keepSchedule(tx, { id, tenant, of: 'connection' }, wanted))
    await turn()
    assert.equal(await syncs(), 0)
    const scheduled = (await scheduledOf(pool, 'connection', [id])).get(id)
    assert.ok(scheduled?.row)
    const next = nextRunAt(scheduled.row, breakerOf(scheduled.failures, scheduled.now))
    assert.ok(Math.abs((next?.getTime() ?? 0) - hoursAgo(-1).getTime()) < 60_000)
    await pool.query(`update runs set started_at = started_at - interval '1 hour'`)
    await look()
    assert.equal(await syncs(), 1)
  })
})
