/** What a product that is made anew under a name counts from: every way to end a product, beside every way to begin one. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type pg from 'pg'
import { until } from '../../../test/until.ts'
import { migrate } from '../database/migrate.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { changeBacklog, expectChangeTopic } from './change-topics.ts'
import { endpointApplied, endpointStates } from './endpoint-states.ts'
import { lockFence, raiseFence } from './fences.ts'
import { materializedOnce, materializedTimes } from './former-products.fixture.ts'
import { newId } from './ids.ts'
import { epochAsOf, latestEpoch } from './materializations.ts'
import { formerProducts } from './migrations/104-former-products.ts'
import { registryMigrations } from './migrations.ts'
import { createPreview } from './previews.ts'
import { createProduct, deleteProduct, type Product } from './products.ts'
import { followsOf, setFollows } from './schedule-follows.ts'
import { deleteTenant } from './tenants.ts'
import { ANN, startTestRegistry, type TestRegistry } from './testing.ts'

let registry: TestRegistry
let pool: pg.Pool

before(async () => {
  registry = await startTestRegistry()
  pool = registry.pool
})
after(() => registry?.[Symbol.asyncDispose]())

type Place = Pick<Product, 'tenant' | 'domain' | 'name'>

const create = (place: Place): Promise<Product> =>
  inTransaction(pool, (tx) => createProduct(tx, { ...place, archetype: 'aggregate', createdBy: ANN }))

/** As a release does that knows nothing of former products. */
async function createBefore(place: Place, db = pool): Promise<Product> {
  const id = newId('prd')
  await db.query(
    `insert into products (id, tenant, domain, name, archetype, created_by) values ($1, $2, $3, $4, 'aggregate', '{}')`,
    [id, place.tenant, place.domain, place.name],
  )
  await db.query('insert into product_fences (product_id) values ($1)', [id])
  return { ...place, id } as Product
}

async function previewOf(place: Place): Promise<Product> {
  const { rows } = await pool.query('select id from products where tenant = $1 and name = $2', [
    place.tenant,
    'previewed',
  ])
  const id = rows[0]?.id ?? (await create({ ...place, name: 'previewed' })).id
  const of = { ...place, id, name: 'previewed', archetype: 'aggregate' } as Product
  return inTransaction(pool, (tx) => createPreview(tx, of, { days: 1, createdBy: ANN }))
}

const BEGINNINGS = {
  'as a product': create,
  'by a release before': (place: Place) => createBefore(place),
  'as a preview': previewOf,
}
const ENDS = {
  'as a product': ({ id, tenant }: Product) => inTransaction(pool, (tx) => deleteProduct(tx, tenant, id)),
  'by a release before': ({ id }: Product) => pool.query('delete from products where id = $1', [id]),
}

const fenceOf = ({ id }: Pick<Product, 'id'>, db = pool) => inTransaction(db, (tx) => lockFence(tx, id))

