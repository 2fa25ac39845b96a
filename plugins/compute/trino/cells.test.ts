import assert from 'node:assert/strict'
import { test } from 'node:test'
import { textRows } from './cells.ts'

test('a zero keeps its sign on the way from Trino, also within a list', () => {
  const double = { rawType: 'double', arguments: [] } as const
  const list = { rawType: 'array', arguments: [{ kind: 'TYPE', value: double }] } as const
  const columns = [double, list].map((typeSignature, at) => ({
    name: `c${at}`,
    type: typeSignature.rawType,
    typeSignature,
  }))
  const rows = JSON.parse('[[-0.0, [-0.0, 0.0, 1e-7]], [0.0, [null, "NaN"]], ["-Infinity", null]]')
  const wanted = [
    ['-0', '[-0,0,1e-7]'],
    ['0', '[null,"NaN"]'],
    ['-Infinity', null],
  ]
  assert.deepEqual(textRows({ columns, rows } as unknown as Parameters<typeof textRows>[0]), wanted)
})
