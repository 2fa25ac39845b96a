/** The order in which products are made anew, held against sets that know nothing of how it is found. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { PRODUCTS } from '../registry/product-sources.ts'
import type { Product } from '../registry/products.ts'
import { type DeployedProduct, waveOf } from './wave.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 1_000_000)

function numbers(seed: number): (bound: number) => number {
  let state = seed >>> 0
  return (bound) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * bound)
  }
}

type Made = { readonly of: readonly string[]; readonly latest?: readonly string[]; readonly trigger?: string }

function deployed(name: string, { of, latest = [], trigger = 'on_ingestion' }: Made): DeployedProduct {
  const inputs = of.map((table) => ({
    connection: PRODUCTS,
    table: `d.${table}`,
    epoch: latest.includes(table) ? 'latest' : 'same_wave',
  }))
  const product = { id: `prd_${name}`, domain: 'd', name } as Product
  return { product, manifests: { inputs, compute: { trigger } } as unknown as ManifestSet }
}

/** The names of a wave, in its order. */
function wave(world: Readonly<Record<string, Made>>, first: readonly string[]): readonly string[] {
  const all = Object.entries(world).map(([name, made]) => deployed(name, made))
  const readers = all.filter(({ manifests }) => manifests.inputs.length > 0)
  const members = waveOf(
    all.filter(({ product }) => first.includes(product.name)),
    readers,
  )
  return members.map(({ product }) => product.name)
}

describe(`a wave of products (seed ${SEED})`, () => {
  it('is what was begun with and all that is made of it, each after what it is made of', () => {
    const random = numbers(SEED)
    for (let round = 0; round < 300; round += 1) {
      const names = Array.from({ length: 2 + random(40) }, (_, index) => `p${index}`)
      // Made of some with smaller numbers, and told in another order.
      const world: Record<string, Made> = {}
      for (const index of names.map((_, at) => at).sort(() => random(3) - 1)) {
        const of = new Set(Array.from({ length: random(4) }, () => random(index || 1)).filter((at) => at < index))
        world[`p${index}`] = { of: [...of].map((at) => `p${at}`), ...(random(6) === 0 ? { trigger: 'manual' } : {}) }
      }
      const first = names.filter(() => random(5) === 0)
      const order = wave(world, first)
      const wanted = new Set(first)
      for (let size = -1; size !== wanted.size; ) {
        size = wanted.size
        for (const [name, { of, trigger }] of Object.entries(world)) {
          if (trigger !== 'manual' && of.some((one) => wanted.has(one))) wanted.add(name)
        }
      }
      assert.deepEqual([...order].sort(), [...wanted].sort(), JSON.stringify({ world, first }))
      for (const [at, name] of order.entries()) {
        for (const one of world[name]?.of ?? []) {
          if (wanted.has(one)) assert.ok(order.indexOf(one) < at, JSON.stringify({ world, first, order }))
        }
      }
    }
  })

  it('tells what waits from what takes the latest', () => {
    const all = [
      deployed('a', { of: [] }),
      deployed('b', { of: ['a', 'x'], latest: ['a'] }),
      deployed('c', { of: ['a', 'b'] }),
    ]
    const told = waveOf(all.slice(0, 1), all.slice(1)).map(({ product, upstream }) => [product.name, upstream])
    assert.deepEqual(told, [
      ['a', []],
      ['b', []],
      ['c', ['d.a', 'd.b']],
    ])
  })

  it('ends where an older registry has a circle', () => {
    assert.deepEqual(wave({ a: { of: ['c'] }, b: { of: ['a'] }, c: { of: ['b'] } }, ['a']).length, 3)
  })
})
