/** That a copy is lost only where a second look finds it too, and that a removal is no loss of anybody. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { isSluiceError, openTenantScope, SluiceError, tenantOf } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { endpointStates, endpointsDue, endpointsLeaving } from '../registry/endpoint-states.ts'
import { raiseFence } from '../registry/fences.ts'
import type { Product } from '../registry/products.ts'
import { type Endpoint, rowsTo, type Store, startWorld } from './copies-under-test.fixture.ts'
import { afterWriters, withProductLock } from './product-lock.ts'
import { confirmLoss, reviewStores } from './store-review.ts'

// So slow that rows are counted and not read: what is looked for here is whether copies are there.
const world = await startWorld({ everyMs: 3_600_000, rowsPerSecond: 0.01, share: 1 })
after(() => world[Symbol.asyncDispose]())
const { pool, compare, sync } = world

const LOOKUP: Endpoint = { type: 'lookup', config: {} }

async function statesOf(product: Product): Promise<readonly string[]> {
  const states = await endpointStates(pool, product.id)
  return states.map(({ variant, state, error }) => `${variant} ${state}${error === null ? '' : ` ${error.message}`}`)
}

const SIGNAL = new AbortController().signal
const LOST = 'the copy in the store cannot be read'
const GONE = 'the store no longer has its copy'

// Two tenants' products of one name, which share a table in stores that are databases. Each test leaves both in order.
const store = await world.openStore('lookup')
const product = await world.product([LOOKUP])
const other = await world.product([LOOKUP], undefined, product.name)
for (const one of [product, other]) {
  await world.epoch(one, 1, rowsTo(12))
  await sync(one, store)
}
const { honest, lies } = store

async function mended(): Promise<void> {
  for (const hook of Object.keys(lies) as (keyof typeof lies)[]) delete lies[hook]
  for (const one of [product, other]) {
    await sync(one, store)
    assert.deepEqual(await statesOf(one), ORDER)
  }
}

const ORDER = ['clear ok', 'masked ok']

const refused = (code: string) => async (): Promise<never> => {
  throw new SluiceError('CONFLICT', 'as tests want it', { code })
}

/** The first look finds no policy; from the second on the truth is told. */
function onceBlind(then: () => Promise<void> = async () => undefined): void {
  const describe = async () => {
    delete lies.rls
    await then()
    return refused('policy_missing')()
  }
  lies.rls = { describe } as never
}

test('a copy that only the first look finds lost is not taken from its readers, nor are those beside it', async () => {
  onceBlind()
  assert.deepEqual(await compare(product, store), ['moved', 'in_order'])
  for (const one of [product, other]) assert.deepEqual(await statesOf(one), ORDER)
})

test('of a store that does not answer the second look nothing is known', async () => {
  onceBlind(async () => {
    lies.rls = {
      ...honest.rls,
      describe: async () => {
        throw new SluiceError('TRANSIENT', 'away', { code: 'store_unavailable' })
      },
    }
  })
  assert.deepEqual((await compare(product, store))[0], 'failed')
  assert.deepEqual(await statesOf(product), ORDER)
  await mended()
})

test('a copy that both looks find damaged is lost, and those beside it that are damaged too', async () => {
  lies.rls = { describe: refused('policy_missing') } as never
  assert.deepEqual(await compare(product, store), ['lost'])
  for (const one of [product, other]) {
    assert.deepEqual(await statesOf(one), [`clear pending ${LOST}`, `masked pending ${LOST}`])
  }
  await mended()
  for (const one of [product, other]) assert.deepEqual(await compare(one, store), ['in_order', 'in_order'])
})

test('of the copies beside a damaged one, those that are in order stay as they are', async () => {
  const describe: Store['rls']['describe'] = (target) =>
    tenantOf(target.scope) === product.tenant ? refused('policy_missing')() : honest.rls.describe(target)
  lies.rls = { ...honest.rls, describe }
  const before = await endpointStates(pool, other.id)
  assert.deepEqual(await compare(product, store), ['lost'])
  assert.deepEqual(await statesOf(product), [`clear pending ${LOST}`, `masked pending ${LOST}`])
  assert.deepEqual(await endpointStates(pool, other.id), before)
  await mended()
})

test('a copy that is gone is the loss of that product alone', async () => {
  store.memory.delete({
    scope: openTenantScope(product.tenant),
    domain: product.domain,
    product: product.name,
    variant: 'clear',
  })
  assert.deepEqual(await compare(product, store), ['lost', 'in_order'])
  assert.deepEqual(await statesOf(product), [`clear pending ${GONE}`, 'masked ok'])
  assert.deepEqual(await statesOf(other), ORDER)
  await mended()
})

