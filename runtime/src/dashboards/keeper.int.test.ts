/** What the keeper does while the dashboard server does not answer, and whose turn it is among several keepers. */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import type pg from 'pg'
import { until } from '../../../test/until.ts'
import { inTransaction, openPool } from '../database/pools.ts'
import { PATIENT, startTestPostgres, type TestDatabase, type TestServingDatabase } from '../database/testing.ts'
import { claimJobs, finishJob, type Job } from '../jobs/claims.ts'
import { JobWorker } from '../jobs/worker.ts'
import { registryMigrations } from '../registry/migrations.ts'
import { createTenant } from '../registry/tenants.ts'
import { dashboardPlugin } from './driver.ts'
import { DashboardKeeper } from './keeper.ts'
import { DASHBOARD_MIGRATIONS } from './migrations.ts'
import { loginName } from './names.ts'
import { ServingViews } from './serving-views.ts'
import {
  claimDashboards,
  dashboardState,
  dashboardsDue,
  finishDashboards,
  reviewDashboards,
  wishDashboards,
} from './states.ts'
import type { WantedDashboards } from './wanted.ts'

const PASSWORD = 'never-to-be-told'
const PRODUCT = 'prd_1'
const silent = new Proxy(
  {},
  {
    get:
      () =>
      (...said: unknown[]) =>
        void lines.push(JSON.stringify(said)),
  },
) as never
const lines: string[] = []

let registry: TestDatabase
let serving: TestServingDatabase
let pool: pg.Pool
let owner: pg.Pool
let views: ServingViews
/** Takes connections, and says nothing. */
let mute: Server

before(async () => {
  const postgres = await startTestPostgres()
  registry = await postgres.createDatabase({ migrations: [registryMigrations, DASHBOARD_MIGRATIONS] })
  serving = await postgres.createServingDatabase()
  pool = registry.pool()
  owner = openPool(serving.logins.owner, { ...PATIENT, applicationName: 'test', maxConnections: 2 })
  views = new ServingViews({ onGaps: () => undefined, pool: owner, admin: serving.admin, shown: serving.admin })
  await inTransaction(pool, (tx) => createTenant(tx, { slug: 'acme', displayName: 'acme', tier: 'free' }))
  // What it is told is read, and never answered: a socket that nobody reads from does not see its other end go.
  mute = createServer((socket) => void socket.on('error', () => undefined).resume())
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
})

after(async () => {
  mute.close()
  await owner.end()
  await serving.drop()
  await registry.drop()
})

beforeEach(async () => {
  await pool.query('delete from jobs')
  await pool.query('delete from product_dashboards')
  await pool.query('delete from products')
  await product(PRODUCT, true)
})

async function product(id: string, enabled: boolean): Promise<void> {
  await pool.query(
    `insert into products (id, tenant, domain, name, archetype, classification, status, current_version, created_by)
     values ($1, 'acme', 'crm', $1, 'aggregate', 'internal', 'deployed', '1.0.0', '{}')`,
    [id],
  )
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', $2, 'd', '{}')`,
    [id, JSON.stringify({ serving: { visualization: { enabled } } })],
  )
}

const wish = (id: string) => inTransaction(pool, (tx) => wishDashboards(tx, id))
const claim = (id = PRODUCT) => inTransaction(pool, (tx) => claimDashboards(tx, id, 3_600_000))

/** With the driver that comes with the runtime. */
async function keeper(port: number, load: () => Promise<WantedDashboards | null>, timeout_ms = 200) {
  const plugin = await dashboardPlugin({}, { specifiers: [], baseDirectory: import.meta.dirname, onLoaded() {} })
  const settings = { url: `http://127.0.0.1:${port}`, username: 'u', password: PASSWORD, timeout_ms }
  const server = await plugin.open(settings, {} as never)
  return new DashboardKeeper({ pool, logger: silent, views, driver: plugin.name, server, load })
}

/** As a runtime does once it is due. */
async function seeTo({ kind, source }: DashboardKeeper): Promise<void> {
  let job: Job | undefined
  await until('the job is due', async () => {
    await source.enlist(signal())
    job = (await claimJobs(pool, [{ kinds: [kind.kind] }], 3_600_000))[0]
    return job !== undefined
  })
  assert.equal(job?.key, PRODUCT)
  await finishJob(pool, job as Job, await kind.work(job as Job, signal()))
}

const mutePort = () => (mute.address() as { readonly port: number }).port
const wantsNothing = async () => null
const signal = () => AbortSignal.timeout(600_000)

