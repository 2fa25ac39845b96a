import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { productColumn } from '../../registry/raw-classes.ts'
import { MANNERS, type Manner, type SpreadProduct, spread } from './spread.ts'

/** Numbers that are the same in every run. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const START = JSON.stringify(['db', 'public.t', 'c'])
const all = { columns: null, where: null }

function product(full: string, origins: SpreadProduct['origins'], inputs: SpreadProduct['inputs'] = []): SpreadProduct {
  const columns = origins?.map(({ column }) => ({ name: column })) ?? [{ name: 'x' }]
  return { productId: full, full, columns, inputs, origins }
}

/** A product of one column for each node but the first, which is the start; edges by their manners. */
function randomWorld(random: () => number) {
  const size = 2 + Math.floor(random() * 9)
  const density = 0.1 + random() * 0.4
  const edges = Array.from({ length: size }, (_, to) =>
    Array.from({ length: size }, (_, from): number =>
      from < to && random() < density ? Math.floor(random() * MANNERS.length) : MANNERS.length,
    ),
  )
  const nodes = edges.map((_, index) => (index === 0 ? START : productColumn(`n.p${index}`, 'x')))
  const products = edges.slice(1).map((row, index) => {
    const of = (manner: Manner) => nodes.filter((_, from) => row[from] === MANNERS.indexOf(manner))
    const [copied = null, ...others] = of('copied')
    // A column is a copy of one; of that one its values are, and of nothing else.
    for (const [from, node] of nodes.entries()) if (others.includes(node)) row[from] = MANNERS.indexOf('influenced')
    if (copied !== null) {
      for (const [from] of nodes.entries()) if (row[from] === MANNERS.indexOf('computed')) row[from] = MANNERS.length
    }
    const guesses = of('possible')
    const isGuess = guesses.length > 0
    if (isGuess) for (const [from, manner] of row.entries()) if (manner < MANNERS.length) row[from] = 3
    const sources = isGuess ? of('possible') : [...(copied === null ? [] : [copied]), ...of('computed')]
    const influences = isGuess ? [] : of('influenced')
    const origin = { column: 'x', sources, influences, copied: isGuess ? null : copied, guessed: isGuess }
    return product(`n.p${index + 1}`, [origin])
  })
  return { edges, nodes, products }
}

/** Every way is tried: at most so many nodes. */
function oracle(edges: readonly (readonly number[])[]) {
  const best = edges.map(() => ({ steps: Number.POSITIVE_INFINITY, manner: MANNERS.length }))
  const go = (from: number, steps: number, manner: number): void => {
    for (const [to, row] of edges.entries()) {
      const edge = row[from] as number
      const own = best[to] as { steps: number; manner: number }
      if (edge === MANNERS.length) continue
      own.steps = Math.min(own.steps, steps + 1)
      own.manner = Math.min(own.manner, Math.max(manner, edge))
      go(to, steps + 1, Math.max(manner, edge))
    }
  }
  go(0, 0, 0)
  return best
}

describe('what a column reaches', () => {
  it('is what the ways from it lead to: as near as the shortest, as close as the closest', () => {
    const random = randomOf(3)
    let seen = 0
    for (let round = 0; round < 500; round += 1) {
      const { edges, nodes, products } = randomWorld(random)
      const found = spread(START, products)
      const wanted = oracle(edges).flatMap(({ steps, manner }, index) =>
        steps === Number.POSITIVE_INFINITY ? [] : [[nodes[index], { steps, manner: MANNERS.at(manner) }]],
      )
      assert.deepEqual(Object.fromEntries(found), Object.fromEntries(wanted), `world ${round}`)
      seen += wanted.length
    }
    assert.ok(seen > 1000, String(seen))
  })

  it('may be every column of a product of which nothing was kept, where it reads the column', () => {
    const input = { connection: 'db', table: 't', ...all }
    const manner = (inputs: SpreadProduct['inputs']) =>
      spread(START, [product('n.p', null, inputs)]).get(productColumn('n.p', 'x'))?.manner
    assert.equal(manner([input]), 'possible')
    assert.equal(manner([{ ...input, columns: ['C'] }]), 'possible')
    assert.equal(manner([{ ...input, columns: ['d'], where: 'c > 1' }]), 'possible')
    assert.equal(manner([{ ...input, columns: ['d'] }]), undefined)
    assert.equal(manner([{ ...input, table: 'other.t' }]), undefined)
    assert.equal(manner([{ ...input, connection: 'other' }]), undefined)
  })
})
