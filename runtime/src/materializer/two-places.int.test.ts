/** Versions whose rows a store cannot take in the place of those that it serves: which place has what, whatever happens in between. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { isSluiceError, openTenantScope, SluiceError, type Target } from '@sluice/sdk'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import {
  type EndpointState,
  endpointPending,
  endpointStates,
  endpointsDue,
  eraseCopies,
  leftoverDropped,
  leftoverExpected,
  type Place,
} from '../registry/endpoint-states.ts'
import { raiseFence } from '../registry/fences.ts'
import type { Product } from '../registry/products.ts'
import { ANN } from '../registry/testing.ts'
import { saveVersion } from '../registry/versions.ts'
import { type Endpoint, rowsTo, type StoreUnderTest, startWorld } from './copies-under-test.fixture.ts'
import { nameInStore } from './places.ts'
import { dropAllCopies } from './store-copies.ts'
import { reviewStores } from './store-review.ts'

const world = await startWorld()
after(() => world[Symbol.asyncDispose]())
const { pool, sync } = world
const SIGNAL = new AbortController().signal

const LOOKUP: Endpoint = { type: 'lookup', config: {} }
const VARIANTS = ['clear', 'masked']
/** Each order of the columns is in the way of the other one. */
const ORDERS = [
  ['id', 'name', 'score'],
  ['id', 'score', 'name'],
] as const

const COLUMNS = {
  id: { type: 'integer', nullable: false, role: 'identity', classification: 'none' },
  name: { type: 'string', nullable: true, classification: 'pii.name' },
  score: { type: 'double', nullable: true, classification: 'none' },
}

/** Version `number`.0.0, whose columns stand in the order of the number. */
async function version(product: Product, number: number, endpoint = LOOKUP): Promise<void> {
  const order = ORDERS[(number + 1) % 2] as (typeof ORDERS)[0]
  const columns = order.map((name) => ({ name, description: '', ...COLUMNS[name] }))
  const normalised = { output: { columns, primaryKey: ['id'] }, inputs: [], serving: { endpoints: [endpoint] } }
  const kept = { productId: product.id, version: `${number}.0.0`, digest: `${number}.0.0`, manifests: {}, normalised }
  await inTransaction(pool, (tx) => saveVersion(tx, { ...kept, deployedBy: ANN }))
}

interface Subject {
  readonly product: Product
  readonly store: StoreUnderTest
}

/** A product whose first epoch the store serves, and whose second one is of a version that is in its way; or of the same one. */
async function inTheWay(endpoint = LOOKUP, number: 1 | 2 = 2): Promise<Subject> {
  const [product, store] = [await world.product([endpoint]), await world.openStore('lookup')]
  await world.epoch(product, 1, rowsTo(7))
  await sync(product, store)
  if (number === 2) await version(product, 2, endpoint)
  await world.epoch(product, 2, rowsTo(8), `${number}.0.0`)
  return { product, store }
}

/** Of each variant: place, epoch, and whether something is left; and what the store has, by the names that it knows. */
async function standing(product: Product, { memory }: StoreUnderTest) {
  const states = await endpointStates(pool, product.id)
  const said = states.map(({ variant, place, appliedEpoch, leftover, state }) =>
    [variant, place, appliedEpoch, state, ...(leftover ? ['leftover'] : [])].join(' '),
  )
  const names = VARIANTS.flatMap((variant) => [nameInStore(variant, 'first'), nameInStore(variant, 'second')])
  return { said, stored: names.filter((variant) => memory.get({ ...addressOf(product), variant })) }
}
const addressOf = ({ tenant, domain, name }: Product) => ({ scope: openTenantScope(tenant), domain, product: name })
const saying = (place: Place, epoch: number, more = '') =>
  VARIANTS.map((variant) => `${variant} ${place} ${epoch} ok${more}`)
const SECOND = VARIANTS.map((variant) => nameInStore(variant, 'second'))
const BOTH = VARIANTS.flatMap((variant) => [variant, nameInStore(variant, 'second')])

async function isDue({ id }: Product): Promise<boolean> {
  return (await endpointsDue(pool, 1_000)).some(({ productId }) => productId === id)
}

