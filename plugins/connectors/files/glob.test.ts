import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Glob } from './glob.ts'

const matching = (pattern: string, paths: readonly string[]) =>
  paths.filter((path) => Glob.parse(pattern)?.matches(path))

test('a star stays within a name, two stars are folders of any depth', () => {
  const paths = ['a.csv', 'b/a.csv', 'b/c/a.csv', 'b/c/a.jsonl', 'b/.x/a.csv', 'b/.a.csv']
  assert.deepEqual(matching('*.csv', paths), ['a.csv'])
  assert.deepEqual(matching('b/*.csv', paths), ['b/a.csv'])
  assert.deepEqual(matching('**/*.csv', paths), ['a.csv', 'b/a.csv', 'b/c/a.csv'])
  assert.deepEqual(matching('b/**/?.csv', paths), ['b/a.csv', 'b/c/a.csv'])
  assert.deepEqual(matching('b/c/*a*.*s*l', paths), ['b/c/a.jsonl'])
})

test('what leads out of the folder is no pattern', () => {
  for (const pattern of [
    '',
    '/a.csv',
    '../a.csv',
    'a/../b.csv',
    './a.csv',
    'a//b',
    'a\\b',
    'a\0b',
    '**',
    '**/**/a',
    'a**b',
  ])
    assert.equal(Glob.parse(pattern), null, pattern)
})

test('folders that nothing can match in are not entered', () => {
  const glob = Glob.parse('orders/2026-*/**/x.csv')
  assert.deepEqual(
    ['orders', 'orders/2026-01', 'orders/2026-01/deep/er', 'orders/2025', 'other', 'orders/.git'].filter((path) =>
      glob?.entersFolder(path),
    ),
    ['orders', 'orders/2026-01', 'orders/2026-01/deep/er'],
  )
  assert.equal(Glob.parse('a/*.csv')?.entersFolder('a/b'), false)
  assert.equal(glob?.prefix, 'orders')
})

test('a pattern of many stars over a long name answers at once', () => {
  const glob = Glob.parse(`${'*a'.repeat(200)}b`)
  assert.equal(glob?.matches('a'.repeat(2000)), false)
})
