import assert from 'node:assert/strict'
import { after, beforeEach, describe, it } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import type { Principal } from '../flow.ts'
import { deleteConnection } from '../registry/connections.ts'
import { LOG_SPOOLED } from '../registry/log-spool.ts'
import { SCHEDULE_JOB } from '../registry/schedule-job.ts'
import { refreshSetter, type Schedule, scheduledOf, setSchedule } from '../registry/schedules.ts'
import { ANN, startTestRegistry } from '../registry/testing.ts'
import { claimJobs, finishJob, type Job, setJobDue } from './claims.ts'
import { nextTick } from './due-times.ts'
import { breakerOf, nextRunAt, tick } from './ticks.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const HOUR_MS = 3_600_000
const ANNS: Principal = {
  ...ANN,
  tenant: '',
  groups: [],
  isAdmin: false,
  isDeveloper: true,
  isViewer: false,
  claimedClearance: null,
  email: null,
  tokenExpiresAtMs: Date.now() + HOUR_MS,
  tokenIssuedAtMs: Date.now() - HOUR_MS,
}

let tenant: string
let id: string
beforeEach(async () => {
  await pool.query('delete from jobs')
  tenant = await registry.tenant()
  do id = (await registry.connection(tenant)).id
  while (!isFarFromTicks(id))
})

/** Of the hour and of two days: the test is over before the next one, and the newest is long past. */
function isFarFromTicks(of: string): boolean {
  return [1, 48].every((hours) => {
    const everyMs = hours * HOUR_MS
    const inMs = nextTick({ every: '', everyMs, catchUp: 'one' }, of, new Date()).getTime() - Date.now()
    return inMs > HOUR_MS / 4 && inMs < everyMs - HOUR_MS / 4
  })
}

/** Of which ticks were missed since so long ago, and which is due now. */
async function schedule(catchUp: Schedule['catchUp'] = 'one', sinceMs = 26 * HOUR_MS): Promise<void> {
  const wanted: Schedule = { every: '1h', everyMs: HOUR_MS, catchUp }
  const since = new Date(Date.now() - sinceMs)
  const target = { id, tenant, connectionId: id, productId: null, setter: { ...ANNS, tenant } }
  const nextRunAt = nextTick(wanted, id, since)
  await inTransaction(pool, (tx) => setSchedule(tx, { ...target, schedule: wanted, since, nextRunAt }))
  await setJobDue(pool, { kind: SCHEDULE_JOB, key: id, tenant }, new Date(0))
}

const claim = async (): Promise<Job | undefined> => (await claimJobs(pool, [{ kinds: [SCHEDULE_JOB] }], HOUR_MS))[0]
const work = (job: Job) => inTransaction(pool, (tx) => tick(tx, job))
const die = () => pool.query(`update jobs set lease_until = now() - interval '1 second' where lease_until is not null`)

/** What a runtime does that finds it due. False: there was nothing for it to do. */
async function turn(): Promise<boolean> {
  const job = await claim()
  if (job === undefined) return false
  await finishJob(pool, job, await work(job))
  return true
}

/** As if the next tick had come. */
async function hoursPass(hours: number): Promise<void> {
  const back = `${hours} hours`
  await pool.query(`update schedules set ticked_at = ticked_at - $1::interval, since = since - $1::interval`, [back])
  await pool.query(`update runs set created_at = created_at - $1::interval, finished_at = finished_at - $1::interval`, [
    back,
  ])
  await pool.query('update jobs set due_at = now()')
}

async function runs(): Promise<readonly { readonly state: string; readonly trigger: string; readonly by: string }[]> {
  const { rows } = await pool.query(
    `select state, trigger, created_by->>'subject' as by from runs where connection_id = $1`,
    [id],
  )
  return rows
}

const end = (state: 'succeeded' | 'failed') =>
  pool.query(`update runs set state = $1, finished_at = now() where connection_id = $2 and state = 'queued'`, [
    state,
    id,
  ])

async function seen() {
  const scheduled = (await scheduledOf(pool, 'connection', [id])).get(id)
  assert.ok(scheduled?.row)
  const breaker = breakerOf(scheduled.failures, scheduled.now)
  return { ...scheduled, row: scheduled.row, breaker, next: nextRunAt(scheduled.row, breaker) }
}

