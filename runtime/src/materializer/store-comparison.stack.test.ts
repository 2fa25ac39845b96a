import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openTenantScope, type Row } from '@sluice/sdk'
import { endpointStates } from '../registry/endpoint-states.ts'
import type { Product } from '../registry/products.ts'
import { toldDrifts } from '../registry/store-comparisons.ts'
import { comparisonJob } from './comparison-job.ts'
import { type Endpoint, rowsTo, type StoreUnderTest, startWorld } from './copies-under-test.fixture.ts'
import { withProductLock } from './product-lock.ts'

const world = await startWorld()
after(() => world[Symbol.asyncDispose]())
const { pool, compare, sync } = world

const LOOKUP: Endpoint = { type: 'lookup', config: {} }
const HISTORY: Endpoint = { type: 'lookup', config: { history_mode: 'type_2', tracked_columns: ['score'] } }
const REALTIME: Endpoint = {
  type: 'realtime',
  config: { key_template: '{id}', ttl: '1h', include_columns: ['id', 'score'] },
}

type Change = (rows: readonly Row[]) => readonly Row[]

/** Somebody else writes to the store. */
function tamper({ memory }: StoreUnderTest, { tenant, domain, name }: Product, variant: string, change: Change): void {
  const stored = memory.get({ scope: openTenantScope(tenant), domain, product: name, variant })
  assert.ok(stored)
  stored.contents = stored.contents.map((content) => {
    const rows = change(content.versions.map(({ row }) => row))
    const versions = rows.map((row, at) => ({ ...(content.versions[at] ?? content.versions[0]), key: `${at}`, row }))
    return { ...content, versions: versions as typeof content.versions }
  })
}

const oneCell: Change = (rows) => rows.map((row, at) => (at === 2 ? [row[0] ?? null, 'somebody', row[2] ?? null] : row))

async function statesOf(product: Product): Promise<readonly string[]> {
  const states = await endpointStates(pool, product.id)
  return states.map(({ variant, state, error }) => `${variant} ${state}${error === null ? '' : ` ${error.message}`}`)
}

const DRIFTED = 'the copy in the store differs from the rows in the lake'

const told = async (product: Product) =>
  (await toldDrifts(pool, product.id)).map(({ endpoint, isLasting }) => `${endpoint}${isLasting ? ' lasts' : ''}`)

async function served(endpoint: Endpoint, rows = 12): Promise<{ product: Product; store: StoreUnderTest }> {
  const [product, store] = [await world.product([endpoint]), await world.openStore(endpoint.type)]
  await world.epoch(product, 1, rowsTo(rows))
  await sync(product, store)
  return { product, store }
}

/** How often each hook was called. */
function counted({ lies, honest }: StoreUnderTest) {
  const calls = { read: 0, digest: 0, write: 0 }
  lies.read = (...asked) => {
    calls.read += 1
    return honest.read(...asked)
  }
  lies.digest = (target, signal) => {
    calls.digest += 1
    return honest.digest?.(target, signal) as never
  }
  lies.write = (...asked) => {
    calls.write += 1
    return honest.write(...asked)
  }
  return calls
}

test('each variant is compared with its own rows in the lake; from then on its digest tells', async () => {
  const { product, store } = await served(LOOKUP)
  const calls = counted(store)
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
  assert.ok(calls.read > 0)
  calls.read = 0
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
  assert.equal(calls.read, 0, 'no row is read again')
  assert.equal(calls.write, 0)
})

test('a row that somebody changed before it was ever compared is found, and its copy alone is written anew', async () => {
  const { product, store } = await served(LOOKUP)
  tamper(store, product, 'masked', oneCell)
  assert.deepEqual(await compare(product, store), ['in_order', 'drifted'])
  assert.deepEqual(await statesOf(product), ['clear ok', `masked pending ${DRIFTED}`])
  const { rows: events } = await pool.query('select type, data from events where subject = $1', [product.id])
  assert.deepEqual(events, [
    { type: 'sluice.materialization.store_drifted', data: { endpoint: 'lookup', epoch: 1, found_by: 'rows' } },
  ])
  assert.deepEqual(await told(product), ['lookup'])
  const calls = counted(store)
  await sync(product, store)
  assert.equal(calls.write, 1)
  assert.deepEqual(await statesOf(product), ['clear ok', 'masked ok'])
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
})

test('a digest that is another at the same epoch tells of a change', async () => {
  const { product, store } = await served(LOOKUP)
  await compare(product, store)
  tamper(store, product, 'clear', oneCell)
  assert.deepEqual(await compare(product, store), ['drifted', 'in_order'])
  await sync(product, store)
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
})

test('rows that are missing, or are too many, are found', async () => {
  for (const change of [
    (rows: readonly Row[]) => rows.slice(1),
    (rows: readonly Row[]) => [...rows, [99, 'somebody', 1] as Row],
  ]) {
    const { product, store } = await served(LOOKUP)
    tamper(store, product, 'clear', change)
    assert.deepEqual(await compare(product, store), ['drifted', 'in_order'])
  }
})

test('more rows than a page has are compared whole', async () => {
  const { product, store } = await served(LOOKUP, 2_500)
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
  tamper(store, product, 'clear', (rows) => rows.map((row, at) => (at === 2_400 ? [row[0] ?? null, 'x', 1] : row)))
  await pool.query('update store_comparisons set digest = null where product_id = $1', [product.id])
  assert.deepEqual(await compare(product, store), ['drifted', 'in_order'])
})

test('a history is compared by the rows that hold now', async () => {
  const { product, store } = await served(HISTORY)
  await world.epoch(product, 2, rowsTo(14).replace('i / 3', 'i / 2'))
  await sync(product, store)
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
})

