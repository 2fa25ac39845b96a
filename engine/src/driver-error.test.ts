import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import { fromDriver } from './driver-error.ts'
import { fromWireError, toWireError } from './walls/wire-error.ts'

describe('what the driver says', () => {
  const told: readonly (readonly [driver: string, sql: string, code: string, message: RegExp])[] = [
    [
      "Conversion Error: Could not convert string 'hush' to INT32",
      'SELECT x',
      'sql_conversion_error',
      /cannot be converted/,
    ],
    [
      'Binder Error: Referenced column "nope" not found in FROM clause!\nCandidate bindings: "hush"',
      'SELECT nope',
      'column_not_found',
      /"nope"/,
    ],
    [
      'Binder Error: Referenced column "hush" not found in FROM clause!',
      'SELECT 1',
      'column_not_found',
      /of that name/,
    ],
    [
      'Catalog Error: Table with name hush does not exist!\nDid you mean "hush"?',
      'SELECT 1',
      'table_not_found',
      /of that name/,
    ],
    ['Out of Memory Error: failed to allocate (hush)', 'SELECT 1', 'query_memory_exceeded', /more memory/],
    ['IO Error: Cannot open file "/hush": No such file', 'SELECT 1', 'engine_io_failed', /one of its files/],
    ['IO Error: Could not write file "/hush": No space left on device', 'SELECT 1', 'disk_full', /disk .* is full/],
    [
      'IO Error: Parquet writer: map key column hush is not allowed to contain NULL values',
      'SELECT 1',
      'sql_unsupported',
      /cannot be kept in a parquet file/,
    ],
    [
      'IO Error: Parquet files do not support negative intervals',
      'SELECT 1',
      'sql_unsupported',
      /cannot be kept in a parquet file/,
    ],
    ['Permission Error: Cannot access file "/hush"', 'SELECT 1', 'sql_not_allowed', /outside its tables/],
    ['Something Else Error: hush', 'SELECT 1', 'engine_failed', /the engine failed/],
    ['hush', 'SELECT 1', 'engine_failed', /the engine failed/],
  ]
  for (const [driver, sql, code, message] of told) {
    it(`is told in words of ours: ${driver.slice(0, 40)}`, () => {
      const error = fromDriver(new Error(driver), sql)
      assert.equal(error.code, code)
      assert.match(error.message, message)
      assert.doesNotMatch(JSON.stringify([error.message, error.remedy, error.details]), /hush/)
    })
  }

  it('is an error about files where the file system said it', () => {
    const missing = Object.assign(new Error("ENOENT: no such file, open '/hush'"), { code: 'ENOENT', syscall: 'open' })
    assert.equal(fromDriver(missing, null).code, 'engine_io_failed')
  })

  it('is the statement’s own fault where it is nested deeper than what walks over it can go', () => {
    const walk = (): number => walk() + 1
    assert.throws(walk, (error) => {
      const { kind, code, remedy } = fromDriver(error, null)
      assert.deepEqual([kind, code], ['INVALID_DATA', 'sql_not_allowed'])
      return remedy !== undefined && remedy !== ''
    })
  })

  it('passes over an error of ours, and over the channel', () => {
    const ours = new SluiceError('QUOTA', 'too much', {
      code: 'x',
      remedy: 'less',
      details: { a: 1 },
      cause: new Error('why'),
    })
    assert.equal(fromDriver(ours, null), ours)
    const arrived = fromWireError(toWireError(ours))
    assert.deepEqual(
      [arrived.kind, arrived.code, arrived.message, arrived.remedy, arrived.details, (arrived.cause as Error).message],
      ['QUOTA', 'x', 'too much', 'less', { a: 1 }, 'why'],
    )
  })
})