/** As if it read the lake's own tables. */
function ofLake({ serving, ...store }: StoreUnderTest): StoreUnderTest {
  const capabilities = { ...serving.plugin.capabilities, commit: 'lake' }
  return { ...store, serving: { ...serving, plugin: { ...serving.plugin, capabilities } as never } }
}

/** A writer whom another overtakes meanwhile: it may hear of that before it is done. */
async function overtaken(product: Product, store: StoreUnderTest): Promise<void> {
  await sync(product, store).catch((error: unknown) => assert.ok(isSluiceError(error, 'FENCED'), String(error)))
}

test('a version that is in the way is written beside the rows that are served, and back again; the former ones go', async () => {
  const { product, store } = await inTheWay()
  const met = new Set<string>()
  store.lies.write = async (target, changes, commit) => {
    const { said } = await standing(product, store)
    const [variant] = target.variant.split('_')
    met.add(`${target.variant}: ${said.find((one) => one.startsWith(variant as string))}`)
    return store.honest.write(target, changes, commit)
  }
  await sync(product, store)
  assert.deepEqual(
    [...met].sort(),
    VARIANTS.map((variant) => `${variant}_second: ${variant} first 1 pending leftover`),
    'reads go on by the former epoch',
  )
  assert.deepEqual(await standing(product, store), { said: saying('second', 2, ' leftover'), stored: BOTH })
  delete store.lies.write
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('second', 2), stored: SECOND })
  await version(product, 3)
  await world.epoch(product, 3, rowsTo(9), '3.0.0')
  await sync(product, store)
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('first', 3), stored: VARIANTS })
})

test('what a switch has left is due by itself, when no read can be on its way any more', async () => {
  const { product, store } = await inTheWay()
  await sync(product, store)
  assert.equal(await isDue(product), false)
  const text = "update endpoint_states set next_retry_at = next_retry_at - interval '15 seconds' where product_id = $1"
  await pool.query(text, [product.id])
  assert.equal(await isDue(product), true)
  await sync(product, store)
  assert.equal(await isDue(product), false)
})

test('a store that cannot have both places goes on with what it serves, and is tried again', async () => {
  const { product, store } = await inTheWay()
  store.lies.write = async () => {
    throw new SluiceError('TRANSIENT', 'no room', { code: 'store_unavailable' })
  }
  await sync(product, store)
  const { said } = await standing(product, store)
  assert.deepEqual(
    said,
    VARIANTS.map((variant) => `${variant} first 1 failed leftover`),
  )
  delete store.lies.write
  await sync(product, store)
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('second', 2), stored: SECOND })
})

test('a writer whom another has overtaken brings no place into service', async () => {
  const { product, store } = await inTheWay()
  let isOvertaken = false
  store.lies.write = async (target, changes, commit) => {
    const receipt = await store.honest.write(target, changes, commit)
    if (!isOvertaken) await raiseFence(pool, product.id)
    isOvertaken = true
    return receipt
  }
  await overtaken(product, store)
  const { said } = await standing(product, store)
  assert.deepEqual(
    said.map((one) => one.includes('first 1')),
    [true, true],
  )
  await sync(product, store)
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('second', 2), stored: SECOND })
})

test('what an overtaken writer has written beside after the other had emptied that place is noted again, and goes', async () => {
  const { product, store } = await inTheWay()
  const text = 'update endpoint_states set leftover = false where product_id = $1 and variant = $2'
  store.lies.write = async (target, changes, commit) => {
    await raiseFence(pool, product.id)
    await pool.query(text, [product.id, target.variant.split('_')[0]])
    return store.honest.write(target, changes, commit)
  }
  await overtaken(product, store)
  await until('both copies have it noted', async () => {
    const { said, stored } = await standing(product, store)
    return stored.length === BOTH.length && said.every((one) => one.endsWith(' leftover'))
  })
})

test('an overtaken writer neither empties the place that another serves by now, nor forgets what is left beside it', async () => {
  const { product, store } = await inTheWay()
  let other: Promise<unknown> | null = null
  store.lies.provision = async (target, mode, hash) => {
    if (other === null) await (other = sync(product, store))
    return store.honest.provision(target, mode, hash)
  }
  await overtaken(product, store)
  // He may have ended before the other, and what he had begun after that.
  await other
  await until('both copies have it noted', async () => {
    const { said } = await standing(product, store)
    return said.every((one) => /second 2 .* leftover/.test(one))
  })
  const areKept = async () => {
    const { said, stored } = await standing(product, store)
    assert.deepEqual([said.map((one) => /second 2 .* leftover/.test(one)), stored], [[true, true], BOTH])
  }
  await areKept()
  for (const state of await endpointStates(pool, product.id)) await leftoverDropped(pool, { ...state, place: 'first' })
  await areKept()
})

