import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { until } from '../../../test/until.ts'
import { openListener } from '../database/listener.ts'
import { inTransaction } from '../database/pools.ts'
import { appendAudit, listAudit } from './audit.ts'
import { deleteConnection } from './connections.ts'
import {
  bindGrants,
  grantProduct,
  grantRawTable,
  grantsHeldOn,
  listProductGrants,
  type NewProductGrant,
  productGrants,
  productGrantsOf,
  rawTableGrants,
  revokeProductGrant,
  revokeRawTableGrant,
} from './grants.ts'

import { POLICY_CHANNEL, policyVersion, policyVersions, raiseAllPolicyVersions } from './policy-versions.ts'
import { createPreview } from './previews.ts'
import { deleteProduct, type Product, updateProduct } from './products.ts'
import { deleteTenant } from './tenants.ts'
import { ANN, startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

function grantOn(product: Product): NewProductGrant {
  const { tenant, id: productId } = product
  return {
    tenant,
    productId,
    subjectType: 'user',
    subject: 'bob',
    issuer: ANN.issuer,
    may: 'unmask',
    classes: ['pii.name'],
    grantedBy: ANN,
  }
}

describe('grants', () => {
  it('of one subject add up, and are found and revoked in their tenant only', async () => {
    const product = await registry.product(await registry.tenant())
    const first = await grantProduct(pool, grantOn(product))
    const again = await grantProduct(pool, { ...grantOn(product), classes: ['pii.identifier', 'pii.name'] })
    assert.equal(again.id, first.id)
    assert.deepEqual(again.classes, ['pii.identifier', 'pii.name'])
    const other = await grantProduct(pool, { ...grantOn(product), issuer: 'https://i' })
    const sales = { subjectType: 'team', subject: 'sales', issuer: null } as const
    const team = await grantProduct(pool, { ...grantOn(product), ...sales, may: 'read', classes: [] })
    const all = [again, other, team].map(({ id }) => id).sort()
    assert.deepEqual((await productGrants(pool, product.tenant, product.id)).map(({ id }) => id).sort(), all)
    const preview = await inTransaction(pool, (tx) => createPreview(tx, product, { days: 1, createdBy: ANN }))
    for (const id of [product.id, preview.id]) {
      assert.deepEqual(
        (await grantsHeldOn(pool, id)).map((grant) => grant.id),
        (await productGrants(pool, product.tenant, product.id)).map((grant) => grant.id),
      )
    }
    assert.deepEqual(await grantsHeldOn(pool, 'prd_gone'), [])
    const held = async (issuer: string, subject: string, groups: readonly string[], tenant = product.tenant) =>
      (await productGrantsOf(pool, tenant, { issuer, subject, groups })).map(({ id }) => id)
    assert.deepEqual(await held(ANN.issuer, 'bob', ['x', 'sales']), [first.id, team.id])
    assert.deepEqual(await held('https://i', 'bob', []), [other.id])
    assert.deepEqual(await held(ANN.issuer, 'eve', ['bob', 'sales']), [team.id])
    assert.deepEqual(await held(ANN.issuer, 'bob', ['sales'], 'another'), [])
    assert.deepEqual(await productGrants(pool, 'another', product.id), [])
    assert.equal(await revokeProductGrant(pool, 'another', product.id, team.id), null)
    assert.equal((await revokeProductGrant(pool, product.tenant, product.id, team.id))?.id, team.id)
    assert.equal(
      (await listProductGrants(pool, product.tenant, product.id, { limit: 10, after: null })).items.length,
      2,
    )
  })

  it('of people name their issuer, and those of teams do not', async () => {
    const product = await registry.product(await registry.tenant())
    const connection = await registry.connection(product.tenant)
    const raw = { tenant: product.tenant, connectionId: connection.id, tableName: null, grantedBy: ANN }
    for (const subject of [
      { subjectType: 'user', subject: 'bob', issuer: null },
      { subjectType: 'team', subject: 'sales', issuer: ANN.issuer },
    ] as const) {
      await assert.rejects(grantProduct(pool, { ...grantOn(product), ...subject }), { kind: 'CONFLICT' })
      await assert.rejects(grantRawTable(pool, { ...raw, ...subject }), { kind: 'CONFLICT' })
    }
  })

  it('that unmask name classes, and those that do not name none', async () => {
    const product = await registry.product(await registry.tenant())
    await assert.rejects(grantProduct(pool, { ...grantOn(product), classes: [] }), { kind: 'CONFLICT' })
    await assert.rejects(grantProduct(pool, { ...grantOn(product), may: 'read' }), { kind: 'CONFLICT' })
  })

  it('on raw tables are for one table or for all, once each', async () => {
    const connection = await registry.connection(await registry.tenant())
    const grant = {
      tenant: connection.tenant,
      connectionId: connection.id,
      tableName: null,
      subjectType: 'team',
      subject: 'sales',
      issuer: null,
      grantedBy: ANN,
    } as const
    const all = await grantRawTable(pool, grant)
    assert.equal((await grantRawTable(pool, grant)).id, all.id)
    const one = await grantRawTable(pool, { ...grant, tableName: 'public.orders' })
    const found = await rawTableGrants(pool, connection.tenant, connection.id)
    assert.deepEqual(new Set(found), new Set([all, one]))
    assert.equal(await revokeRawTableGrant(pool, 'another', connection.id, all.id), null)
    assert.deepEqual(await revokeRawTableGrant(pool, connection.tenant, connection.id, all.id), all)
  })
})

describe('grants of people without an issuer, of a former release', () => {
  const ruleOf = (table: string) => `constraint ${table}_issuer`

  /** A grant of a person and one of a team, on a product and on raw tables. */
  async function makeFormer(): Promise<Product> {
    const product = await registry.product(await registry.tenant())
    const { id: connectionId } = await registry.connection(product.tenant)
    const raw = { tenant: product.tenant, connectionId, tableName: null, grantedBy: ANN }
    for (const subject of [
      { subjectType: 'user', subject: 'bob', issuer: 'https://elsewhere' },
      { subjectType: 'team', subject: 'sales', issuer: null },
    ] as const) {
      await grantProduct(pool, { ...grantOn(product), ...subject })
      await grantRawTable(pool, { ...raw, ...subject })
    }
    await inTransaction(pool, async (tx) => {
      for (const table of ['product_grants', 'raw_table_grants']) {
        await tx.query(`alter table ${table} drop ${ruleOf(table)}`)
        await tx.query(`update ${table} set issuer = null where tenant = '${product.tenant}'`)
        await tx.query(
          `alter table ${table} add ${ruleOf(table)} check ((subject_type = 'user') = (issuer is not null)) not valid`,
        )
      }
    })
    return product
  }

  async function issuersOf({ tenant }: Product): Promise<readonly unknown[]> {
    const { rows } = await pool.query(
      `select subject, issuer from product_grants where tenant = $1 union all
       select subject, issuer from raw_table_grants where tenant = $1 order by subject`,
      [tenant],
    )
    return rows.map(({ subject, issuer }) => [subject, issuer])
  }

  const TEAMS = [
    ['sales', null],
    ['sales', null],
  ]

  it('are for the one issuer that is trusted, and stay so', async () => {
    const product = await makeFormer()
    const before = await policyVersion(pool, product.tenant)
    await bindGrants(pool, 'https://one')
    const bound = [['bob', 'https://one'], ['bob', 'https://one'], ...TEAMS]
    assert.deepEqual(await issuersOf(product), bound)
    assert.ok((await policyVersion(pool, product.tenant)) > before)
    await bindGrants(pool, 'https://two')
    await bindGrants(pool, null)
    assert.deepEqual(await issuersOf(product), bound)
  })

  it('are for the issuer of who granted, where several are trusted', async () => {
    const product = await makeFormer()
    await bindGrants(pool, null)
    assert.deepEqual(await issuersOf(product), [['bob', ANN.issuer], ['bob', ANN.issuer], ...TEAMS])
  })
})

describe('the policy version', () => {
  it('rises with everything that changes what somebody may see, and tells at the commit', async () => {
    const tenant = await registry.tenant()
    const heard: string[] = []
    const listener = openListener(registry.database.address, {
      applicationName: 'policy',
      channels: { [POLICY_CHANNEL]: (payload) => heard.push(payload) },
      onLost: () => undefined,
      // No answer is late, so nothing is missed.
      heartbeatMs: 600_000,
    })
    await until('it listens', () => listener.isListening)
    const raises = async (what: string, change: () => Promise<unknown>): Promise<void> => {
      const before = await policyVersion(pool, tenant)
      heard.length = 0
      await change()
      assert.ok((await policyVersion(pool, tenant)) > before, `${what} does not raise the policy version`)
      await until(`${what} is told`, () => heard.includes(tenant))
    }
    let product: Product | undefined
    await raises('a new product', async () => {
      product = await registry.product(tenant)
    })
    const { id } = product as Product
    const before = await policyVersion(pool, tenant)
    await updateProduct(pool, tenant, id, { description: 'in other words', classification: 'internal' })
    assert.equal(await policyVersion(pool, tenant), before)
    const grant = await grantProduct(pool, grantOn(product as Product))
    await raises('a wider grant', () => grantProduct(pool, { ...grantOn(product as Product), classes: ['*'] }))
    await raises('a revocation', () => revokeProductGrant(pool, tenant, id, grant.id))
    await raises('a new class', () => updateProduct(pool, tenant, id, { classification: 'restricted' }))
    await raises('a new version', () => updateProduct(pool, tenant, id, { currentVersion: '1.0.0' }))
    await raises('a new status', () => updateProduct(pool, tenant, id, { status: 'retired' }))
    const connection = await registry.connection(tenant)
    const raw = {
      tenant,
      connectionId: connection.id,
      tableName: null,
      subjectType: 'user',
      subject: 'b',
      issuer: ANN.issuer,
    }
    await raises('a raw grant', () => grantRawTable(pool, { ...raw, subjectType: 'user', grantedBy: ANN }))
    await raises('its end with the connection', () =>
      inTransaction(pool, (tx) => deleteConnection(tx, tenant, connection.id)),
    )
    await raises('the end of a product', () => inTransaction(pool, (tx) => deleteProduct(tx, tenant, id)))
    await raises('a change from outside', () => raiseAllPolicyVersions(pool))
    assert.equal((await policyVersions(pool)).get(tenant), await policyVersion(pool, tenant))
    await listener.close()
  })

  it('stays with a change that was rolled back, and ends with the tenant', async () => {
    const tenant = await registry.tenant()
    const product = await registry.product(tenant)
    const before = await policyVersion(pool, tenant)
    const failing = inTransaction(pool, async (tx) => {
      await grantProduct(tx, grantOn(product))
      throw new Error('no')
    })
    await assert.rejects(failing)
    assert.equal(await policyVersion(pool, tenant), before)
    await grantProduct(pool, grantOn(product))
    await inTransaction(pool, (tx) => deleteTenant(tx, tenant))
    assert.equal(await policyVersion(pool, tenant), 0)
  })
})

describe('the audit log', () => {
  const record = (tenant: string | null, action: string) =>
    appendAudit(pool, { tenant, actor: ANN, action, objectType: 'product', objectId: 'p', outcome: 'allowed' })

  it('takes records and refuses every other change', async () => {
    const tenant = await registry.tenant()
    const kept = await record(tenant, 'product.read')
    for (const statement of [
      'update audit_log set outcome = $$denied$$',
      'delete from audit_log',
      'truncate audit_log',
      'truncate audit_log, tenants cascade',
    ]) {
      await assert.rejects(pool.query(statement), { code: '42501' }, statement)
    }
    await inTransaction(pool, (tx) => deleteTenant(tx, tenant))
    const { items } = await listAudit(pool, tenant, { limit: 10, after: null })
    assert.deepEqual(items, [kept])
  })

  it('is read newest first, by tenant, each record once', async () => {
    const tenant = await registry.tenant()
    for (const action of ['a', 'b', 'c']) await record(tenant, action)
    const global = await record(null, 'config.change')
    const page = await listAudit(pool, tenant, { limit: 2, after: null })
    assert.deepEqual(
      page.items.map(({ action }) => action),
      ['c', 'b'],
    )
    const rest = await listAudit(pool, tenant, { limit: 2, after: page.next })
    assert.deepEqual([rest.items.map(({ action }) => action), rest.next], [['a'], null])
    assert.deepEqual((await listAudit(pool, tenant, { limit: 9, after: null }, { action: 'b' })).items.length, 1)
    assert.deepEqual((await listAudit(pool, null, { limit: 1, after: null })).items, [global])
  })
})
