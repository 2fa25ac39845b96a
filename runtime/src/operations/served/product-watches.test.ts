import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { until } from '../../../../test/until.ts'
import { Bell } from '../../jobs/bell.ts'
import { MOST_WAITING, ProductWatches } from './product-watches.ts'
import type { ServedProduct } from './served-product.ts'

const productAt = (epoch: number) =>
  ({ variants: new Map([['clear', { epoch }]]), endpoints: new Map() }) as unknown as ServedProduct

const hasEpoch = (epoch: number) => (products: ReadonlyMap<string, ServedProduct>) =>
  [...products.values()].every(({ variants }) => (variants.get('clear')?.epoch ?? 0) >= epoch)

function world() {
  const bells = new Set<Bell>()
  const state = { epoch: 1, looks: 0, error: null as Error | null }
  const watches = new ProductWatches({
    async find() {
      state.looks += 1
      if (state.error !== null) throw state.error
      return productAt(state.epoch)
    },
    changes() {
      const bell = new Bell()
      bells.add(bell)
      return Object.assign(bell, { [Symbol.dispose]: () => void bells.delete(bell) })
    },
  })
  const wait = (epoch: number, more: { signal?: AbortSignal; tenant?: string; atMostMs?: number } = {}) => {
    const { tenant = 'acme', atMostMs = 300_000, signal = new AbortController().signal } = more
    return watches.until({ tenant, productIds: ['prd_1'], isThere: hasEpoch(epoch), atMostMs, signal })
  }
  const ring = () => {
    for (const bell of bells) bell.ring()
  }
  return { watches, state, wait, ring, bells }
}

describe('waits for a product', () => {
  it('end at once where it is there, and too late where it does not come in time', async () => {
    const { wait, watches } = world()
    assert.equal(await wait(1), 'at once')
    assert.equal(await wait(2, { atMostMs: 0 }), 'too late')
    assert.equal(await wait(2, { atMostMs: 5 }), 'too late')
    assert.equal(watches.size, 0)
  })

  it('share one watch: a change is looked at once, however many wait', async () => {
    const { wait, watches, state, ring, bells } = world()
    const waiting = Array.from({ length: MOST_WAITING }, () => wait(2))
    await until('all wait, and it was looked at', () => state.looks === MOST_WAITING + 1)
    assert.deepEqual([watches.size, bells.size], [1, 1])
    state.epoch = 2
    ring()
    assert.deepEqual(new Set(await Promise.all(waiting)), new Set(['in time']))
    assert.ok(state.looks <= MOST_WAITING + 2, `${state.looks}`)
    await until('the watch ends', () => bells.size === 0 && watches.size === 0)
  })

  it('are bounded for each tenant, and free their place', async () => {
    const { wait, state, ring } = world()
    const waiting = Array.from({ length: MOST_WAITING }, () => wait(2))
    await until('all wait', () => state.looks > MOST_WAITING)
    await assert.rejects(wait(2), { code: 'too_many_waiting' })
    const other = wait(2, { tenant: 'other' })
    state.epoch = 2
    ring()
    await Promise.all([...waiting, other])
    state.epoch = 1
    assert.equal(await wait(2, { atMostMs: 5 }), 'too late')
  })

  it('end with their signal, and with a product that is gone, and outlast what passes', async () => {
    const { wait, watches, state, ring, bells } = world()
    const gone = new AbortController()
    const aborted = wait(2, { signal: gone.signal })
    const other = wait(2)
    await until('both wait', () => state.looks === 3)
    gone.abort(new Error('the client has gone'))
    await assert.rejects(aborted, /the client has gone/)
    state.error = new SluiceError('TRANSIENT', 'away', { code: 'store_unavailable' })
    ring()
    await until('it was looked at', () => state.looks === 4)
    state.error = new SluiceError('INVALID_DATA', 'there is no such product', { code: 'product_not_found' })
    ring()
    await assert.rejects(other, { code: 'product_not_found' })
    await until('the watch ends', () => watches.size === 0 && bells.size === 0)
  })
})
