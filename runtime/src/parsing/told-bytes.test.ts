import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toldBytes } from './told-bytes.ts'

test('bytes are read as answers tell them, with padding or without', () => {
  for (const length of [0, 1, 2, 3, 4, 5, 64]) {
    const bytes = Buffer.from(Array.from({ length }, (_, at) => (at * 83 + 251) % 256))
    const told = bytes.toString('base64')
    for (const text of [told, told.replaceAll('=', '')]) assert.deepEqual(toldBytes(text), bytes, text)
  }
})

test('a text of which letters or bits would be left over is no bytes', () => {
  for (const text of ['A', 'AAAAA', 'AB==', 'AAB=', 'AA=', 'AAAA==', '_-8=', 'AA==AA==', 'A A=', '\\x00', 'é'])
    assert.equal(toldBytes(text), null, text)
})
