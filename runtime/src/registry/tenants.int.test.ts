import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { createConnection } from './connections.ts'
import { createProduct } from './products.ts'
import {
  createTenant,
  deleteTenant,
  findTenant,
  isClearedLoginTaken,
  listTenants,
  setTenantStatus,
  tenantUsage,
  updateTenant,
} from './tenants.ts'
import { ANN, startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

describe('a tenant', () => {
  it('takes its slug for ever', async () => {
    const make = () =>
      inTransaction(pool, (tx) => createTenant(tx, { slug: 'acme', displayName: 'Acme', tier: 'free' }))
    assert.equal((await make()).status, 'provisioning')
    await assert.rejects(make(), { kind: 'CONFLICT', code: 'tenant_exists' })
    await inTransaction(pool, (tx) => deleteTenant(tx, 'acme'))
    await inTransaction(pool, (tx) => deleteTenant(tx, 'acme'))
    assert.equal(await findTenant(pool, 'acme'), null)
    await assert.rejects(make(), { kind: 'CONFLICT', code: 'tenant_exists' })
  })

  it('has no cleared login of its own where another tenant’s members log in so', async () => {
    const slug = await registry.tenant()
    const logins = { reader: 'User:{tenant}', cleared: 'User:{tenant}-cleared' }
    assert.equal(await isClearedLoginTaken(pool, slug, logins), false)
    const other = { slug: `${slug}-cleared`, displayName: 'other', tier: 'free' } as const
    await inTransaction(pool, (tx) => createTenant(tx, other))
    assert.equal(await isClearedLoginTaken(pool, slug, logins), true)
    assert.equal(await isClearedLoginTaken(pool, other.slug, logins), false)
    assert.equal(await isClearedLoginTaken(pool, slug, { ...logins, cleared: 'User:{tenant}--cleared' }), false)
  })

  it('is made once where two ask for it at the same time', async () => {
    const make = () => inTransaction(pool, (tx) => createTenant(tx, { slug: 'twice', displayName: '2', tier: 'free' }))
    const outcomes = await Promise.allSettled([make(), make(), make()])
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
  })

  it('goes through its statuses in order only', async () => {
    const slug = await registry.tenant()
    await assert.rejects(setTenantStatus(pool, slug, 'provisioning'), { code: 'tenant_status_conflict' })
    await assert.rejects(setTenantStatus(pool, slug, 'failed'), { code: 'tenant_status_conflict' })
    assert.equal((await setTenantStatus(pool, slug, 'deprovisioning')).status, 'deprovisioning')
    assert.equal((await setTenantStatus(pool, slug, 'deprovisioning')).status, 'deprovisioning')
    await assert.rejects(setTenantStatus(pool, slug, 'active'), { code: 'tenant_status_conflict' })
  })

  it('changes in what is named and keeps the rest', async () => {
    const slug = await registry.tenant('free')
    const resources = { bucket: `sluice-${slug}`, topics: ['a', 'b'] }
    await updateTenant(pool, slug, { resources, provisionedInMs: 12 })
    const changed = await updateTenant(pool, slug, { displayName: 'Other' })
    assert.deepEqual(
      [changed?.displayName, changed?.tier, changed?.resources, changed?.provisionedInMs],
      ['Other', 'free', resources, 12],
    )
    assert.equal(await updateTenant(pool, 'nobody', { displayName: 'x' }), null)
  })

  it('is listed newest first, each once, page by page', async () => {
    for (let made = 0; made < 5; made++) await registry.tenant()
    // All made in one instant: the slug decides.
    await pool.query('update tenants set created_at = now()')
    const all = (await listTenants(pool, { limit: 1000, after: null })).items.map(({ slug }) => slug)
    const paged: string[] = []
    let position = null
    do {
      const page = await listTenants(pool, { limit: 2, after: position })
      assert.ok(page.items.length <= 2)
      paged.push(...page.items.map(({ slug }) => slug))
      // A tenant made meanwhile shifts nothing.
      await registry.tenant()
      position = page.next
    } while (position !== null)
    assert.deepEqual(paged, all)
  })
})

describe('the limits of a tier', () => {
  const makers = {
    products: (tenant: string, name: string) =>
      inTransaction(pool, (tx) =>
        createProduct(tx, { tenant, domain: 'd', name, archetype: 'aggregate', createdBy: ANN }),
      ),
    connections: (tenant: string, name: string) =>
      inTransaction(pool, (tx) =>
        createConnection(tx, { tenant, name, connectorType: 'postgresql', config: {}, createdBy: ANN }),
      ),
  }
  for (const [what, limit] of [
    ['products', 5],
    ['connections', 3],
  ] as const) {
    it(`hold for ${what} that are made at the same time`, async () => {
      const tenant = await registry.tenant('free')
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, (_, index) => makers[what](tenant, `n${index}`)),
      )
      const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
      assert.equal(refused.length, 10 - limit)
      for (const { reason } of refused) {
        assert.equal(reason.code, 'tier_limit_exceeded')
        assert.deepEqual(reason.details, { limit, used: limit, tier: 'free' })
      }
      assert.equal((await tenantUsage(pool, tenant))[what], limit)
      await updateTenant(pool, tenant, { tier: 'enterprise' })
      await makers[what](tenant, 'one-more')
    })
  }

  it('leave no room in a tenant that is not active', async () => {
    const tenant = await registry.tenant()
    await setTenantStatus(pool, tenant, 'deprovisioning')
    await assert.rejects(makers.products(tenant, 'late'), { code: 'tenant_not_active' })
  })
})
