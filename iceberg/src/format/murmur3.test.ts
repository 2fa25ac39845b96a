import assert from 'node:assert/strict'
import { test } from 'node:test'
import { murmur3 } from './murmur3.ts'
import { encodeStored, twosComplement } from './stored-value.ts'

test('hashes are those of the specification', () => {
  const long = (value: bigint) => murmur3(encodeStored('long', value))
  assert.equal(long(34n), 2017239379)
  assert.equal(long(17486n), -653330422)
  assert.equal(long(1510871468000000n), -2047944441)
  assert.equal(murmur3(twosComplement(1420n)), -500754589)
  assert.equal(murmur3(Buffer.from('iceberg')), 1210000089)
  assert.equal(murmur3(encodeStored('uuid', 'f79c3e09-677c-4bbd-a479-3f349cb785e7')), 1488055340)
  assert.equal(murmur3(Buffer.from([0, 1, 2, 3])), -188683207)
})
