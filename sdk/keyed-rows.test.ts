import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { keyedLine, keyedRows } from './keyed-rows.ts'

async function* cut(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let start = 0
  for (const size of sizes) {
    yield new Uint8Array(bytes.subarray(start, start + size))
    start += size
  }
  yield new Uint8Array(bytes.subarray(start))
}

test('rows come out as they went in, wherever the chunks end', async () => {
  const key = fc.option(fc.string({ unit: 'grapheme' }).map((text) => text.replace(/\p{Cc}/gu, '%0A')))
  const json = fc
    .dictionary(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }))
    .map((one) => JSON.stringify(one))
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(key, json), { maxLength: 20 }),
      fc.array(fc.nat(40), { maxLength: 30 }),
      fc.integer({ min: 1, max: 5 }),
      async (rows, sizes, maxRows) => {
        const found: (readonly [string | null, string])[] = []
        for await (const some of keyedRows(
          cut(Buffer.from(rows.map((row) => keyedLine(...row)).join('')), sizes),
          maxRows,
        )) {
          assert.ok(some.rowCount > 0 && some.rowCount <= maxRows)
          for (let at = 0; at < some.rowCount; at += 1) {
            found.push([some.hasKey(at) ? some.key(at) : null, some.json(at)])
          }
        }
        assert.deepEqual(found, rows)
      },
    ),
    { numRuns: 500 },
  )
})

test('a line without an end is told', async () => {
  const rows = keyedRows(cut(Buffer.from(`${keyedLine('a', '{}')}b\x1f{}`), [3]), 10)
  assert.equal((await rows.next()).value?.key(0), 'a')
  await assert.rejects(rows.next(), /no end/)
})
