import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { StreamOutput } from './job.ts'
import { OutputLines } from './output-lines.ts'

/** However the bytes arrive, what leaves is the same. */
function through(
  kind: StreamOutput['kind'],
  maxRows: number | undefined,
  text: string,
  cuts: readonly number[],
): string {
  const lines = new OutputLines(kind, maxRows)
  const bytes = Buffer.from(text)
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
  const parts = places.slice(1).map((end, index) => bytes.subarray(places[index], end))
  return Buffer.concat(parts.map((part) => lines.take(part))).toString()
}

const cuts = fc.array(fc.nat(1000))

describe('lines of an output', () => {
  it('lose the comma after the last row', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), cuts, (values, at) => {
        const text = values.map((value) => `${JSON.stringify([value])},\n`).join('')
        assert.deepEqual(
          JSON.parse(`[${through('json-rows', undefined, text, at)}]`),
          values.map((value) => [value]),
        )
      }),
    )
  })

  it('are cut at the limit, and at the header as well in CSV', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b\n', '"', '\n\n', '')), fc.nat(10), cuts, (values, limit, at) => {
        const rows = values.map((value) => `"${value.replaceAll('"', '""')}",1\n`)
        const text = ['"x","y"\n', ...rows].join('')
        assert.equal(through('csv', limit, text, at), ['"x","y"\n', ...rows.slice(0, limit)].join(''))
        const objects = values.map((value) => `${JSON.stringify({ value })}\n`)
        assert.equal(through('ndjson', limit, objects.join(''), at), objects.slice(0, limit).join(''))
      }),
    )
  })

  it('of other kinds pass as they are', () => {
    for (const kind of ['copy-csv', 'parquet'] as const) assert.equal(through(kind, 1, 'a\nb\nc,\n', [2]), 'a\nb\nc,\n')
    assert.equal(through('rows', undefined, '[1]\n[2]\n', [3]), '[1]\n[2]\n')
  })
})