describe('a product that is made anew under a name', () => {
  for (const [begun, begin] of Object.entries(BEGINNINGS)) {
    for (const [ended, end] of Object.entries(ENDS)) {
      it(`goes on above all numbers that the name has had: begun ${begun}, deleted ${ended}`, async () => {
        const place = { tenant: await registry.tenant(), domain: 'crm', name: 'people' }
        let [epochs, token] = [0, 0n]
        // Some are made often, some once, and some were never made.
        for (const runs of [3, 0, 1, 0, 0, 2]) {
          const product = await begin(place)
          const fresh = await fenceOf(product)
          assert.deepEqual([fresh.epoch, fresh.nextEpoch], [0, epochs + 1], 'none, though others were')
          assert.equal(await latestEpoch(pool, product.id), null)
          const last = await materializedTimes(pool, product, runs)
          if (runs > 0) assert.equal(last, epochs + runs)
          const raised = await inTransaction(pool, (tx) => raiseFence(tx, product.id))
          if (epochs > 0) assert.ok(raised.token > token, 'writers of the former one are former writers')
          epochs += runs
          token = raised.token
          await end(product)
        }
      })
    }
  }

  it('begins with 1 in another tenant and another namespace, and where the former one had no epoch', async () => {
    const place = { tenant: await registry.tenant(), domain: 'crm', name: 'people' }
    const others = [
      { ...place, domain: 'sales' },
      { ...place, tenant: await registry.tenant() },
      { ...place, name: 'p' },
    ]
    const product = await create(place)
    await materializedTimes(pool, product, 4)
    await ENDS['as a product'](product)
    for (const other of others) assert.equal((await fenceOf(await create(other))).nextEpoch, 1)
    const unmade = { ...place, name: 'unmade' }
    for (let times = 0; times < 2; times += 1) {
      const one = await create(unmade)
      await inTransaction(pool, (tx) => raiseFence(tx, one.id))
      assert.equal((await fenceOf(one)).token, 1n)
      await ENDS['as a product'](one)
    }
    const { rows } = await pool.query('select name from former_products where tenant = $1', [place.tenant])
    assert.deepEqual(rows, [{ name: 'people' }], 'of what had no epoch nothing is kept')
  })

  it('counts nothing that it has not made itself', async () => {
    const place = { tenant: await registry.tenant(), domain: 'crm', name: 'people' }
    const former = await create(place)
    await materializedTimes(pool, former, 20)
    await ENDS['as a product'](former)
    const product = await create(place)
    const follows = async (): Promise<readonly number[]> => {
      const [follow] = await followsOf(pool, schedule.id)
      return [follow?.seenEpoch ?? -1, follow?.epoch ?? -1]
    }
    const schedule = await create({ ...place, name: 'later' })
    await pool.query(
      `insert into schedules (id, tenant, product_id, schedule, created_by, token_issued_at, since, ticked_at, next_run_at)
       values ($1, $2, $1, '{}', '{}', now(), now(), now(), now())`,
      [schedule.id, place.tenant],
    )
    await inTransaction(pool, (tx) => setFollows(tx, schedule.id, [{ name: 'crm.people', id: product.id }]))
    assert.deepEqual(await follows(), [0, 0], 'nothing has come that a schedule would wait for')
    const topic = { productId: product.id, variant: 'clear', tenant: place.tenant, topic: 't' } as const
    await expectChangeTopic(pool, topic)
    const behind = async () => Math.max(...(await changeBacklog(pool)).map((one) => one.behind))
    assert.equal(await behind(), 0)
    const made = await materializedOnce(pool, product)
    assert.equal(made.epoch, 21)
    assert.deepEqual([await follows(), await behind()], [[0, 21], 1])
    assert.equal(await epochAsOf(pool, product.id, new Date(made.committedAt.getTime() - 1)), null)
    const copy = { productId: product.id, endpoint: 'lookup', variant: 'clear' }
    await endpointApplied(pool, copy, 21)
    assert.deepEqual(
      (await endpointStates(pool, product.id)).map(({ state, appliedEpoch }) => [state, appliedEpoch]),
      [['ok', 21]],
    )
  })

  it('leaves nothing behind its tenant', async () => {
    const place = { tenant: await registry.tenant(), domain: 'crm', name: 'people' }
    const former = await create(place)
    await materializedTimes(pool, former, 2)
    await ENDS['as a product'](former)
    for (const name of ['people', 'first']) await materializedTimes(pool, await create({ ...place, name }), 2)
    await inTransaction(pool, (tx) => deleteTenant(tx, place.tenant))
    const { rows } = await pool.query('select name from former_products where tenant = $1', [place.tenant])
    assert.deepEqual(rows, [])
  })

  it('has the last number of one whose last epoch was committed while it was deleted', async () => {
    const place = { tenant: await registry.tenant(), domain: 'crm', name: 'people' }
    const product = await create(place)
    await materializedTimes(pool, product, 1)
    const writer = await pool.connect()
    try {
      await writer.query('begin')
      await writer.query('update product_fences set epoch = epoch + 1 where product_id = $1', [product.id])
      const deleting = ENDS['as a product'](product)
      await waitsForAnother()
      await writer.query('commit')
      await deleting
    } finally {
      writer.release()
    }
    assert.equal((await fenceOf(await create(place))).nextEpoch, 3)
  })
})

async function waitsForAnother(): Promise<void> {
  const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
  await until('the deletion waits', async () => ((await pool.query(waiting)).rowCount ?? 0) > 0)
}

describe('a registry of a release before', () => {
  it('goes on with the numbers that its products have, and keeps them from then on', async () => {
    const { migrations } = registryMigrations
    const former = migrations.slice(0, migrations.indexOf(formerProducts))
    const database = await (await startTestPostgres()).createDatabase({
      migrations: [{ ...registryMigrations, migrations: former }],
    })
    await using _ = { [Symbol.asyncDispose]: () => database.drop() }
    const old = database.pool({ maxConnections: 2 })
    await old.query("insert into tenant_slugs (slug) values ('acme')")
    await old.query("insert into tenants (slug, display_name, tier, status) values ('acme', 'a', 'standard', 'active')")
    await old.query("insert into policy_versions (tenant) values ('acme')")
    const made = { tenant: 'acme', domain: 'crm' } as const
    const [kept, gone] = [
      await createBefore({ ...made, name: 'kept' }, old),
      await createBefore({ ...made, name: 'gone' }, old),
    ]
    await old.query('update product_fences set epoch = 5, token = 9, epoch_committed_at = now()')
    await old.query('delete from products where id = $1', [gone.id])
    await migrate(old, [registryMigrations])
    assert.equal((await fenceOf(await createBefore({ ...made, name: 'gone' }, old), old)).nextEpoch, 1, 'nobody knows')
    assert.equal((await materializedOnce(old, kept)).epoch, 6)
    await old.query('delete from products where id = $1', [kept.id])
    const anew = await fenceOf(await createBefore({ ...made, name: 'kept' }, old), old)
    assert.deepEqual([anew.epoch, anew.nextEpoch, anew.token], [0, 7, 10n])
  })
})
