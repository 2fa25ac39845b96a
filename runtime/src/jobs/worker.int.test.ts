import assert from 'node:assert/strict'
import { after, afterEach, beforeEach, describe, it } from 'node:test'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { registryMigrations } from '../registry/migrations.ts'
import { createTenant, setTenantStatus } from '../registry/tenants.ts'
import { backOffMs } from './back-off.ts'
import {
  claimJobs,
  endJobLeases,
  expectForTenants,
  expectJob,
  failJob,
  finishJob,
  forgetOrphans,
  type Job,
  jobLoad,
  renewJob,
  ringForJobs,
} from './claims.ts'
import { type JobEnd, type JobKind, JobWorker, type JobWorkerOptions } from './worker.ts'

const database = await (await startTestPostgres()).createDatabase({ migrations: [registryMigrations] })
const pool = database.pool({ maxConnections: 8 })
after(() => database.drop())
beforeEach(() => pool.query('delete from jobs'))

const HOUR_MS = 3_600_000
const told: string[] = []
const logger = { debug() {}, info() {}, warn: (text: string) => void told.push(text), error() {} }

const workers: JobWorker[] = []
const releases: (() => void)[] = []
afterEach(async () => {
  for (const release of releases.splice(0)) release()
  for (const worker of workers.splice(0)) await worker.stop()
  told.length = 0
})

/** Runs until the test ends; it looks every few milliseconds, unless told otherwise. */
function start(kinds: readonly JobKind[], more: Partial<JobWorkerOptions> = {}): JobWorker {
  const worker = new JobWorker({ pool, address: null, logger, kinds, pollMs: 5, leaseMs: HOUR_MS, ...more })
  workers.push(worker)
  worker.start()
  return worker
}

function kind(name: string, work: JobKind['work'], more: Partial<JobKind> = {}): JobKind {
  return { kind: name, failed: `${name} failed`, backOff: { firstMs: HOUR_MS, lastMs: HOUR_MS }, work, ...more }
}

/** Resolves when the test ends, at the latest. */
function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise: opened, resolve: open } = Promise.withResolvers<void>()
  releases.push(open)
  return { opened, open }
}

const due = (name: string, key = '') => expectJob(pool, { kind: name, key }, 0)
const claim = (...kinds: string[]): Promise<Job[]> => claimJobs(pool, [{ kinds }], HOUR_MS)
const claimOne = async (name: string): Promise<Job> => (await claim(name))[0] as Job
const die = () => pool.query(`update jobs set lease_until = now() - interval '1 second' where lease_until is not null`)

interface Row {
  readonly attempts: number
  readonly error_code: string | null
  readonly isFree: boolean
  /** Null: not until it is asked for. */
  readonly due_in_s: number | null
}

async function row(name: string, key = ''): Promise<Row> {
  const { rows } = await pool.query(
    `select attempts, error_code, lease_until is null as "isFree",
       extract(epoch from due_at - clock_timestamp())::float8 as due_in_s from jobs where kind = $1 and key = $2`,
    [name, key],
  )
  return rows[0] as Row
}