test('while somebody has the product, nothing is noted of what a look found', async () => {
  await withProductLock(pool, product.id, SIGNAL, async () => {
    lies.rls = { describe: refused('policy_missing') } as never
    assert.deepEqual(await compare(product, store), ['moved', 'moved'])
    lies.recover = async () => null
    await reviewStores(world.deps(store), SIGNAL)
  })
  assert.deepEqual(await statesOf(product), ORDER)
  await mended()
})

test('the review of stores looks twice, and notes what both looks find', async () => {
  let looks = 0
  lies.recover = async (target) => {
    looks += 1
    return looks % 2 === 1 ? null : ((await honest.recover?.(target)) ?? null)
  }
  assert.equal(await reviewStores(world.deps(store), SIGNAL), 0)
  assert.deepEqual(await statesOf(product), ORDER)
  lies.recover = async (target) => (target.variant === 'clear' ? null : ((await honest.recover?.(target)) ?? null))
  assert.equal(await reviewStores(world.deps(store), SIGNAL), 2)
  for (const one of [product, other]) assert.deepEqual(await statesOf(one), [`clear pending ${GONE}`, 'masked ok'])
  await mended()
})

test('a place that was damaged for a moment, or is removed while it is written, takes no others with it', async () => {
  await world.epoch(product, 2, rowsTo(12))
  let writes = 0
  lies.write = (...asked) => {
    writes += 1
    return writes === 1 ? refused('schema_conflict')() : honest.write(...asked)
  }
  await sync(product, store)
  assert.deepEqual(await statesOf(product), ORDER)
  await world.epoch(product, 3, rowsTo(12))
  lies.write = async () => {
    await inTransaction(pool, (tx) => raiseFence(tx, product.id))
    return refused('not_provisioned')()
  }
  // A writer looks every two seconds whether it was overtaken: on a slow machine that is how it ends.
  await sync(product, store).catch((error) => assert.ok(isSluiceError(error, 'FENCED'), String(error)))
  assert.deepEqual(await statesOf(product), ['clear pending', 'masked pending'])
  lies.write = refused('not_provisioned')
  await sync(product, store)
  assert.deepEqual(await statesOf(product), [`clear failed ${LOST}`, `masked failed ${LOST}`], 'damaged twice')
  assert.deepEqual(await statesOf(other), ORDER)
  await mended()
})

test('a removal that comes between two looks is no loss of anybody', async () => {
  onceBlind(async () => {
    await endpointsLeaving(pool, product.tenant, null)
    await honest.dropTenant(openTenantScope(product.tenant))
  })
  assert.deepEqual(await compare(product, store), ['moved'])
  assert.deepEqual(await statesOf(product), ['clear pending', 'masked pending'])
  assert.deepEqual(await statesOf(other), ORDER)
  await mended()
})

test('losses of many products at once leave connections for those who confirm them', async () => {
  const keys = Array.from({ length: 40 }, (_, at) => ({
    productId: `none${at}`,
    endpoint: 'lookup',
    variant: 'clear',
    place: 'first' as const,
  }))
  const confirmed = keys.map((key) => confirmLoss(world.deps(store), key, 1, async () => 'emptied'))
  assert.deepEqual([...new Set(await Promise.all(confirmed))], [null])
})

test('a removal waits for who writes the product, and not for ever', async () => {
  const order: string[] = []
  const removing = (waitMs: number) =>
    afterWriters(pool, product.id, waitMs, SIGNAL, async () => void order.push('removed'))
  const { promise: written, resolve } = Promise.withResolvers<void>()
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const writing = withProductLock(pool, product.id, SIGNAL, async () => {
    await removing(0)
    begin()
    await written
    order.push('written')
  })
  await begun
  const removal = removing(60_000)
  setTimeout(resolve, 300)
  await Promise.all([writing, removal])
  assert.deepEqual(order, ['removed', 'written', 'removed'])
})

test('copies that are being removed are neither looked for nor brought back', async () => {
  await endpointsLeaving(pool, product.tenant, product.id)
  await honest.dropTenant(openTenantScope(product.tenant))
  assert.deepEqual(await compare(product, store), [])
  await reviewStores(world.deps(store), SIGNAL)
  assert.deepEqual(await statesOf(product), ['clear pending', 'masked pending'])
  assert.deepEqual(await statesOf(other), ORDER)
  assert.ok((await endpointsDue(pool, 1_000)).every(({ productId }) => productId !== product.id))
})