describe('a tick', () => {
  it('begins one run, whichever of three runtimes sees to it, and a day that was missed no more', async () => {
    await schedule()
    const turns = await Promise.all([turn(), turn(), turn()])
    assert.equal(turns.filter(Boolean).length, 1)
    assert.deepEqual(await runs(), [{ state: 'queued', trigger: 'schedule', by: 'ann' }])
    assert.equal(await turn(), false, 'the next one is not due')
    const { row, next, now, lastRun, breaker } = await seen()
    assert.ok(row.tickedAt <= now && next !== null && next > now && next.getTime() - now.getTime() <= HOUR_MS)
    assert.deepEqual([lastRun?.state, lastRun?.trigger, breaker.state], ['queued', 'schedule', 'closed'])
  })

  it('of a runtime that dies before or after it is noted is begun once, and nobody hears the dead one', async () => {
    await schedule()
    const dead = (await claim()) as Job
    await die()
    const next = (await claim()) as Job
    await assert.rejects(work(dead), { kind: 'FENCED' })
    assert.equal((await runs()).length, 0)
    await work(next)
    await die()
    assert.equal(await turn(), true)
    assert.equal((await runs()).length, 1)
    await assert.rejects(work(next), { kind: 'FENCED' })
    assert.equal((await runs()).length, 1)
  })

  it('that comes while a run is under way begins none, and the one after the run does', async () => {
    await schedule()
    await turn()
    await hoursPass(1)
    await turn()
    assert.equal((await runs()).length, 1)
    assert.equal((await seen()).row.skippedReason, 'run_in_progress')
    await end('succeeded')
    await hoursPass(1)
    await turn()
    assert.equal((await runs()).length, 2)
  })

  it('is made up for as catch_up says', async () => {
    await schedule('none')
    await pool.query(`update schedules set schedule = schedule || '{"every": "48h", "everyMs": 172800000}'`)
    await hoursPass(24 * 4)
    await turn()
    assert.deepEqual([(await runs()).length, (await seen()).row.skippedReason], [0, 'missed'])
    await schedule('all', 3 * HOUR_MS)
    await pool.query('update jobs set due_at = now()')
    for (let begun = 1; begun <= 3; begun += 1) {
      await turn()
      assert.equal((await runs()).length, begun)
      await pool.query('update jobs set due_at = now()')
      await turn()
      assert.equal((await runs()).length, begun, 'the next one waits for the end of the one before')
      await end('succeeded')
      await pool.query('update jobs set due_at = now()')
    }
    await turn()
    assert.equal((await runs()).length, 3)
  })

  it('after a run that took up the log for a lake that is away waits no longer: it is to take up more', async () => {
    await schedule()
    for (const code of ['source_unreachable', LOG_SPOOLED, LOG_SPOOLED, 'log_spool_full']) {
      await hoursPass(3)
      await turn()
      await end('failed')
      await pool.query('update runs set error = $2 where connection_id = $1 and error is null', [id, { code }])
      const { failures } = await seen()
      assert.equal(failures.count, code === 'log_spool_full' ? 2 : 1, code)
    }
  })

  it('after failures waits ever longer, says so, and one success closes the breaker', async () => {
    await schedule()
    await turn()
    for (let failures = 1; failures <= 9; failures += 1) {
      await end('failed')
      const { breaker, next } = await seen()
      assert.deepEqual([breaker.state, breaker.failures], ['open', failures])
      assert.ok(next !== null && breaker.openUntil !== null && next >= breaker.openUntil)
      await pool.query(`update schedules set ticked_at = ticked_at - interval '1 hour'`)
      await pool.query('update jobs set due_at = now()')
      await turn()
      assert.deepEqual([(await runs()).length, (await seen()).row.skippedReason], [failures, 'backing_off'])
      await hoursPass(2)
      assert.equal((await seen()).breaker.state, 'half_open')
      await turn()
      assert.equal((await runs()).length, failures + 1)
    }
    await end('succeeded')
    assert.deepEqual((await seen()).breaker, { state: 'closed', failures: 0, openUntil: null })
  })

  it('begins no run where its setter may not sync any more, its tenant is not active, or its connection is gone', async () => {
    await schedule()
    const says = (isDeveloper: boolean, agoMs: number) =>
      refreshSetter(pool, { ...ANNS, tenant, isDeveloper, tokenIssuedAtMs: Date.now() - agoMs })
    await says(false, 2 * HOUR_MS)
    assert.equal((await seen()).row.maySync, true, 'an older token says nothing')
    await refreshSetter(pool, { ...ANNS, tenant, isDeveloper: false, subject: 'bea', tokenIssuedAtMs: Date.now() })
    await refreshSetter(pool, { ...ANNS, tenant: 'other', isDeveloper: false, tokenIssuedAtMs: Date.now() })
    assert.equal((await seen()).row.maySync, true, 'and another’s neither')
    await says(false, 60_000)
    await turn()
    const { row, next } = await seen()
    assert.deepEqual([(await runs()).length, row.skippedReason, next], [0, 'right_lost', null])
    await says(true, 30_000)
    await pool.query(`update tenants set status = 'deprovisioning' where slug = $1`, [tenant])
    await hoursPass(1)
    await turn()
    assert.deepEqual([(await runs()).length, (await seen()).row.skippedReason], [0, 'tenant_inactive'])
    await pool.query(`update tenants set status = 'active' where slug = $1`, [tenant])
    await hoursPass(1)
    const job = (await claim()) as Job
    await inTransaction(pool, (tx) => deleteConnection(tx, tenant, id))
    assert.equal(await work(job), null)
    assert.equal((await pool.query('select from jobs')).rowCount, 0)
  })
})
