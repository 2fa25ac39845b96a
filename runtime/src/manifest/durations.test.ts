import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseDuration, parseMemory } from './durations.ts'

describe('parseDuration', () => {
  it('reads seconds, minutes, hours and days', () => {
    assert.deepEqual(['30s', '15m', '24h', '7d'].map(parseDuration), [30_000, 900_000, 86_400_000, 604_800_000])
  })

  it('reads nothing else', () => {
    for (const text of ['', '0h', '1', 'h', '1 h', '-1h', '1.5h', '01h', '1w', '1h ', '9999999d']) {
      assert.equal(parseDuration(text), null, text)
    }
  })
})

describe('parseMemory', () => {
  it('reads units of thousands and of 1024', () => {
    assert.deepEqual(['512MB', '2GB', '1MiB', '2GiB'].map(parseMemory), [512e6, 2e9, 2 ** 20, 2 ** 31])
  })

  it('reads nothing else', () => {
    for (const text of ['', '0GB', '1G', '1 GB', '1.5GB', '1TB', '512mb']) assert.equal(parseMemory(text), null, text)
  })
})
