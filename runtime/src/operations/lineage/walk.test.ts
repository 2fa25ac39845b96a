import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { walk } from './walk.ts'

/** Numbers that are the same in every run. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

type Matrix = readonly (readonly boolean[])[]

function randomGraph(random: () => number): Matrix {
  const size = 1 + Math.floor(random() * 12)
  const density = random() * 0.4
  return Array.from({ length: size }, () => Array.from({ length: size }, () => random() < density))
}

/** Least steps between all nodes, by the closure of the matrix; 0 where there is no way. */
function distances(graph: Matrix): readonly (readonly number[])[] {
  const size = graph.length
  const least = graph.map((row) => row.map(() => 0))
  let power = graph.map((row) => [...row])
  for (let steps = 1; steps <= size; steps += 1) {
    for (const [from, row] of power.entries()) {
      for (const [to, isThere] of row.entries())
        if (isThere && least[from]?.[to] === 0) (least[from] as number[])[to] = steps
    }
    power = power.map((row) => row.map((_, to) => row.some((isThere, by) => isThere && graph[by]?.[to] === true)))
  }
  return least
}

const nextIn = (graph: Matrix) => async (level: readonly string[]) =>
  level.flatMap((node) => (graph[Number(node)] ?? []).flatMap((isThere, to) => (isThere ? [String(to)] : [])))

describe('a walk', () => {
  it('finds what the closure of the graph has, as far away as it is, circles included', async () => {
    const random = randomOf(7)
    for (let round = 0; round < 400; round += 1) {
      const graph = randomGraph(random)
      const depth = 1 + Math.floor(random() * 6)
      const { found, isCut } = await walk('0', nextIn(graph), { depth, most: 100 })
      const steps = distances(graph)[0]?.map((least, to) => [String(to), to === 0 ? 0 : least] as const) ?? []
      const wanted = steps.filter(([, least]) => least > 0 && least <= depth)
      assert.deepEqual([...found].toSorted(), wanted.toSorted(), `graph ${round}`)
      assert.equal(
        isCut,
        steps.some(([, least]) => least > depth),
        `graph ${round}`,
      )
    }
  })

  it('finds no more than may be, the nearest first, and says that there is more', async () => {
    const random = randomOf(11)
    for (let round = 0; round < 400; round += 1) {
      const graph = randomGraph(random)
      const most = Math.floor(random() * 6)
      const whole = await walk('0', nextIn(graph), { depth: 20, most: 100 })
      const { found, isCut } = await walk('0', nextIn(graph), { depth: 20, most })
      assert.equal(found.size, Math.min(most, whole.found.size))
      assert.equal(isCut, whole.found.size > most)
      const farthest = Math.max(0, ...found.values())
      for (const [node, step] of found) assert.equal(step, whole.found.get(node))
      for (const [node, step] of whole.found) assert.ok(found.has(node) || step >= farthest, `graph ${round}`)
    }
  })

  it('asks for each node once', async () => {
    const asked: string[] = []
    const ring = async (level: readonly string[]) => {
      asked.push(...level)
      return level.map((node) => String((Number(node) + 1) % 5))
    }
    await walk('0', ring, { depth: 20, most: 100 })
    assert.deepEqual(asked, ['0', '1', '2', '3', '4'])
  })
})