describe('a job', () => {
  it('is claimed by one of several runtimes, and due again when that said so', async () => {
    await due('a')
    const claims = await Promise.all([claim('a'), claim('a'), claim('a')])
    assert.equal(claims.flat().length, 1)
    const [job] = claims.flat() as [Job]
    assert.deepEqual(await claim('a'), [])
    assert.ok(await finishJob(pool, job, { from: 'start', ms: HOUR_MS }))
    assert.deepEqual(await claim('a'), [])
    const { due_in_s: seconds, isFree } = await row('a')
    assert.ok(isFree && Number(seconds) > 3000 && Number(seconds) <= 3600, String(seconds))
  })

  it('of a runtime that died is another’s when the lease ends, and what the dead one says is not heard', async () => {
    await due('a')
    const dead = await claimOne('a')
    await die()
    const next = await claimOne('a')
    assert.deepEqual([next.token, next.isTakenOver, next.attempts], [dead.token + 1, true, 1])
    await assert.rejects(renewJob(pool, dead, HOUR_MS), { kind: 'FENCED' })
    assert.equal(await finishJob(pool, dead, null), false)
    await failJob(pool, dead, new Error('late'), 0)
    assert.equal((await row('a')).isFree, false)
    await renewJob(pool, next, HOUR_MS)
  })

  it('whose lease has ended is still its runtime’s while nobody has taken it', async () => {
    await due('a')
    const job = await claimOne('a')
    await die()
    await renewJob(pool, job, HOUR_MS)
    assert.deepEqual(await claim('a'), [])
  })

  it('that is asked for while it is done is done again', async () => {
    await due('a')
    const job = await claimOne('a')
    await pool.query('update jobs set due_at = now()')
    await finishJob(pool, job, null)
    await finishJob(pool, await claimOne('a'), null)
    assert.equal((await row('a')).due_in_s, null)
    assert.deepEqual(await claim('a'), [])
  })

  it('may be claimed at once where no other process works on the registry', async () => {
    await due('a')
    await claim('a')
    await endJobLeases(pool)
    assert.equal((await claim('a')).length, 1)
  })

  it('of each lane comes that has waited longest', async () => {
    for (const key of ['late', 'later']) await due('a', key)
    await pool.query(`update jobs set due_at = now() - interval '1 hour' where key = 'late'`)
    await due('b')
    const keys = async () =>
      (await claimJobs(pool, [{ kinds: ['a'] }, { kinds: ['b'] }], HOUR_MS)).map(({ key }) => key)
    assert.deepEqual((await keys()).sort(), ['', 'late'])
    assert.deepEqual(await keys(), ['later'])
  })

  it('is there for each active tenant, until that is gone', async () => {
    for (const slug of ['one', 'two']) {
      await inTransaction(pool, (tx) => createTenant(tx, { slug, displayName: slug, tier: 'free' }))
      await setTenantStatus(pool, slug, 'active')
    }
    const keys = async () =>
      (await pool.query(`select kind || '/' || key as at from jobs order by 1`)).rows.map(({ at }) => at)
    const every = { x: 2 * HOUR_MS, y: HOUR_MS }
    await expectForTenants(pool, every, 0)
    await expectForTenants(pool, every, 0)
    assert.deepEqual(await keys(), ['x/one', 'x/two', 'y/one', 'y/two'])
    await pool.query(`update tenants set status = 'deprovisioning' where slug = 'two'`)
    const job = await claimOne('x')
    await finishJob(pool, job, { from: 'start', ms: every.x })
    await expectForTenants(pool, { ...every, x: 60_000 }, 0)
    assert.deepEqual(await keys(), ['x/one', 'y/one'])
    assert.ok(Number((await row('x', job.key)).due_in_s) <= 60, 'it is done more often from now on')
  })

  it('that no runtime does any more is forgotten after an hour', async () => {
    await due('a', 'here')
    await due('a', 'gone')
    await pool.query(`update jobs set due_at = now() - interval '2 hours' where key = 'gone'`)
    await forgetOrphans(pool, 'a')
    assert.equal((await pool.query('select from jobs')).rowCount, 1)
  })
})

