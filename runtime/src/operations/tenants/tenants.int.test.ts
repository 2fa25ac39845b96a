/** Tenants that are made through several runtimes at once, of which some end or stand still in the middle. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, describe, it } from 'node:test'
import { Lake } from '@sluice/iceberg'
import { eventMigrations } from '../../events/migrations.ts'
import { listTopics } from '../../events/outbox.ts'
import type { AuthenticatedCall } from '../../flow.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { catalogName } from '../../lake/tenant-layout.ts'
import { startRegistryLake } from '../../lake/testing.ts'
import { MasterKeys } from '../../registry/master-keys.ts'
import { registryMigrations } from '../../registry/migrations.ts'
import { endProvisioningLeases } from '../../registry/provisioning.ts'
import { findTenant } from '../../registry/tenants.ts'
import type { TenantsDeps } from './deps.ts'
import { provisionTenant, removeTenant, tenantPage, undoAbandoned } from './tenants.ts'

const world = await startRegistryLake([registryMigrations, eventMigrations])
after(() => world[Symbol.asyncDispose]())
afterEach(() => {
  misfortunes.clear()
})
const { pool, store } = world

const masters = new MasterKeys('k1', { k1: Buffer.alloc(32, 1).toString('base64') })
const call = {
  principal: { issuer: 'https://issuer.example', subject: 'root', isAdmin: true },
  requestId: 'r',
  traceparent: null,
} as unknown as AuthenticatedCall

/** What befalls a runtime just before the tenant's bucket is made, or removed. */
const misfortunes = new Map<string, () => Promise<void>>()

function misfortuneAt(step: string, slug: string, what: () => Promise<void>): void {
  misfortunes.set(`${step} ${slug}`, what)
}

class UnluckyLake extends Lake {
  override async provision(tenant: string): Promise<void> {
    await misfortunes.get(`make ${tenant}`)?.()
    await super.provision(tenant)
  }

  override async drop(tenant: string): Promise<void> {
    await misfortunes.get(`drop ${tenant}`)?.()
    await super.drop(tenant)
  }
}

const said: string[] = []
const platform = {
  pool,
  masters,
  lake: new UnluckyLake({ store, catalog: registryCatalog(pool), engine: world.engine }),
  bus: null,
  plugins: { servingTypes: () => [] },
  catalogLogins: { revoke: async () => {} },
  served: { drop: () => {} },
  bucketUri: (tenant: string) => store.uri(`sluice-${tenant}`),
  logger: { error: (message: string) => said.push(message) },
} as unknown as TenantsDeps

function create(slug: string) {
  return provisionTenant(platform, call, { slug, displayName: slug, tier: 'free' }, async () => {})
}

/** The start of a runtime beside others, and any turn of its housekeeping. */
const start = () => undoAbandoned(platform)

/** Nobody renews the lease any more, and its time passes; the present would be rounded up to a millisecond to come. */
async function expire(slug: string): Promise<void> {
  await pool.query(`update tenants set provisioning_until = '-infinity' where slug = $1`, [slug])
}

/** All of it, or nothing. */
async function stateOf(slug: string) {
  const keys = await pool.query('select purpose from tenant_keys where tenant = $1 order by purpose', [slug])
  return {
    status: (await findTenant(pool, slug))?.status,
    keys: keys.rows.map(({ purpose }) => purpose as string),
    topics: (await listTopics(pool, slug)).length > 0,
    bucket: existsSync(join(world.dir, 'store', `sluice-${slug}`)),
  }
}

const WHOLE = { status: 'active', keys: ['mask', 'secret'], topics: true, bucket: true }
const UNDONE = { status: 'failed', keys: [], topics: false, bucket: false }

/** A runtime that has come to the tenant's bucket and waits there: it was killed, or it is merely slow. */
function stuck(slug: string) {
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  misfortuneAt('make', slug, async () => {
    misfortunes.delete(`make ${slug}`)
    reached.resolve()
    await released.promise
  })
  const outcome = create(slug)
  outcome.catch(() => undefined)
  return { outcome, reached: reached.promise, release: released.resolve }
}