test('a place that is begun beside a copy in order is due, whatever becomes of who began it', async () => {
  const { product, store } = await inTheWay(LOOKUP, 1)
  await sync(product, store)
  assert.equal(await isDue(product), false)
  const [copy] = (await endpointStates(pool, product.id)) as [EndpointState]
  assert.equal(
    await leftoverExpected(pool, { ...copy, place: 'second' }),
    false,
    'of one that is served from there by now',
  )
  assert.equal(await isDue(product), false)
  assert.equal(await leftoverExpected(pool, copy), true)
  assert.equal(await isDue(product), true)
  await sync(product, store)
  assert.deepEqual(
    [await isDue(product), await standing(product, store)],
    [false, { said: saying('first', 2), stored: VARIANTS }],
  )
})

test('what a store that has one place alone is said to have left is due no more', async () => {
  const { product, store } = await inTheWay(LOOKUP, 1)
  await pool.query('update endpoint_states set leftover = true where product_id = $1', [product.id])
  await sync(product, ofLake(store))
  assert.deepEqual((await standing(product, store)).said, saying('first', 2))
  assert.equal(await isDue(product), false)
})

test('a twin that goes last is noted before the others come, and is not due again and again while they fail', async () => {
  const { product, store } = await inTheWay()
  await sync(product, store)
  await classed(product, 'none', 3)
  await world.epoch(product, 3, rowsTo(9), '3.0.0')
  const masked = async () => (await endpointStates(pool, product.id)).find(({ variant }) => variant === 'masked')
  for (const isWell of [true, false]) {
    const text = `update endpoint_states set state = $2, next_retry_at = clock_timestamp()
      where product_id = $1 and variant = 'masked'`
    await pool.query(text, [product.id, isWell ? 'ok' : 'pending'])
    const before = await masked()
    const met: EndpointState[] = []
    store.lies.write = async () => {
      met.push((await masked()) as EndpointState)
      throw new SluiceError('TRANSIENT', 'away', { code: 'store_unavailable' })
    }
    await sync(product, store)
    const noted = [...met, await masked()].map((one) => [
      one?.state,
      Number(one?.nextRetryAt) > Number(before?.nextRetryAt),
    ])
    assert.deepEqual(
      noted,
      [
        ['pending', true],
        ['pending', true],
      ],
      `when it is ${before?.state}`,
    )
  }
  delete store.lies.write
  await sync(product, store)
  assert.equal(await masked(), undefined)
})

test('a product that goes leaves nothing in either place', async () => {
  const { product, store } = await inTheWay()
  await sync(product, store)
  await dropAllCopies(product, world.deps(store))
  assert.deepEqual((await standing(product, store)).stored, [])
})

test('of copies that are to be made anew nothing stays in either place: rows are erased', async () => {
  const { product, store } = await inTheWay()
  await sync(product, store)
  await eraseCopies(pool, product.id)
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('second', 2), stored: SECOND })
})

test('a registry that was put back finds what is in the other place, and drops it', async () => {
  const { product, store } = await inTheWay()
  await sync(product, store)
  await sync(product, store)
  const target: Target<never> = {
    ...addressOf(product),
    variant: 'clear',
    schema: { columns: [], primaryKey: [] },
    config: {} as never,
  }
  const stored = store.memory.get({ ...target, variant: 'clear_second' })
  store.memory.set(target, stored as NonNullable<typeof stored>)
  await reviewStores(world.deps(store), SIGNAL)
  const { said } = await standing(product, store)
  assert.deepEqual(said, ['clear second 2 ok leftover', 'masked second 2 ok'])
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('second', 2), stored: SECOND })
})