describe('a runtime', () => {
  it('does as many of a lane at once as it has places, and no more', async () => {
    const begun: string[] = []
    const gates = Array.from({ length: 5 }, () => gate())
    const work = async (job: Job) => {
      begun.push(job.key)
      await gates[Number(job.key)]?.opened
      return null
    }
    for (let key = 0; key < 5; key += 1) await due('many', `${key}`)
    start([kind('many', work, { places: 3 })])
    await until('three have begun', () => begun.length === 3)
    await due('other')
    let isDone = false
    start([kind('other', async () => (isDone = true) && null)])
    await until('another worker has gone its round', () => isDone)
    assert.equal(begun.length, 3)
    gates[Number(begun[1])]?.open()
    await until('a free place is taken', () => begun.length === 4)
    for (const { open } of gates) open()
    await until('all have begun', () => new Set(begun).size === 5)
  })

  it('does what is due, of a lane one at a time, and a long one keeps no other lane waiting', async () => {
    const { opened, open } = gate()
    const done: string[] = []
    for (const name of ['long', 'beside', 'short']) await due(name)
    await pool.query(`update jobs set due_at = now() - interval '1 hour' where kind = 'long'`)
    const note = async ({ kind: name }: Job) => {
      if (name === 'long') await opened
      done.push(name)
      return null
    }
    start([kind('long', note, { lane: 'one' }), kind('beside', note, { lane: 'one' }), kind('short', note)])
    await until('the short one is done', () => done.length === 1)
    assert.deepEqual(done, ['short'])
    open()
    await until('all are done', () => done.length === 3)
    assert.deepEqual(done, ['short', 'long', 'beside'])
  })

  it('tries what failed again when its time has come, tells of it, and forgets the failures then', async () => {
    await due('a')
    let isBroken = true
    const ends: JobEnd[] = []
    const work = async () => {
      if (isBroken) throw new Error('broken')
      return null
    }
    start([kind('a', work)], { onEnded: (_, end) => void ends.push(end) })
    await until('it has failed', () => ends.length === 1)
    const failed = await row('a')
    assert.deepEqual([failed.attempts, failed.error_code, failed.isFree], [1, 'internal_error', true])
    assert.ok(Number(failed.due_in_s) > 3000)
    assert.deepEqual(told, ['a failed'])
    isBroken = false
    await pool.query('update jobs set due_at = now()')
    await until('it is done', () => ends.length === 2)
    assert.deepEqual(ends, ['failed', 'done'])
    const { attempts, error_code: code } = await row('a')
    assert.deepEqual([attempts, code], [0, null])
  })

  it('takes up what a runtime died of once, and leaves it for later the second time', async () => {
    await due('a')
    let begun = 0
    const work = async () => {
      begun += 1
      return null
    }
    await claim('a')
    await die()
    await claim('a')
    await die()
    start([kind('a', work)])
    await until('it was put off', async () => (await row('a')).isFree)
    assert.equal(begun, 0)
    assert.ok(Number((await row('a')).due_in_s) > 3000)
    await pool.query('update jobs set due_at = now()')
    await until('it is done', () => begun === 1)
  })

  it('ends what it has lost to another, and what that has is left alone', async () => {
    await due('a')
    const ends: JobEnd[] = []
    const work: JobKind['work'] = (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    start([kind('a', work)], { leaseMs: 300, onEnded: (_, end) => void ends.push(end) })
    await until('it has begun', async () => !(await row('a')).isFree)
    await pool.query(`update jobs set token = token + 1, lease_until = now() + interval '1 hour'`)
    await until('it has ended', () => ends.length === 1)
    assert.deepEqual(ends, ['lost'])
    assert.deepEqual([(await row('a')).isFree, (await row('a')).attempts], [false, 0])
  })

  it('gives back what it has when it stops, for anybody to begin at once; what was its own goes with it', async () => {
    await due('a')
    await due('own', 'mine')
    await due('own', 'another’s')
    const begun: string[] = []
    const work: JobKind['work'] = ({ key }, signal) => {
      begun.push(key)
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
    const worker = start([kind('a', work), kind('own', work, { key: 'mine' })])
    await until('both have begun', () => begun.length === 2)
    assert.deepEqual(begun.sort(), ['', 'mine'])
    await worker.stop()
    const { attempts, isFree } = await row('a')
    assert.deepEqual([attempts, isFree], [0, true])
    assert.equal((await claim('a')).length, 1)
    const { rows } = await pool.query(`select key from jobs where kind = 'own'`)
    assert.deepEqual(rows, [{ key: 'another’s' }])
  })

  it('looks when it is rung for, and notes what its sources know of', async () => {
    let done = 0
    const work = async () => {
      done += 1
      return null
    }
    const source = { everyMs: 0, enlist: () => expectJob(pool, { kind: 'a', key: String(done) }, 0) }
    // It looks for itself once an hour.
    start([kind('a', work)], { address: database.address, pollMs: HOUR_MS, sources: [source] })
    await until('the first is done', () => done > 0)
    const before = done
    await until('it is rung for', async () => {
      await ringForJobs(pool)
      return done > before
    })
  })

  it('goes on where a source fails, and says so once, and once more when it fails after it has worked', async () => {
    await due('a')
    const ends: JobEnd[] = []
    let asked = 0
    let isBroken = true
    const source = {
      everyMs: 0,
      async enlist() {
        asked += 1
        if (isBroken) throw new Error('broken')
      },
    }
    const isAskedThrice = async () => {
      const before = asked
      await until('it is asked again', () => asked > before + 2)
    }
    start([kind('a', async () => null)], { pollMs: 1, sources: [source], onEnded: (_, end) => void ends.push(end) })
    await until('it is done', () => ends.length === 1)
    const words = 'jobs could not be noted; it is tried again'
    for (const expected of [[words], [words, words]]) {
      isBroken = true
      await isAskedThrice()
      assert.deepEqual(told, expected)
      isBroken = false
      await isAskedThrice()
    }
  })
})

it('what waits is counted by kind', async () => {
  for (const key of ['1', '2', '3']) await due('a', key)
  await pool.query(`update jobs set due_at = now() - interval '1 hour', attempts = 2 where key = '1'`)
  await pool.query(`update jobs set lease_until = now() + interval '1 hour' where key = '2'`)
  assert.deepEqual(await jobLoad(pool), [{ kind: 'a', due: 2, running: 1, late: 1, failing: 1 }])
})

it('waits double with each failure up to the longest, and none that failed together are tried again together', () => {
  const waits = [0, 1, 2, 3, 50].map((attempts) => backOffMs(attempts, { firstMs: 100, lastMs: 500 }, () => 0))
  assert.deepEqual(waits, [100, 200, 400, 500, 500])
  const [least, most] = [0, 0.999].map((random) => backOffMs(0, { firstMs: 1000, lastMs: 5000 }, () => random))
  assert.deepEqual([least, most], [1000, 1200])
})
