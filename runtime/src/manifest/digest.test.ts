import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { canonical, digestOf } from './digest.ts'

describe('digestOf', () => {
  it('does not depend on the order of keys', () => {
    assert.equal(digestOf({ b: { d: 1, c: [2] }, a: null }), digestOf({ a: null, b: { c: [2], d: 1 } }))
  })

  it('depends on everything else', () => {
    const texts = [{ a: 1 }, { a: '1' }, { a: [1] }, { a: [1, 2] }, { a: [2, 1] }, { b: 1 }, [], {}, null].map(
      canonical,
    )
    assert.equal(new Set(texts).size, texts.length)
  })

  it('leaves out what JSON leaves out', () => {
    assert.equal(canonical({ a: undefined, b: 1 }), '{"b":1}')
  })
})
