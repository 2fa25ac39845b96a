/** Which products a wave does not wait for, held against what has to be true of whichever it is. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { PRODUCTS } from '../registry/product-sources.ts'
import type { Product } from '../registry/products.ts'
import { SLOW_MS, SLOW_TIMES, slowGroups } from './slow-products.ts'
import { type DeployedProduct, waveOf } from './wave.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 1_000_000)

function numbers(seed: number): (bound: number) => number {
  let state = seed >>> 0
  return (bound) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * bound)
  }
}

interface Made {
  /** Products; a name that begins with `t` is a table. */
  readonly of: readonly string[]
  readonly latest?: readonly string[]
  readonly tookMs?: number
}

type World = Readonly<Record<string, Made>>

function deployed(name: string, { of, latest = [] }: Made): DeployedProduct {
  const inputs = of.map((one) =>
    one.startsWith('t')
      ? { connection: 'db', table: `public.${one}` }
      : { connection: PRODUCTS, table: `d.${one}`, epoch: latest.includes(one) ? 'latest' : 'same_wave' },
  )
  const product = { id: name, domain: 'd', name } as Product
  return { product, manifests: { inputs, compute: { trigger: 'on_ingestion' } } as unknown as ManifestSet }
}

function groups(world: World): Readonly<Record<string, string>> {
  const all = Object.entries(world).map(([name, made]) => deployed(name, made))
  const first = all.filter(({ product }) => world[product.name]?.of.some((one) => one.startsWith('t')))
  const times = Object.entries(world).flatMap(([name, { tookMs }]) =>
    tookMs === undefined ? [] : [[name, tookMs] as const],
  )
  const found = slowGroups(waveOf(first, all), new Map(times))
  return Object.fromEntries([...found].map((pair) => pair.map((name) => name.slice(2)) as [string, string]))
}

const SLOW = { tookMs: 15_000 }
const QUICK = { tookMs: 500 }

describe('a wave does not wait for', () => {
  it('a product that takes much longer than another', () => {
    assert.deepEqual(groups({ a: { of: ['t1', 't2'], ...QUICK }, s: { of: ['t1'], ...SLOW }, n: { of: ['t1'] } }), {
      s: 's',
    })
  })

  it('what is made of it, with it', () => {
    const world = { a: { of: ['t1'], ...QUICK }, s: { of: ['t1'], ...SLOW }, x: { of: ['s'] }, y: { of: ['x', 's'] } }
    assert.deepEqual(groups(world), { s: 's', x: 's', y: 's' })
  })

  it('one that is made of quick products', () => {
    const world = { a: { of: ['t1'], ...QUICK }, b: { of: ['t1'], ...QUICK }, s: { of: ['a', 'b', 't1'], ...SLOW } }
    assert.deepEqual(groups(world), { s: 's' })
  })

  it('several, each by itself, and what takes the latest of one goes on with the others', () => {
    const world = {
      a: { of: ['t1'], ...QUICK },
      s: { of: ['t1'], ...SLOW },
      u: { of: ['t2'], ...SLOW },
      l: { of: ['t1', 's'], latest: ['s'], ...QUICK },
    }
    assert.deepEqual(groups(world), { s: 's', u: 'u' })
  })
})

describe('a wave waits for', () => {
  for (const [what, world] of Object.entries<World>({
    'what takes long where all do': { a: { of: ['t1'], tookMs: 9_000 }, s: { of: ['t1'], tookMs: 15_000 } },
    'what takes many times as long, and not long': {
      a: { of: ['t1'], tookMs: 10 },
      s: { of: ['t1'], tookMs: SLOW_MS - 1 },
    },
    'the one product that there is': { s: { of: ['t1'], ...SLOW } },
    'one for which only what is made of it would wait': { s: { of: ['t1'], ...SLOW }, x: { of: ['s'], ...QUICK } },
    'one of which nobody knows it': { a: { of: ['t1'], ...QUICK }, s: { of: ['t1'] } },
    'one beside which others know nothing': { a: { of: ['t1'] }, s: { of: ['t1'], ...SLOW } },
    'one that is joined with a quick one': {
      a: { of: ['t1'], ...QUICK },
      s: { of: ['t1'], ...SLOW },
      x: { of: ['a', 's'], ...QUICK },
    },
    'one that is joined with its table': {
      a: { of: ['t1'], ...QUICK },
      s: { of: ['t1'], ...SLOW },
      x: { of: ['s', 't1'] },
    },
  })) {
    it(what, () => assert.deepEqual(groups(world), {}))
  }
})

it(`what a wave leaves can be made of the rows of any moment (seed ${SEED})`, () => {
  const random = numbers(SEED)
  let left = 0
  for (let round = 0; round < 500; round += 1) {
    const world: Record<string, Made> = {}
    for (let index = 0; index < 2 + random(10); index += 1) {
      const of = new Set(
        Array.from({ length: 1 + random(2) }, () => (random(2) === 0 ? `t${random(3)}` : `p${random(index || 1)}`)),
      )
      of.delete(`p${index}`)
      const latest = [...of].filter(() => random(6) === 0)
      world[`p${index}`] = {
        of: of.size === 0 ? ['t0'] : [...of],
        latest,
        tookMs: [300, 900, 4_000, 20_000][random(4)] as number,
      }
    }
    const found = groups(world)
    left += Object.keys(found).length
    const about = JSON.stringify({ world, found })
    const inputs = (name: string) => (world[name] as Made).of.filter((one) => !world[name]?.latest?.includes(one))
    for (const [name, root] of Object.entries(found)) {
      // Rows that go on meanwhile come in by one product alone, which reads them at one instant.
      if (name !== root)
        assert.ok(
          inputs(name).every((one) => found[one] === root),
          about,
        )
      else {
        const others = Object.keys(world).filter((one) => found[one] !== root)
        const took = (one: string) => world[one]?.tookMs as number
        assert.ok(took(root) >= SLOW_MS && others.some((one) => took(root) >= SLOW_TIMES * took(one)), about)
      }
    }
    // What is not left is made of nothing that is.
    for (const name of Object.keys(world)) {
      if (found[name] === undefined)
        assert.ok(
          inputs(name).every((one) => found[one] === undefined),
          about,
        )
    }
  }
  assert.ok(left > 100)
})
