import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type KeyTemplate, parseKeyTemplate, renderKey } from './key-template.ts'
import type { TableSchema } from './schema.ts'

const schema: TableSchema = {
  columns: [
    { name: 'a', type: 'string', nullable: true },
    { name: 'b', type: 'string', nullable: true },
    { name: 'day', type: 'date', nullable: true },
  ],
  primaryKey: ['a', 'b'],
}

function template(text: string): KeyTemplate {
  const parsed = parseKeyTemplate(text)
  assert.ok('parts' in parsed, text)
  return parsed
}

function render(text: string, values: Record<string, string | null>): string | null {
  return renderKey(template(text), schema, (column) => values[column] ?? null)
}

test('a value cannot leave its place', () => {
  assert.equal(render('{a}:{b}', { a: 'a:b', b: 'c' }), 'a%3Ab:c')
  assert.equal(render('{a}:{b}', { a: 'a', b: 'b:c' }), 'a:b%3Ac')
  assert.equal(render('{a}-{b}', { a: 'x-y', b: 'z-w' }), 'x%2Dy-z-w')
  assert.equal(render('{day}-{a}', { day: '2026-01-02', a: '7' }), '2026-01-02-7')
  assert.equal(render('order:{a}', { a: 'a-b_c' }), 'order:a-b_c')
  assert.equal(render('{a}:{b}', { a: 'a', b: null }), null)
})

test('different values make different keys, whatever stands between them', () => {
  const value = fc.string({
    unit: fc.constantFrom('a', ':', '-', '%', '3', 'A', '2', 'D', '\n', 'é', '😀'),
    maxLength: 4,
  })
  const between = fc.constantFrom(':', '-', '--', '-a', '😀', 'a')
  fc.assert(
    fc.property(value, value, value, value, between, (a, b, c, d, separator) => {
      const text = `k${separator}{a}${separator}{b}`
      assert.equal(render(text, { a, b }) === render(text, { a: c, b: d }), a === c && b === d)
    }),
    { numRuns: 2000 },
  )
})

test('templates that could not keep keys apart are refused', () => {
  for (const text of ['', 'fixed', '{a}{b}', '{a', 'a}', '{}', '{a}%{b}', '{a}3{b}', '{a}\n', '{{a}}']) {
    assert.ok('problem' in parseKeyTemplate(text), text)
  }
})
