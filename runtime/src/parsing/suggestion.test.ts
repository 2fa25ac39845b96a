import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { didYouMean, editDistance, nearest } from './suggestion.ts'

describe('editDistance', () => {
  it('counts letters to insert, delete, replace and swap', () => {
    assert.equal(editDistance('kitten', 'sitting'), 3)
    assert.equal(editDistance('ttl', 'tlt'), 1)
    assert.equal(editDistance('', 'abc'), 3)
  })

  it('stops where it has gone too far', () => {
    const word = fc.string({ maxLength: 9, unit: fc.constantFrom('a', 'b', 'c') })
    fc.assert(
      fc.property(word, word, fc.integer({ min: 0, max: 4 }), (a, b, most) => {
        assert.equal(editDistance(a, b, most), Math.min(editDistance(a, b), most + 1))
      }),
      { numRuns: 2000 },
    )
  })

  it('is a distance', () => {
    const word = fc.string({ maxLength: 8, unit: fc.constantFrom('a', 'b', 'c') })
    fc.assert(
      fc.property(word, word, (a, b) => {
        assert.equal(editDistance(a, b), editDistance(b, a))
        assert.equal(editDistance(a, b) === 0, a === b)
        assert.ok(editDistance(a, b) <= Math.max(a.length, b.length))
        assert.ok(editDistance(a, b) >= Math.abs(a.length - b.length))
      }),
    )
  })
})

describe('nearest', () => {
  const fields = ['index_columns', 'history_mode', 'tracked_columns', 'ttl']

  it('finds what was meant', () => {
    assert.equal(nearest('index-columns', fields), 'index_columns')
    assert.equal(nearest('INDEX_COLUMN', fields), 'index_columns')
    assert.equal(nearest('tll', fields), 'ttl')
    assert.equal(nearest('scd2', ['current', 'type_2', 'type_3']), 'type_2')
  })

  it('suggests nothing where nothing is near, or the word is no word', () => {
    assert.equal(nearest('region', fields), undefined)
    assert.equal(nearest('x'.repeat(10_000), ['x'.repeat(10_001)]), undefined)
    assert.equal(nearest('constructor', fields), undefined)
  })
})

describe('didYouMean', () => {
  it('lists the choices where they are few and none is near', () => {
    assert.equal(didYouMean('zzz', ['a', 'b']), 'Possible here: a, b.')
    assert.equal(didYouMean('zzz', []), undefined)
    assert.equal(
      didYouMean(
        'zzz',
        Array.from({ length: 17 }, (_, index) => `name_${index}`),
      ),
      undefined,
    )
  })
})