test('values by key are asked for one by one; shortly before they expire nothing is said of them', async () => {
  const { product, store } = await served(REALTIME)
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
  tamper(store, product, 'clear', (rows) => rows.map(([id, name]) => [id ?? null, name ?? null, 4_711]))
  await pool.query('update store_comparisons set digest = null where product_id = $1', [product.id])
  assert.deepEqual(await compare(product, store), ['drifted', 'in_order'])
  await pool.query(
    `update materializations set committed_at = committed_at - interval '56 minutes' where product_id = $1`,
    [product.id],
  )
  assert.deepEqual(await compare(product, store), ['later'])
})

test('nothing is said of a copy that is written meanwhile', async () => {
  const { product, store } = await served(LOOKUP)
  tamper(store, product, 'clear', oneCell)
  const { honest, lies } = store
  lies.digest = async (target, signal) => {
    lies.digest = undefined as never
    delete lies.digest
    await world.epoch(product, 2, rowsTo(5))
    return honest.digest?.(target, signal) as never
  }
  assert.deepEqual(await compare(product, store), ['moved'])
  assert.deepEqual(await statesOf(product), ['clear pending', 'masked pending'])
})

test('a copy that the store cannot drop now is dropped later: the store believes that it has the epoch', async () => {
  const { product, store } = await served(LOOKUP)
  tamper(store, product, 'clear', oneCell)
  await compare(product, store)
  store.lies.drop = async () => {
    throw new Error('away')
  }
  await sync(product, store)
  assert.deepEqual(await statesOf(product), [`clear failed ${DRIFTED}`, 'masked ok'])
  delete store.lies.drop
  await sync(product, store)
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
})

test('what differs each time that it was written anew is told of, and repaired once a day', async () => {
  const { product, store } = await served(LOOKUP)
  for (let time = 1; time <= 3; time += 1) {
    tamper(store, product, 'clear', oneCell)
    assert.deepEqual((await compare(product, store))[0], 'drifted')
    await sync(product, store)
  }
  const { rows } = await pool.query(
    `select due_at > now() + interval '23 hours' as late from store_comparisons where product_id = $1 and variant = 'clear'`,
    [product.id],
  )
  assert.deepEqual(rows, [{ late: true }])
  assert.deepEqual(await told(product), ['lookup lasts'])
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
  assert.deepEqual(await told(product), ['lookup'])
})

test('a large copy is counted, and its digest kept', async () => {
  const settings = { everyMs: 3_600_000, rowsPerSecond: 0.01, share: 1 }
  await using slow = await startWorld(settings)
  const [product, store] = [await slow.product([LOOKUP]), await slow.openStore('lookup')]
  await slow.epoch(product, 1, rowsTo(12))
  await slow.sync(product, store)
  const calls = counted(store)
  assert.deepEqual(await slow.compare(product, store), ['in_order', 'in_order'])
  assert.equal(calls.read, 0)
  tamper(store, product, 'clear', oneCell)
  assert.deepEqual(await slow.compare(product, store), ['drifted', 'in_order'])
})

test('what differs is not noted while somebody has the product', async () => {
  const { product, store } = await served(LOOKUP)
  tamper(store, product, 'clear', oneCell)
  await withProductLock(pool, product.id, new AbortController().signal, async () => {
    assert.deepEqual(await compare(product, store), ['moved', 'in_order'])
  })
  assert.deepEqual(await statesOf(product), ['clear ok', 'masked ok'])
  assert.deepEqual(await compare(product, store), ['drifted', 'in_order'])
})

test('rows that only the first comparison misses are no drift', async () => {
  const { product, store } = await served(LOOKUP)
  store.lies.read = async function* (...asked) {
    delete store.lies.read
    for await (const batch of store.honest.read(...asked))
      yield { epoch: batch.epoch, columns: [[], [], []], rowCount: 0 } as never
  }
  assert.deepEqual(await compare(product, store), ['in_order', 'in_order'])
  assert.deepEqual(await statesOf(product), ['clear ok', 'masked ok'])
})

test('a start has every copy compared within an hour, and none at once; one that was compared waits its time', async () => {
  const settings = { everyMs: 3_600_000, rowsPerSecond: 1_000_000, share: 1 }
  const { product, store } = await served(LOOKUP)
  const found: string[] = []
  const deps = { ...world.deps(store), onCompared: (_: string, end: string) => void found.push(end) }
  const { kind, source } = comparisonJob(settings, deps)
  const signal = new AbortController().signal
  const work = () =>
    kind.work({ kind: kind.kind, key: product.tenant, tenant: null, token: 1, attempts: 0, isTakenOver: false }, signal)
  await source.enlist(signal)
  const { rows } = await pool.query(
    `select due_at > clock_timestamp() + interval '4 minutes' as late, due_at < clock_timestamp() + interval '11 minutes' as soon
     from jobs where kind = $1 and key = $2`,
    [kind.kind, product.tenant],
  )
  assert.deepEqual(rows, [{ late: true, soon: true }])
  await work()
  assert.deepEqual(found, ['in_order', 'in_order'])
  await work()
  assert.equal(found.length, 2, 'none is due')
  await pool.query(`update store_comparisons set due_at = due_at + interval '1 day' where product_id = $1`, [
    product.id,
  ])
  await comparisonJob(settings, deps).source.enlist(signal)
  const { rows: lines } = await pool.query(
    `select due_at < clock_timestamp() + interval '1 hour' as soon from store_comparisons where product_id = $1`,
    [product.id],
  )
  assert.deepEqual(lines, [{ soon: true }, { soon: true }])
})
