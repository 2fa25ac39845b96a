import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Frames } from './frames.ts'

describe('messages in pieces', () => {
  it('are the same however small the pieces, which do not pile up', () => {
    const body = Buffer.alloc(20_000, 'x')
    const head = Buffer.alloc(5)
    head.write('Q')
    head.writeInt32BE(body.length + 4, 1)
    const frames = new Frames(() => 2 ** 20)
    let most = 0
    for (const byte of Buffer.concat([head, body, head, body])) {
      frames.push(Buffer.from([byte]))
      most = Math.max(most, frames.chunks)
    }
    assert.ok(most < 600, `${most} pieces`)
    assert.deepEqual(frames.next(), { type: 'Q', body })
    assert.deepEqual(frames.next(), { type: 'Q', body })
    assert.deepEqual([frames.next(), frames.bufferedBytes], [null, 0])
  })
})
