import assert from 'node:assert/strict'
import { test } from 'node:test'
import { colourOf, painterFor } from './colours.ts'
import { plain, textTable } from './text-table.ts'

test('colours are for terminals, and not where NO_COLOR is set', () => {
  const shown = (isTTY: boolean, environment = {}) => painterFor({ isTTY }, environment)('change', colourOf('change'))
  assert.equal(shown(true), '\u001b[33mchange\u001b[0m')
  assert.equal(shown(true, { NO_COLOR: '' }), '\u001b[33mchange\u001b[0m', 'empty is not set')
  for (const [isTTY, environment] of [
    [false, {}],
    [true, { NO_COLOR: '1' }],
    [true, { TERM: 'dumb' }],
  ] as const) {
    assert.equal(shown(isTTY, environment), 'change')
  }
})

test('colours take no room in a table, and none come out of its values', () => {
  const paint = painterFor({ isTTY: true }, {})
  const rows = [
    ['a', 'change', 'x'],
    ['b', 'unchanged', '\u001b[31m\u202e'],
  ]
  const table = textTable(['p', 'action', 'q'], rows, (text, column) => (column === 1 ? paint(text, 'red') : text))
  assert.deepEqual(table.replaceAll('\u001b[31m', '').replaceAll('\u001b[0m', '').split('\n'), [
    'p  action     q',
    'a  change     x',
    'b  unchanged  ·[31m·',
  ])
  assert.equal(plain('a\nb\u007f\u2066c'), 'a·b··c')
})
