import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { until } from '../../../../test/until.ts'
import { Bell } from '../../jobs/bell.ts'
import { MOST_WAITING, MOST_WAITING_OF_ONE, ProductWatches } from './product-watches.ts'
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
  const wait = (
    epoch: number,
    more: { signal?: AbortSignal; tenant?: string; who?: string; atMostMs?: number } = {},
  ) => {
    const { tenant = 'acme', who = 'ann', atMostMs = 300_000, signal = new AbortController().signal } = more
    const reader = { issuer: 'https://issuer.example', subject: who }
    return watches.until({ tenant, reader, productIds: ['prd_1'], isThere: hasEpoch(epoch), atMostMs, signal })
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
    const waiting = Array.from({ length: MOST_WAITING }, (_, at) => wait(2, { who: at % 2 === 0 ? 'ann' : 'ben' }))
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
    const waiting = Array.from({ length: MOST_WAITING }, (_, at) => wait(2, { who: at % 2 === 0 ? 'ann' : 'ben' }))
    await until('all wait', () => state.looks > MOST_WAITING)
    await assert.rejects(wait(2, { who: 'cyd' }), { code: 'too_many_waiting' })
    const other = wait(2, { tenant: 'other' })
    state.epoch = 2
    ring()
    await Promise.all([...waiting, other])
    state.epoch = 1
    assert.equal(await wait(2, { atMostMs: 5 }), 'too late')
  })

  it('of one subject leave places to others of the tenant', async () => {
    const { wait, state, ring } = world()
    const waiting = Array.from({ length: MOST_WAITING_OF_ONE }, () => wait(2))
    await until('all wait', () => state.looks > MOST_WAITING_OF_ONE)
    await assert.rejects(wait(2), { code: 'too_many_waiting' })
    const other = wait(2, { who: 'ben' })
    await until('the other one waits', () => state.looks > MOST_WAITING_OF_ONE + 2)
    state.epoch = 2
    ring()
    assert.deepEqual(new Set(await Promise.all([...waiting, other])), new Set(['in time']))
  })

  it('for several products go on for the others where one is gone', async () => {
    const epochs = new Map([
      ['prd_1', 1],
      ['prd_2', 1],
    ])
    const bells = new Set<Bell>()
    const watches = new ProductWatches({
      async find(_, id) {
        const epoch = epochs.get(id)
        if (epoch === undefined) throw new SluiceError('INVALID_DATA', 'none', { code: 'product_not_found' })
        return productAt(epoch)
      },
      changes() {
        const bell = new Bell()
        bells.add(bell)
        return Object.assign(bell, { [Symbol.dispose]: () => void bells.delete(bell) })
      },
    })
    const judged: string[][] = []
    const isThere = (products: ReadonlyMap<string, ServedProduct>) => {
      judged.push([...products.keys()])
      return hasEpoch(2)(products)
    }
    const reader = { issuer: 'https://issuer.example', subject: 'ann' }
    const asked = { tenant: 'acme', reader, productIds: ['prd_1', 'prd_2'], isThere, atMostMs: 300_000 }
    const waiting = watches.until({ ...asked, signal: new AbortController().signal })
    await until('it waits for both', () => judged.some((ids) => ids.length === 2) && bells.size === 2)
    epochs.delete('prd_2')
    for (const bell of bells) bell.ring()
    await until('it waits for the other', () => judged.at(-1)?.join() === 'prd_1')
    epochs.set('prd_1', 2)
    for (const bell of bells) bell.ring()
    assert.equal(await waiting, 'in time')
    assert.equal(await watches.until({ ...asked, signal: new AbortController().signal }), 'at once')
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
    assert.equal(await other, 'in time', 'who reads it is told that it is gone')
    await until('the watch ends', () => watches.size === 0 && bells.size === 0)
  })
})
