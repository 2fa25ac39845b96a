import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../../../../test/until.ts'
import { RowBuffer } from './row-buffer.ts'

function gathered() {
  const pieces: Buffer[] = []
  const buffer = new RowBuffer((rows) => pieces.push(Buffer.from(rows)))
  return { buffer, pieces, bytes: () => Buffer.concat(pieces) }
}

for (const size of [1, 8_191, 65_536, 131_072, 500_000]) {
  test(`rows that come in pieces of ${size} bytes go on as they are, in few pieces`, () => {
    const { buffer, pieces, bytes } = gathered()
    const all = Buffer.from(Array.from({ length: Math.min(size * 300, 1_500_000) }, (_, index) => (index * 31) % 251))
    const own = Buffer.alloc(size)
    for (let at = 0; at < all.length; at += size) {
      // The sender may use its bytes again.
      const piece = own.subarray(0, all.copy(own, 0, at, at + size))
      buffer.add(piece)
      piece.fill(0)
    }
    buffer.flush()
    assert(bytes().equals(all))
    assert(pieces.length <= Math.ceil(all.length / 131_072))
  })
}

test('rows go on by themselves where no more come', async () => {
  const { buffer, bytes } = gathered()
  assert.equal(buffer.add(Buffer.from('"1"\n')), false)
  await until('they have gone on', async () => bytes().length > 0)
  assert.equal(bytes().toString(), '"1"\n')
})

test('rows that were dropped never go on', () => {
  const { buffer, bytes } = gathered()
  buffer.add(Buffer.from('"1"\n'))
  buffer.drop()
  buffer.add(Buffer.from('"2"\n'))
  buffer.flush()
  assert.equal(bytes().toString(), '"2"\n')
})
