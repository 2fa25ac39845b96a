import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Random } from '../../../conformance-tests/random.ts'
import { type GrantBasis, type GrantNeed, unfounded } from './grant-bases.ts'

const basis = (id: string, grant: string, needs: readonly GrantNeed[], grantable: readonly string[] = ['a']) => {
  return { id, grant, needs, grantable, classes: grantable } satisfies GrantBasis
}
const by = (...anyOf: string[]): GrantNeed => ({ anyOf, to: { class: 'a' } })
const fallen = (bases: readonly GrantBasis[]) => unfounded(bases).map(({ id }) => id)

describe('what a grant rests on', () => {
  it('is a right of one’s own, or grants that are there and go that far', () => {
    assert.deepEqual(fallen([basis('1', 'A', []), basis('2', 'B', [by('A')])]), [])
    assert.deepEqual(fallen([basis('2', 'B', [by('A')])]), ['2'])
    assert.deepEqual(fallen([basis('1', 'A', [], ['b']), basis('2', 'B', [by('A')])]), ['2'])
    assert.deepEqual(fallen([basis('1', 'A', [], ['*']), basis('2', 'B', [by('gone', 'A')])]), [])
    const read: GrantNeed = { anyOf: ['A'], to: 'read' }
    assert.deepEqual(fallen([basis('1', 'A', [], []), basis('2', 'B', [read])]), [])
    assert.deepEqual(fallen([basis('1', 'A', [], []), basis('2', 'B', [{ ...read, to: 'grant' }])]), ['2'])
    assert.deepEqual(fallen([basis('1', 'A', []), basis('2', 'B', [by('A'), by('gone')])]), ['2'])
  })

  it('is never a circle', () => {
    assert.deepEqual(fallen([basis('1', 'A', [by('B')]), basis('2', 'B', [by('A')])]), ['1', '2'])
    assert.deepEqual(fallen([basis('0', 'A', []), basis('1', 'A', [by('B')]), basis('2', 'B', [by('A')])]), [])
  })

  it('is found whatever the order, and no more than what can be shown step by step', () => {
    const random = new Random(2026)
    for (let round = 0; round < 300; round += 1) {
      const grants = Array.from({ length: random.integer(1, 7) }, (_, index) => `G${index}`)
      const bases = Array.from({ length: random.integer(1, 12) }, (_, index) => {
        const needs = Array.from({ length: random.integer(0, 3) }, () => by(...random.shuffled(grants).slice(0, 2)))
        return basis(String(index), random.pick(grants), needs, random.pick([['a'], ['*'], ['b'], []]))
      })
      const open = new Set(fallen(bases))
      assert.deepEqual(new Set(fallen(random.shuffled(bases))), open)
      // Taken away one by one, what stands needs nothing that fell; and of what fell nothing can be added.
      const standing = bases.filter(({ id }) => !open.has(id))
      assert.deepEqual(fallen(standing), [])
      for (const one of bases.filter(({ id }) => open.has(id))) {
        assert.deepEqual(fallen([...standing, one]), [one.id])
      }
    }
  })
})
