import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resultCsv } from './query-result.ts'
import { csvOf } from './rows-csv.ts'

test('a zero keeps its sign on the way from Trino, also within a list', () => {
  const double = { rawType: 'double', arguments: [] } as const
  const list = { rawType: 'array', arguments: [{ kind: 'TYPE', value: double }] } as const
  const columns = [double, list].map((typeSignature, at) => ({
    name: `c${at}`,
    type: typeSignature.rawType,
    typeSignature,
  }))
  const rows = JSON.parse('[[-0.0, [-0.0, 0.0, 1e-7]], [0.0, [null, "NaN"]], ["-Infinity", null]]')
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
  const wanted = '"-0","[-0,0,1e-7]",""\n"0","[null,""NaN""]",""\n"-Infinity",,""\n'
  assert.equal(text(resultCsv({ columns, rows } as unknown as Parameters<typeof resultCsv>[0])), wanted)
  assert.equal(text(csvOf([[-0, 0]])), '"-0","0",""\n')
})
