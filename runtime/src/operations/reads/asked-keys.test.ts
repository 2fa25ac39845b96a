import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { parseKeepingNumbers } from '../../parsing/kept-numbers.ts'
import { type AskedKey, keyTexts } from './asked-keys.ts'

/** Null: it was refused as one that may be of another row. */
function textOf(written: string, type: LogicalType): string | null {
  const [alone, named] = [`[true,${written}]`, `[true,{"id":${written}}]`].map((text) => {
    try {
      return keyTexts(parseKeepingNumbers(text) as AskedKey[], [{ name: 'id', type }], 1)[0]
    } catch (error) {
      assert.equal((error as { code?: unknown }).code, 'key_malformed')
      return null
    }
  })
  assert.equal(alone, named)
  return alone ?? null
}

test('a number with more digits than its double is a key of doubles, and of nothing in which each digit counts', () => {
  for (const [written, nearest] of [
    ['0.10000000000000001', '0.1'],
    ['1234567890123.3999', '1234567890123.4'],
    ['2.5000000000000001e-07', '2.5e-7'],
  ] as const) {
    assert.equal(textOf(written, 'double'), nearest)
    for (const type of ['decimal(38,20)', 'decimal(18,4)', 'long', 'string'] as const) {
      assert.equal(textOf(written, type), null, `${written} as ${type}`)
    }
  }
  for (const written of ['0.1', '1.50', '7', '"0.10000000000000001"']) {
    assert.equal(textOf(written, 'decimal(38,20)'), String(JSON.parse(written)))
  }
})