describe('a tenant that is being made', () => {
  it('is left alone by a runtime that starts, by others who want it, and by its removal', async () => {
    const made = stuck('alive')
    await made.reached
    await start()
    await assert.rejects(create('alive'), { code: 'tenant_exists' })
    await assert.rejects(removeTenant(platform, call, 'alive', 'alive'), { code: 'tenant_status_conflict' })
    made.release()
    await made.outcome
    assert.deepEqual(await stateOf('alive'), WHOLE)
  })

  it('is undone once whoever made it is gone, and may be made again', async () => {
    const made = stuck('dead')
    await made.reached
    await expire('dead')
    await start()
    assert.deepEqual(await stateOf('dead'), UNDONE)
    await create('dead')
    assert.deepEqual(await stateOf('dead'), WHOLE)
    // It was only slow: it comes too late to finish, and must not undo what has been made since.
    made.release()
    await assert.rejects(made.outcome, { code: 'tenant_status_conflict' })
    assert.deepEqual(await stateOf('dead'), WHOLE)
  })

  it('may be taken over as soon as whoever made it is gone', async () => {
    const made = stuck('heir')
    await made.reached
    await expire('heir')
    await create('heir')
    made.release()
    await assert.rejects(made.outcome, { code: 'tenant_status_conflict' })
    assert.deepEqual(await stateOf('heir'), WHOLE)
  })

  it('is undone once more where whoever made it comes too late to something that was undone', async () => {
    const [undone, removed] = [stuck('late'), stuck('removed')]
    await Promise.all([undone.reached, removed.reached])
    await expire('late')
    await expire('removed')
    await start()
    await removeTenant(platform, call, 'removed', 'removed')
    for (const made of [undone, removed]) {
      made.release()
      await assert.rejects(made.outcome, { code: 'tenant_status_conflict' })
    }
    await start()
    assert.deepEqual(await stateOf('late'), UNDONE)
    assert.deepEqual(await stateOf('removed'), { ...UNDONE, status: undefined })
  })

  it('is undone where it fails, and belongs to one of those who try again at once', async () => {
    misfortuneAt('make', 'unlucky', () => Promise.reject(new Error('the disk is full')))
    await assert.rejects(create('unlucky'), /disk is full/)
    assert.deepEqual(await stateOf('unlucky'), UNDONE)
    misfortunes.clear()
    const outcomes = await Promise.allSettled([create('unlucky'), create('unlucky'), create('unlucky')])
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
    assert.deepEqual(await stateOf('unlucky'), WHOLE)
  })

  it('that cannot be undone keeps no runtime from starting nor from the others, and is tried again', async () => {
    for (const slug of ['bad', 'worse']) {
      misfortuneAt('make', slug, () => Promise.reject(new Error('no')))
      misfortuneAt('drop', slug, () => Promise.reject(new Error('no')))
      await assert.rejects(create(slug))
    }
    misfortunes.delete('drop worse')
    said.length = 0
    await start()
    assert.deepEqual(await stateOf('worse'), UNDONE)
    assert.equal((await stateOf('bad')).status, 'provisioning')
    assert.equal(said.length, 1)
    misfortunes.clear()
    await start()
    assert.deepEqual(await stateOf('bad'), UNDONE)
  })

  it('by a release without leases has its time, and is undone by a runtime alone with its registry at once', async () => {
    await pool.query(`insert into tenant_slugs (slug) values ('older')`)
    await pool.query(`insert into tenants (slug, display_name, tier) values ('older', 'older', 'free')`)
    await start()
    assert.equal((await stateOf('older')).status, 'provisioning')
    await endProvisioningLeases(pool)
    await start()
    assert.deepEqual(await stateOf('older'), UNDONE)
  })
})

it('is whole or undone when four clients make tenants while runtimes start, die and stand still', async () => {
  const slugs = Array.from({ length: 40 }, (_, index) => `many-${index}`)
  const queue = [...slugs]
  let isOver = false
  const restarting = (async () => {
    while (!isOver) await start()
  })()
  const late: (() => void)[] = []
  const outcomes: Promise<unknown>[] = []
  const client = async () => {
    for (let slug = queue.pop(); slug !== undefined; slug = queue.pop()) {
      const kind = Number(slug.slice(5)) % 4
      if (kind === 1) misfortuneAt('make', slug, () => Promise.reject(new Error('no')))
      if (kind < 2) await create(slug).catch(() => undefined)
      else {
        const made = stuck(slug)
        await made.reached
        await expire(slug)
        // Half of the slow ones go on while they are undone, the others when all is over.
        if (kind === 2) made.release()
        else late.push(made.release)
        outcomes.push(made.outcome)
      }
    }
  }
  await Promise.all([client(), client(), client(), client()])
  for (const release of late) release()
  await Promise.allSettled(outcomes)
  isOver = true
  await restarting
  await start()
  for (const slug of slugs) {
    const state = await stateOf(slug)
    assert.deepEqual(state, state.status === 'active' ? WHOLE : UNDONE, slug)
    if (Number(slug.slice(5)) % 4 === 0) assert.equal(state.status, 'active')
  }
  for (const slug of slugs) {
    misfortunes.clear()
    if ((await findTenant(pool, slug))?.status === 'failed') await create(slug)
    assert.deepEqual(await stateOf(slug), WHOLE)
  }
})

it('a page of tenants is told by as many statements as one of them, whatever they use', async () => {
  const slugs = Array.from({ length: 20 }, (_, at) => `listed-${at}`)
  await pool.query('insert into tenant_slugs (slug) select unnest($1::text[])', [slugs])
  await pool.query(
    `insert into tenants (slug, display_name, tier, status) select slug, slug, 'free', 'active' from unnest($1::text[]) slug`,
    [slugs],
  )
  await pool.query(
    `insert into lake_storage (catalog_name, table_namespace, table_name, stored_bytes)
     select $1, 'crm', 'people', 7 union all select $1, 'crm', 'orders', 5`,
    [catalogName('listed-3')],
  )
  const askedFor = async (limit: number) => {
    let statements = 0
    const counting = new Proxy(pool, {
      get: (target, name) => {
        const value = Reflect.get(target, name)
        if (name === 'query' || name === 'connect') statements += 1
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const { items } = await tenantPage({ ...platform, pool: counting }, { limit, after: null })
    return { items, statements }
  }
  const [few, many] = [await askedFor(1), await askedFor(500)]
  assert.equal(many.statements, few.statements)
  const bytes = many.items.filter(({ usage }) => usage.storageBytes > 0)
  assert.deepEqual(
    bytes.map(({ tenant, usage }) => [tenant.slug, usage]),
    [['listed-3', { products: 0, connections: 0, runningRuns: 0, storageBytes: 12 }]],
  )
  assert.ok(slugs.every((slug) => many.items.some(({ tenant }) => tenant.slug === slug)))
  await pool.query('delete from lake_storage where catalog_name = $1', [catalogName('listed-3')])
  await pool.query('delete from tenants where slug = any($1)', [slugs])
})
