import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differences } from './manifest-difference.ts'

const between = (folder: string, deployed: string) =>
  differences({ texts: { output: folder }, meaning: null }, { texts: { output: deployed }, meaning: null }).map(
    ({ manifest, key, folder: own, deployed: other }) => [manifest, key, own, other],
  )

test('differences are named by file and key, those of lists by the names of their members', () => {
  assert.deepEqual(between('schema:\n  - { name: id, type: long }\n', 'schema:\n  - { type: long, name: id }\n'), [])
  assert.deepEqual(
    between(
      'schema: [{ name: new, type: int }, { name: id, type: long }]\nwrite_mode: merge\n',
      'schema: [{ name: id, type: int }]\n',
    ),
    [
      ['output', 'schema[new]', { name: 'new', type: 'int' }, undefined],
      ['output', 'schema[id].type', 'long', 'int'],
      ['output', 'write_mode', 'merge', undefined],
    ],
  )
  assert.deepEqual(between('a: [1, 2]\n', 'a: [2, 1]\n'), [['output', 'a', [1, 2], [2, 1]]])
  const turned = between('a: [{ name: x }, { name: y }]\n', 'a: [{ name: y }, { name: x }]\n')
  assert.deepEqual(
    turned.map(([, key]) => key),
    ['a'],
  )
  assert.deepEqual(between('a: 1\n', '- a\n'), [['output', '', { a: 1 }, ['a']]])
})