describe('a wish', () => {
  test('is for products whose version in service asks for dashboards', async () => {
    await product('prd_2', false)
    for (const id of [PRODUCT, 'prd_2', 'prd_3']) await wish(id)
    assert.equal((await dashboardState(pool, PRODUCT))?.state, 'pending')
    assert.equal(await dashboardState(pool, 'prd_2'), null)
    assert.equal(await dashboardState(pool, 'prd_3'), null)
  })

  test('that comes while an older one is carried out stays', async () => {
    await wish(PRODUCT)
    const claimed = await claim()
    assert.ok(claimed !== null)
    await wish(PRODUCT)
    await finishDashboards(pool, claimed, { digest: 'old', applied: [], againMs: null })
    const state = await dashboardState(pool, PRODUCT)
    assert.deepEqual([state?.state, state?.digest], ['pending', null])
    assert.notEqual(await claim(), null)
  })

  test('is one process’s at a time, and one of a tenant', async () => {
    await product('prd_2', true)
    for (const id of [PRODUCT, 'prd_2']) await wish(id)
    await until('one is due', async () => (await dashboardsDue(pool, 10)).length > 0)
    assert.equal((await dashboardsDue(pool, 10)).length, 1)
    const claims = await Promise.all([claim(), claim('prd_2'), claim(), claim('prd_2')])
    assert.equal(claims.filter((claimed) => claimed !== null).length, 1)
    assert.deepEqual(await dashboardsDue(pool, 10), [], 'one of the tenant is being seen to')
  })

  test('comes again when the tenant’s policy changes, and when all are reviewed', async () => {
    await wish(PRODUCT)
    for (const change of [() => pool.query(`select raise_policy_version('acme')`), () => reviewDashboards(pool)]) {
      const claimed = await claim()
      assert.ok(claimed !== null)
      await finishDashboards(pool, claimed, { digest: 'x', applied: [], againMs: null })
      assert.equal(await claim(), null)
      await change()
    }
    assert.equal((await claim())?.productId, PRODUCT)
  })
})

async function fails(): Promise<never> {
  throw new TypeError(`${PASSWORD} is not a function`)
}

/** Of a store that has the rows that are wanted. */
const filled = {
  shown: {},
  describe: async () => ({ schema: 's', name: 'v', columns: [] }),
  provision: async () => `postgresql://login:${PASSWORD}@127.0.0.1:9/serving`,
  setOpen: async () => undefined,
}
const wantsOne = async () =>
  ({ productId: PRODUCT, tenant: 'acme', variants: [{ variant: 'masked', subjects: [] }] }) as never

for (const [what, server, load, of] of [
  ['open', { open: fails }, wantsNothing, null],
  ['remove', { open: async () => ({ remove: fails }) }, wantsNothing, null],
  ['put', { open: async () => ({ put: fails }) }, wantsOne, filled],
] as const) {
  test(`an error of a driver’s ${what} that is not meant for people is told as the driver’s, and its words to nobody`, async () => {
    await wish(PRODUCT)
    const claimed = await claim()
    assert.ok(claimed !== null)
    await finishDashboards(pool, claimed, { digest: 'old', applied: [{ variant: 'masked', roles: [] }], againMs: null })
    await wish(PRODUCT)
    lines.splice(0)
    const stands = { views: (of ?? views) as ServingViews, server: server as never, load }
    await seeTo(new DashboardKeeper({ pool, logger: silent, driver: 'other', ...stands }))
    const { error } = (await dashboardState(pool, PRODUCT)) ?? {}
    assert.equal(error?.code, 'dashboards_driver_failed')
    const log = lines.join('\n')
    assert.match(log, /TypeError.* at .*fails.*keeper\.int\.test\.ts/, 'the log says where')
    assert.ok(!`${JSON.stringify(error)}${log}`.includes(PASSWORD))
  })
}

describe('while the dashboard server does not answer', () => {
  for (const [what, port] of [
    ['is not there', () => 9],
    ['says nothing', mutePort],
  ] as const) {
    test(`because it ${what}, the product’s state tells cause and remedy, and another try is due`, async () => {
      await wish(PRODUCT)
      const before = (await pool.query('select clock_timestamp()::text as at')).rows[0]?.at
      await seeTo(await keeper(port(), wantsNothing))
      const state = await dashboardState(pool, PRODUCT)
      assert.deepEqual([state?.state, state?.attempts, state?.error?.code], ['failed', 1, 'dashboards_unavailable'])
      assert.match(state?.error?.remedy ?? '', /dashboards\.url/)
      const { rows } = await pool.query(
        `select next_retry_at >= $1::timestamptz + interval '1 second' as later, lease_until from product_dashboards`,
        [before],
      )
      assert.deepEqual(rows, [{ later: true, lease_until: null }])
      assert.ok(!lines.join('\n').includes(PASSWORD))
    })
  }

  test('whoever lost a dataset reads it no more', async () => {
    await views.setOpen({ productId: PRODUCT, variant: 'clear' }, false)
    await owner.query(
      `insert into sluice_views.logins values ('${loginOf('clear')}', 'acme', 'crm', 'p', 'clear', 'lookup', 'crm', '', true)`,
    )
    await wish(PRODUCT)
    await pool.query(`update product_dashboards set applied = '[{"variant":"clear","roles":["sluice:acme:team:x"]}]'`)
    await seeTo(await keeper(9, wantsNothing))
    const { rows } = await owner.query('select is_open from sluice_views.logins')
    assert.deepEqual(rows, [{ is_open: false }])
  })

  test('it stops without waiting, and gives back its turn', async () => {
    await wish(PRODUCT)
    const { kind, source } = await keeper(mutePort(), wantsNothing, 3_600_000)
    const running = new JobWorker({ pool, address: null, logger: silent, kinds: [kind], sources: [source], pollMs: 5 })
    running.start()
    await until(
      'the keeper has taken its turn',
      async () => (await pool.query('select from product_dashboards where lease_until is not null')).rowCount === 1,
    )
    await running.stop()
    const { rows } = await pool.query('select lease_until, state from product_dashboards')
    assert.deepEqual(rows, [{ lease_until: null, state: 'pending' }])
    assert.equal((await claimJobs(pool, [{ kinds: [kind.kind] }], 3_600_000)).length, 1, 'another may begin at once')
  })
})

function loginOf(variant: string): string {
  return loginName({ productId: PRODUCT, variant })
}