test('where the place that is said to be served is gone, the copy is made anew there, and the other one is emptied', async () => {
  const { product, store } = await inTheWay()
  await sync(product, store)
  await sync(product, store)
  const text = "update endpoint_states set place = 'first', leftover = false where product_id = $1"
  await pool.query(text, [product.id])
  for (const variant of VARIANTS)
    await endpointPending(pool, { productId: product.id, endpoint: 'lookup', variant }, { rebuild: true })
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('first', 2), stored: VARIANTS })
})

test('a plan that would replace rows is not carried out under readers', async () => {
  const [product, store] = [await world.product([LOOKUP]), await world.openStore('lookup')]
  await world.epoch(product, 1, rowsTo(7))
  await sync(product, store)
  await world.version(product, '2.0.0', [LOOKUP])
  await world.epoch(product, 2, rowsTo(8), '2.0.0')
  store.lies.provision = async (target, mode, hash) => {
    if (mode === 'apply' || target.variant.endsWith('_second')) return store.honest.provision(target, mode, hash)
    return { steps: [{ action: 'replace', description: 'forget the values' }], hash: 'h' }
  }
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: saying('second', 2, ' leftover'), stored: BOTH })
})

for (const why of ['is of a version that is in the way', 'cannot be told from what the lake has kept'] as const) {
  test(`a history that ${why} begins anew beside the one that is read`, async () => {
    const history = { type: 'lookup', config: { history_mode: 'type_2' } as never }
    const { product, store } = await inTheWay(history, why === 'is of a version that is in the way' ? 2 : 1)
    const text = "update materializations set snapshots = '{}' where product_id = $1 and epoch = 1"
    await pool.query(text, [product.id])
    await sync(product, store)
    assert.deepEqual(await standing(product, store), { said: saying('second', 2, ' leftover'), stored: BOTH })
  })
}

/** Version `number`.0.0, with `name` as that class. */
async function classed(product: Product, classification: string, number = 2): Promise<void> {
  const columns = ORDERS[0].map((name) => ({
    ...{ name, description: '', ...COLUMNS[name] },
    ...(name === 'name' && { classification }),
  }))
  const normalised = { output: { columns, primaryKey: ['id'] }, inputs: [], serving: { endpoints: [LOOKUP] } }
  const [name, manifests] = [`${number}.0.0`, {}]
  const kept = { productId: product.id, version: name, digest: name, manifests, normalised, deployedBy: ANN }
  await inTransaction(pool, (tx) => saveVersion(tx, kept))
}

test('a twin that a version has no more goes when the copy in clear is of that version, and not before', async () => {
  const [product, store] = [await world.product([LOOKUP]), await world.openStore('lookup')]
  await world.epoch(product, 1, rowsTo(7))
  await sync(product, store)
  await classed(product, 'none')
  await world.epoch(product, 2, rowsTo(8), '2.0.0')
  store.lies.write = async () => {
    throw new SluiceError('TRANSIENT', 'away', { code: 'store_unavailable' })
  }
  await sync(product, store)
  assert.deepEqual((await standing(product, store)).stored, VARIANTS)
  delete store.lies.write
  await sync(product, store)
  assert.deepEqual(await standing(product, store), { said: ['clear first 2 ok'], stored: ['clear'] })
})

test('a twin that a version has first is there before the copy in clear is of that version', async () => {
  const [product, store] = [await world.product([LOOKUP]), await world.openStore('lookup')]
  await pool.query(
    `update product_versions set normalised = jsonb_set(normalised, '{output,columns,1,classification}', '"none"')
     where product_id = $1`,
    [product.id],
  )
  await world.epoch(product, 1, rowsTo(7))
  await sync(product, store)
  await classed(product, 'pii.name')
  await world.epoch(product, 2, rowsTo(8), '2.0.0')
  const met: (readonly string[])[] = []
  store.lies.write = async (target, changes, commit) => {
    met.push([target.variant, ...(await standing(product, store)).said])
    return store.honest.write(target, changes, commit)
  }
  await sync(product, store)
  assert.deepEqual(met, [
    ['masked', 'clear first 1 pending'],
    ['clear', 'clear first 1 pending', 'masked first 2 ok'],
  ])
})

test('a store of the lake’s own tables keeps the one place that it finds them by', async () => {
  const { product, store } = await inTheWay()
  await sync(product, ofLake(store))
  assert.deepEqual(await standing(product, store), { said: saying('first', 2), stored: VARIANTS })
})
